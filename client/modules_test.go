package client_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestModules runs the tests of the clients in other languages, against the command.
func TestModules(t *testing.T) {
	if testing.Short() {
		t.Skip("runs no Go of this module")
	}
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"browser", "node"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Glob(filepath.Join(folder, "test", "*.test.js"))
			if err != nil || len(files) == 0 {
				t.Fatal("no tests", err)
			}
			args := []string{"--test"}
			for _, f := range files {
				args = append(args, filepath.Join("test", filepath.Base(f)))
			}
			run(t, folder, []string{"WEIR=" + path}, servertest.Binary(t, "node"), args...)
		})
	}
}

// TestPython is TestModules for Python, by one that has the libraries of the adapters: else the
// tests of those would skip.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("runs no Go of this module")
	}
	t.Parallel()
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	python := servertest.Binary(t, "python3")
	if !hasAdapted(t, python) {
		const debians = "/usr/bin/python3" // packages of Debian are for that
		switch {
		case hasAdapted(t, debians):
			python = debians
		case os.Getenv("WEIR_REQUIRE_SERVERS") == "1":
			t.Fatalf("neither %s nor %s has requests, httpx and trio: `make servers` installs them", python, debians)
		}
	}
	run(t, "python", []string{"WEIR=" + path, "PYTHONDONTWRITEBYTECODE=1"}, python, "-W", "error", "-m", "unittest")
}

// hasAdapted reports whether a Python has what test_adapters.py needs.
func hasAdapted(t *testing.T, python string) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), python, "-c", "import requests, httpx, trio").Run() == nil
}

// typeScript returns the compiler, for a test that runs beside others.
func typeScript(t *testing.T) string {
	t.Helper()
	if os.Getenv("WEIR_REQUIRE_SERVERS") != "1" || testing.Short() {
		t.Skip("the compiler takes its time: `make test` runs it, or WEIR_REQUIRE_SERVERS=1")
	}
	t.Parallel()
	return servertest.Binary(t, "tsc")
}

// TestModuleTypes has TypeScript check a program that uses each module.
func TestModuleTypes(t *testing.T) {
	tsc := typeScript(t)
	for _, folder := range []string{"browser", "node"} {
		run(t, folder, nil, tsc, "--noEmit", "--strict", "--target", "es2022",
			"--module", "nodenext", "--moduleResolution", "nodenext", "--lib", "es2022,dom", "test/types.ts")
	}
}

// TestReadmeTypes has TypeScript check the programs of the README of client/node, with the
// libraries that they name.
func TestReadmeTypes(t *testing.T) {
	tsc := typeScript(t)
	dir := t.TempDir()
	modules := filepath.Join(dir, "node_modules")
	if err := os.MkdirAll(filepath.Join(modules, "@weirlimit"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"@weirlimit/client": "node", "ky": "../tools/fetch/node_modules/ky", "axios": "../tools/fetch/node_modules/axios"} {
		path, err := filepath.Abs(folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(modules, name)); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"package.json": `{"type": "module"}`}
	args := []string{"--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--lib", "es2022,dom"}
	for i, m := range regexp.MustCompile("(?s)```js\n(.*?)```").FindAllStringSubmatch(string(readFile(t, "node/README.md")), -1) {
		name := fmt.Sprintf("program%d.ts", i)
		files[name] = m[1] + "declare function refuse(ms: number): void;\n"
		args = append(args, name)
	}
	if len(files) != 5 {
		t.Fatalf("%d programs", len(files)-1)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, nil, tsc, args...)
}

// run runs a command in a folder, and fails with what it said if it fails.
func run(t *testing.T, folder string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = folder, slices.Concat(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

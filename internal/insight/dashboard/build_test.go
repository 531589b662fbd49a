package dashboard

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestBuiltFilesAreOfTheSources builds web/ anew, in another place, and compares
// every file with the one in dist/.
func TestBuiltFilesAreOfTheSources(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for some seconds: not with -short")
	}
	modules, err := filepath.Abs("web/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	vite := filepath.Join(modules, "vite", "bin", "vite.js")
	node, err := exec.LookPath("node")
	if _, missing := os.Stat(vite); err != nil || missing != nil {
		const advice = "node or its modules are missing: `make servers` installs them, or `npm --prefix internal/insight/dashboard/web ci`"
		if os.Getenv("WEIR_REQUIRE_SERVERS") == "1" {
			t.Fatal(advice)
		}
		t.Skip(advice)
	}
	web, dist := filepath.Join(t.TempDir(), "web"), filepath.Join(t.TempDir(), "dist")
	for _, part := range []string{"src", "index.html", "package.json", "svelte.config.js", "tsconfig.json", "vite.config.ts"} {
		copyTo(t, filepath.Join("web", part), filepath.Join(web, part))
	}
	if err := os.Symlink(modules, filepath.Join(web, "node_modules")); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(node, vite, "build")
	build.Dir = web
	build.Env = append(os.Environ(), "WEIR_DIST="+dist)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("vite build: %v\n%s", err, out)
	}
	want, got := files(t, dist), files(t, "dist")
	if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
		t.Fatalf("dist/ has %v, the sources make %v: run make dashboard", a, b)
	}
	for name := range want {
		if !bytes.Equal(want[name], got[name]) {
			t.Errorf("%s is not what the sources make: run make dashboard", name)
		}
	}
}

// TestBuiltFilesAreSmall keeps what a browser fetches at the first visit within
// what a slow line carries in a second or two.
func TestBuiltFilesAreSmall(t *testing.T) {
	const most = 110 << 10 // bytes, compressed
	sum := 0
	for name, a := range assets() {
		n := len(a.raw)
		if a.zipped != nil {
			n = len(a.zipped)
		}
		t.Logf("%7d bytes, %6d as sent: %s", len(a.raw), n, name)
		sum += n
	}
	if sum > most {
		t.Errorf("%d bytes, at most %d are allowed", sum, most)
	}
}

// files returns what lies in a folder by its path there.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// copyTo copies a file or a folder.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if info, err := os.Stat(from); err != nil {
		t.Fatal(err)
	} else if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

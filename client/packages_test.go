package client_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestNodePackages packs the modules as npm does, and uses them from an empty folder into
// which the package was installed.
func TestNodePackages(t *testing.T) {
	if testing.Short() {
		t.Skip("runs no Go of this module")
	}
	t.Parallel()
	npm, node := servertest.Binary(t, "npm"), servertest.Binary(t, "node")
	for folder, exports := range map[string]string{
		"browser": "LimitedError limitsOf throttle throttledFetch waitOf",
		"node":    "Client LimitedError RefusedError RequestError UnavailableError throttledFetch",
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			env := []string{"npm_config_cache=" + filepath.Join(dir, "cache"), "npm_config_update_notifier=false", "npm_config_offline=true"}
			run(t, folder, env, npm, "pack", "--silent", "--pack-destination", dir)
			packed := onlyFile(t, dir, "*.tgz")
			sources, err := filepath.Glob(filepath.Join(folder, "*.js"))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"LICENSE", "README.md", "index.d.ts", "package.json"}
			for _, s := range sources {
				want = append(want, filepath.Base(s))
			}
			slices.Sort(want)
			if got := filesOf(t, packed); !slices.Equal(got, want) {
				t.Errorf("packed %q, want %q", got, want)
			}
			user := filepath.Join(dir, "user")
			if err := os.Mkdir(user, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(user, "package.json"), []byte(`{"private":true,"type":"module"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, user, env, npm, "install", packed, "--offline", "--no-audit", "--no-fund")
			name := map[string]string{"browser": "@weirlimit/browser", "node": "@weirlimit/client"}[folder]
			said := run(t, user, nil, node, "--input-type=module", "--eval", `import * as m from "`+name+`"; console.log(Object.keys(m).sort().join(" "))`)
			if strings.TrimSpace(said) != exports {
				t.Errorf("%s exports %q, want %q", name, said, exports)
			}
		})
	}
}

// filesOf returns the files of an npm package.
func filesOf(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		dir, name := path.Split(h.Name)
		if dir != "package/" {
			t.Errorf("packed %s", h.Name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// usePackage imports the package from the folder that it was installed into and says what it
// has; and looks whether its oldest Python reads the sources.
const usePackage = `
import ast, importlib.metadata, pathlib, sys
target = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(target))
import weirlimit
assert pathlib.Path(weirlimit.__file__).parent == target / "weirlimit" and (target / "weirlimit" / "py.typed").is_file()
about = importlib.metadata.metadata("weirlimit")
assert about["License"] == "Apache-2.0" and all("extra ==" in d for d in about.get_all("Requires-Dist")) and "# weirlimit" in about.get_payload()
oldest = tuple(int(n) for n in about["Requires-Python"].removeprefix(">=").split("."))
for f in (target / "weirlimit").glob("*.py"):
    ast.parse(f.read_text(), feature_version=oldest)
print(about["Name"], *weirlimit.__all__)
`

// TestLicenceCopies: a package holds the licence from its own folder only.
func TestLicenceCopies(t *testing.T) {
	for _, folder := range []string{"browser", "node", "python"} {
		if !bytes.Equal(readFile(t, filepath.Join(folder, "LICENSE")), readFile(t, "../LICENSE")) {
			t.Errorf("client/%s/LICENSE is not LICENSE: copy it", folder)
		}
	}
}

// TestPythonPackage builds the wheel and the source distribution, a wheel from that, which is
// the same, and uses the package from where pip installed it.
func TestPythonPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("runs no Go of this module")
	}
	t.Parallel()
	python, pip, hatchling := servertest.Binary(t, "python3"), servertest.Binary(t, "pip3"), servertest.Binary(t, "hatchling")
	dir := t.TempDir()
	run(t, "python", nil, hatchling, "build", "-d", dir)
	wheel, source := onlyFile(t, dir, "*.whl"), onlyFile(t, dir, "*.tar.gz")
	run(t, dir, nil, "tar", "-xzf", source)
	run(t, strings.TrimSuffix(source, ".tar.gz"), nil, hatchling, "build", "-t", "wheel", "-d", filepath.Join(dir, "again"))
	first, second := readFile(t, wheel), readFile(t, onlyFile(t, filepath.Join(dir, "again"), "*.whl"))
	if !bytes.Equal(first, second) {
		t.Errorf("the wheel of the source distribution is another: %d bytes, not %d", len(second), len(first))
	}
	files, err := filepath.Glob("python/weirlimit/*.py")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	target := filepath.Join(dir, "target")
	run(t, dir, []string{"PIP_ROOT_USER_ACTION=ignore"}, pip, "install", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check", "--target", target, wheel)
	onlyFile(t, filepath.Join(target, "weirlimit-*.dist-info", "licenses"), "LICENSE")
	for _, f := range files {
		if !bytes.Equal(readFile(t, f), readFile(t, filepath.Join(target, "weirlimit", filepath.Base(f)))) {
			t.Errorf("%s is not what was installed", f)
		}
	}
	said := run(t, dir, []string{"PYTHONDONTWRITEBYTECODE=1"}, python, "-I", "-c", usePackage, target)
	want := "weirlimit AsyncClient Check Client Decision Descriptor Lease Limit LimitHandler LimitedError Options Outcome RefusedError RequestError Reservation Settlement Throttle UnavailableError"
	if strings.TrimSpace(said) != want {
		t.Errorf("the package has %q, want %q", said, want)
	}
}

// onlyFile returns the one file of a folder that a pattern fits.
func onlyFile(t *testing.T, folder, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %s: %v, %v", pattern, folder, found, err)
	}
	return found[0]
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

package client_test

import (
	"archive/tar"
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
			packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
			if err != nil || len(packed) != 1 {
				t.Fatal(packed, err)
			}
			sources, err := filepath.Glob(filepath.Join(folder, "*.js"))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"README.md", "index.d.ts", "package.json"}
			for _, s := range sources {
				want = append(want, filepath.Base(s))
			}
			slices.Sort(want)
			if got := filesOf(t, packed[0]); !slices.Equal(got, want) {
				t.Errorf("packed %q, want %q", got, want)
			}
			user := filepath.Join(dir, "user")
			if err := os.Mkdir(user, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(user, "package.json"), []byte(`{"private":true,"type":"module"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, user, env, npm, "install", packed[0], "--offline", "--no-audit", "--no-fund")
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

// usePackage copies what pyproject.toml names, as an installer does, imports it from there
// and says what it has; and looks whether its oldest Python reads the sources.
const usePackage = `
import ast, pathlib, shutil, sys, tomllib
target = pathlib.Path(sys.argv[1])
config = tomllib.loads(pathlib.Path("pyproject.toml").read_text())
assert config["project"]["dependencies"] == [] and pathlib.Path(config["project"]["readme"]).is_file()
oldest = tuple(int(n) for n in config["project"]["requires-python"].removeprefix(">=").split("."))
packages = config["tool"]["setuptools"]["packages"]
assert packages == [p.parent.name for p in pathlib.Path(".").glob("*/py.typed")]
for package in packages:
    files = [f for pattern in ["*.py", *config["tool"]["setuptools"]["package-data"][package]] for f in pathlib.Path(package).glob(pattern)]
    (target / package).mkdir()
    for f in files:
        if f.suffix == ".py":
            ast.parse(f.read_text(), feature_version=oldest)
        shutil.copy(f, target / package)
sys.path.insert(0, str(target))
import weirlimit
assert pathlib.Path(weirlimit.__file__).parent == target / "weirlimit" and (target / "weirlimit" / "py.typed").is_file()
print(config["project"]["name"], *weirlimit.__all__)
`

// TestPythonPackage uses the package from a copy of what its description names.
func TestPythonPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("runs no Go of this module")
	}
	t.Parallel()
	said := run(t, "python", []string{"PYTHONDONTWRITEBYTECODE=1"}, servertest.Binary(t, "python3"), "-I", "-c", usePackage, t.TempDir())
	want := "weirlimit AsyncClient Check Client Decision Descriptor Lease Limit LimitHandler LimitedError Options Outcome RefusedError RequestError Reservation Settlement Throttle UnavailableError"
	if strings.TrimSpace(said) != want {
		t.Errorf("the package has %q, want %q", said, want)
	}
}

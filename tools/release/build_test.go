package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// root is the checkout.
var root = must(filepath.Abs("../.."))

// dist is where TestMain has `make release` build linux/amd64, or WEIR_DIST, where it has
// built all: the tests are then of that.
var dist = os.Getenv("WEIR_DIST")

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	if dist != "" {
		return m.Run()
	}
	tmp, err := os.MkdirTemp("", "weir-release-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(tmp)
	// Others have to reach what is run as another user.
	if err := os.Chmod(tmp, 0o755); err != nil {
		panic(err)
	}
	dist = filepath.Join(tmp, "dist")
	if err := build(root, tmp, "release"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build has make build linux/amd64 alone, of a checkout, into the folder dist of tmp.
func build(checkout, tmp string, goals ...string) error {
	config, err := oneTarget(filepath.Join(checkout, ".goreleaser.yaml"), filepath.Join(tmp, "dist"))
	if err != nil {
		return err
	}
	file := filepath.Join(tmp, "goreleaser.yaml")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return err
	}
	args := append([]string{"-C", checkout, "DIST=" + filepath.Join(tmp, "dist"), "RELEASE_FLAGS=-f " + file}, goals...)
	cmd := exec.Command("make", args...)
	for _, v := range os.Environ() {
		// These are of the make that runs the tests.
		if name, _, _ := strings.Cut(v, "="); name != "MAKEFLAGS" && name != "MAKELEVEL" && name != "MFLAGS" {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make %v: %w\n%s", args, err, out)
	}
	return nil
}

// oneTarget returns the configuration of goreleaser with one platform and another folder.
func oneTarget(file, dist string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	config["dist"] = dist
	build := config["builds"].([]any)[0].(map[string]any)
	build["goos"], build["goarch"] = []string{"linux"}, []string{"amd64"}
	return yaml.Marshal(config)
}

// TestOneHash builds the commit a second time, in a clone at another path and in another
// time zone: every file of the release has the same checksum.
func TestOneHash(t *testing.T) {
	if os.Getenv("WEIR_DIST") != "" {
		t.Skip("WEIR_DIST was built of more platforms")
	}
	t.Parallel()
	tmp := t.TempDir()
	clone := filepath.Join(tmp, "elsewhere", "clone")
	run(t, "git", "clone", "-q", root, clone)
	// What is not committed yet comes along.
	for _, file := range strings.Fields(run(t, "git", "-C", root, "ls-files", "-m", "-o", "--exclude-standard")) {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue // removed
		}
		to := filepath.Join(clone, file)
		check(t, os.MkdirAll(filepath.Dir(to), 0o755))
		check(t, os.WriteFile(to, data, 0o644))
	}
	check(t, os.Mkdir(filepath.Join(clone, "bin"), 0o755))
	for _, tool := range []string{"goreleaser", "cyclonedx-gomod", "image"} {
		check(t, os.Symlink(filepath.Join(root, "bin", tool), filepath.Join(clone, "bin", tool)))
	}
	check(t, build(clone, tmp, "--assume-old=release-tools", "TZ=Asia/Kathmandu", "release"))
	first, second := checksums(t, dist), checksums(t, filepath.Join(tmp, "dist"))
	if len(first) != 10 {
		t.Errorf("%d files have checksums: %v", len(first), first)
	}
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s: %s, built again %s", name, sum, second[name])
		}
	}
}

// checksums returns the checksums of a release by file, as sha256sum finds them right.
func checksums(t *testing.T, dist string) map[string]string {
	t.Helper()
	file := only(t, dist, "*_checksums.txt")
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", filepath.Base(file))
	cmd.Dir = dist
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sums := map[string]string{}
	for line := range strings.Lines(read(t, file)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	return sums
}

// only returns the one file in a folder that a pattern fits.
func only(t *testing.T, folder, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %s: %v, %v", pattern, folder, found, err)
	}
	return found[0]
}

// run runs a command that must succeed, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// need skips a test whose program is not installed, or fails it where all must be.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("WEIR_REQUIRE_SERVERS") != "" {
			t.Fatalf("%s is not installed", p)
		}
		t.Skipf("%s is not installed", p)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	check(t, err)
	return string(data)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

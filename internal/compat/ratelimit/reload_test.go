package ratelimit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// domain is a file of rules with one limit.
func domain(name string, limit int) string {
	return fmt.Sprintf("domain: %s\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: %d}}]\n", name, limit)
}

// line is what /rlconfig says of it.
func line(name string, limit int) string {
	return fmt.Sprintf("%s.user: unit=HOUR requests_per_unit=%d, shadow_mode: false, quota_mode: false\n", name, limit)
}

// link points a symbolic link somewhere else in one step.
func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// rules returns /rlconfig.
func (n *node) rules() string {
	_, text := get(n.t, n.debug, "/rlconfig")
	return text
}

func TestReloadInPlace(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{
		"config/a.yaml": domain("a", 1), "config/README.txt": "{ not rules", "config/.b.yml": domain("b", 1), "config/deep/c.yaml": domain("c", 1),
	})
	n := start(t, program, inPlace(root)...)
	if got, want := n.rules(), line("b", 1)+line("a", 1)+line("c", 1); got != want {
		t.Fatalf("rules are %q, want %q", got, want)
	}
	write(t, root, map[string]string{"config/a.yaml": domain("a", 2)})
	n.config(line("a", 2))
	write(t, root, map[string]string{"config/new.yml": domain("new", 7)})
	n.config(line("new", 7))
	if err := os.Remove(filepath.Join(root, "config/new.yml")); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the removed file's rules to go", func() bool { return !strings.Contains(n.rules(), "new.user") })

	// Two files can have one name.
	write(t, root, map[string]string{"config/deep.c.yaml": domain("c", 5)})
	n.config(line("c", 5))
	n.series("runtime_num_values", 4)
	if err := os.Remove(filepath.Join(root, "config/deep.c.yaml")); err != nil {
		t.Fatal(err)
	}
	n.config(line("c", 1))

	// One bad file refuses the whole set.
	write(t, root, map[string]string{"config/d.yaml": "domain: d\ncolour: blue\n"})
	n.series("ratelimit_service_config_load_error", 1)
	if got := n.rules(); got != line("b", 1)+line("a", 2)+line("c", 1) {
		t.Errorf("after a bad file the rules are %q", got)
	}
	n.saw("Error loading new configuration: d.yaml: config error, unknown key 'colour'")
	write(t, root, map[string]string{"config/d.yaml": domain("d", 4)})
	n.config(line("d", 4))
}

func TestReloadIgnoringDotFiles(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{"config/a.yaml": domain("a", 1), "config/.b.yaml": domain("b", 1), "config/.c/c.yaml": domain("c", 1)})
	n := start(t, program, append(inPlace(root), "RUNTIME_IGNOREDOTFILES=true")...)
	if got := n.rules(); got != line("a", 1) {
		t.Errorf("rules are %q", got)
	}
}

// A ConfigMap as kubelet mounts it: files are links through ..data, which is
// swapped.
func TestReloadOfConfigMap(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "config")
	write(t, dir, map[string]string{"..2026_1/a.yaml": domain("a", 1), "..2026_1/b.yaml": domain("b", 1)})
	link(t, "..2026_1", filepath.Join(dir, "..data"))
	for _, name := range []string{"a.yaml", "b.yaml"} {
		link(t, "..data/"+name, filepath.Join(dir, name))
	}
	n := start(t, program, inPlace(root)...)
	if got := n.rules(); got != line("a", 1)+line("b", 1) {
		t.Fatalf("rules are %q", got)
	}
	write(t, dir, map[string]string{"..2026_2/a.yaml": domain("a", 5), "..2026_2/b.yaml": domain("b", 6)})
	link(t, "..2026_2", filepath.Join(dir, "..data"))
	n.config(line("a", 5) + line("b", 6))
	if v, ok := n.value("ratelimit_service_config_load_error"); ok {
		t.Errorf("%v errors on the way", v)
	}
}

func TestReloadBySwap(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{
		"v1/rl/config/a.yaml": domain("a", 1), "v1/rl/config/sub/b.yaml": domain("b", 1), "v1/rl/other/c.yaml": domain("c", 1), "v1/rl/config.d.yaml": domain("d", 1),
		"v2/rl/config/a.yaml": domain("a", 2),
	})
	current := filepath.Join(root, "current")
	link(t, "v1", current)
	n := start(t, program, "RUNTIME_ROOT="+current, "RUNTIME_SUBDIRECTORY=rl")
	if got := n.rules(); got != line("a", 1)+line("d", 1)+line("b", 1) {
		t.Fatalf("rules are %q", got)
	}
	n.series("runtime_num_values", 4)
	// A change in place does not count in this mode; the swap after it does.
	write(t, root, map[string]string{"v1/rl/config/a.yaml": domain("a", 9)})
	link(t, "v2", current)
	n.config(line("a", 2))
	n.series("ratelimit_service_config_load_success", 2)
	// Errors name the file with its directory.
	write(t, root, map[string]string{"v3/rl/config/a.yaml": "domain: ''"})
	link(t, "v3", current)
	n.saw("Error loading new configuration: config.a.yaml: config file cannot have empty domain")
	if got := n.rules(); got != line("a", 2) {
		t.Errorf("rules are %q", got)
	}
}

func TestNoRulesAtAll(t *testing.T) {
	t.Parallel()
	// Nothing is named: there are no rules, and that is a success.
	n := start(t, program, "RUNTIME_ROOT="+t.TempDir(), "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true")
	n.series("ratelimit_service_config_load_success", 1)
	if code, text := get(t, n.http, "/healthcheck"); code != 500 || text != "" {
		t.Errorf("/healthcheck: %d %q, want 500 until there are rules", code, text)
	}
	if res, err := ask(t, n.dial(), "shop", "user=ann"); err != nil || res.OverallCode.String() != "OK" {
		t.Errorf("got %v, %v", res, err)
	}
}

func TestHealthFollowsRules(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{"config/a.yaml": "domain: ''"})
	n := start(t, program, append(inPlace(root), "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true")...)
	healthy := func(want bool) {
		t.Helper()
		servertest.Await(t, fmt.Sprint("health to be ", want), func() bool {
			code, _ := get(t, n.http, "/healthcheck")
			return (code == 200) == want
		})
	}
	healthy(false)
	if _, err := ask(t, n.dial(), "a", "user=ann"); err == nil || !strings.Contains(err.Error(), "no rate limit configuration loaded") {
		t.Errorf("got %v", err)
	}
	write(t, root, map[string]string{"config/a.yaml": domain("a", 1)})
	healthy(true)
	if err := os.Remove(filepath.Join(root, "config/a.yaml")); err != nil {
		t.Fatal(err)
	}
	healthy(false)
}

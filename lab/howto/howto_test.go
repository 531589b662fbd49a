// Package howto follows the how-to pages and the tutorials: it writes the files that a page
// shows, types its commands as they are printed, with the command that is built, and
// compares what they print. Each page has network namespaces of its own, so its usual ports
// are free.
package howto

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// reader names the variables by which this test starts itself as the reader of a page.
const (
	reader = "WEIR_HOWTO_PAGE" // the page's file, or "probe"
	named  = "WEIR_HOWTO_NAME" // its path from docs/
)

// binary is the folder of the built commands. Set once by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if page, name := os.Getenv(reader), os.Getenv(named); page != "" {
		if err := errors.Join(os.Unsetenv(reader), os.Unsetenv(named), follow(page, name)); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	path, clean, err := servertest.Command()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer clean()
	binary = filepath.Dir(path)
	if said, err := exec.Command("go", "build", "-o", binary, "../simulate").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, said)
		return 1
	}
	return m.Run()
}

// follow does what a page says, in the namespaces of this process.
func follow(page, name string) error {
	about := pages[name]
	if err := prepare(strings.Join(about.hosts, " ")); err != nil || page == "probe" {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	steps, err := parsePage(string(text))
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, setUp := range about.setup {
		if err := setUp(dir); err != nil {
			return fmt.Errorf("what a reader has: %w", err)
		}
	}
	patience := within
	if name == "" {
		patience = wrong
	}
	sh, err := startShell(dir, patience)
	if err != nil {
		return err
	}
	ran, left := 0, about.left
	for _, st := range steps {
		if st.file != "" {
			if err := writeFile(filepath.Join(dir, st.file), st.text); err != nil {
				return err
			}
			continue
		}
		if i := slices.IndexFunc(left, func(l omission) bool { return strings.HasPrefix(st.command, l.command) }); i >= 0 {
			left = slices.Delete(slices.Clone(left), i, i+1)
			continue
		}
		if err := sh.run(context.Background(), st); err != nil {
			return fmt.Errorf("line %d: $ %s\n%w", st.line, st.command, err)
		}
		ran++
	}
	if len(left) > 0 {
		return fmt.Errorf("the page has no command %q that would have to be left out", left[0].command)
	}
	if ran == 0 {
		return errors.New("the page has no command that runs")
	}
	return nil
}

// writeFile writes a file at once, as editors do.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// readPage follows a page in a process of its own, and returns what went wrong.
func readPage(t *testing.T, page, name string) error {
	t.Helper()
	page, err := filepath.Abs(page)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Dir = t.TempDir()
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WEIR_") })
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.Fields(string(caches))
	cmd.Env = append(cmd.Env, reader+"="+page, named+"="+name, rootFolder+"="+root,
		"TMPDIR="+t.TempDir(), "HOME="+t.TempDir(), "CURL_HOME="+filepath.Join(root, "lab/howto/testdata"),
		"GOCACHE="+cache[0], "GOMODCACHE="+cache[1], "GOPROXY=off", "GOFLAGS=-mod=mod",
		// bin has the Caddy of make servers, sbin the servers of Debian.
		"PATH="+strings.Join([]string{binary, filepath.Join(root, "bin"), os.Getenv("PATH"), "/usr/sbin", "/sbin"}, ":"))
	isolate(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// requireNamespaces skips a test where the system gives none, or fails it if servers are
// required.
func requireNamespaces(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), reader+"=probe", "TMPDIR="+t.TempDir())
	isolate(cmd)
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("WEIR_REQUIRE_SERVERS") == "1":
		t.Fatalf("no namespaces, which need root and CAP_SYS_ADMIN: %v\n%s", err, out)
	default:
		t.Skipf("no namespaces, which need root and CAP_SYS_ADMIN: %v\n%s", err, out)
	}
}

// The commands of every how-to page and tutorial do what the page says.
func TestPages(t *testing.T) {
	requireNamespaces(t)
	seen := map[string]bool{}
	for _, kind := range []string{"how-to", "tutorials"} {
		files, err := fs.Glob(os.DirFS("../../docs"), kind+"/*.md")
		if err != nil || len(files) == 0 {
			t.Fatalf("%d pages of docs/%s, %v", len(files), kind, err)
		}
		for _, name := range files {
			seen[name] = true
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, program := range pages[name].programs {
					servertest.Binary(t, program)
				}
				for _, program := range pages[name].built {
					servertest.Built(t, program)
				}
				if err := readPage(t, filepath.Join("../../docs", name), name); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for name := range pages {
		if !seen[name] {
			t.Errorf("there is no page docs/%s", name)
		}
	}
}

// A page that is wrong fails, and says where.
func TestWrongPages(t *testing.T) {
	requireNamespaces(t)
	const fine = "Write `rules.yaml`:\n\n```yaml\ndomain: api\ndescriptors:\n  - {key: user, limit: 1/hour}\n```\n\n" +
		"```console\n$ weir serve --rules rules.yaml\n...\nAPI ...\n...\n$ weir take user=ann\nallowed...\n...\n$ weir take user=ann\nrefused...\n...\n```\n"
	for name, c := range map[string]struct{ was, is, want string }{
		"right":                     {},
		"a flag that there is not":  {"weir take", "weir take --nothing", "unknown flag"},
		"another output":            {"refused...", "allowed...", "it ended with status 1, and printed:\nrefused"},
		"output that is missing":    {"allowed...", "allowed...\nand more", "the page says that it prints"},
		"a broken file":             {"1/hour", "1/hours and more", "it ended, and printed"},
		"a server that says less":   {"API ...", "no such line", "does not print what the page says"},
		"a command without a sign":  {"$ weir serve", "weir serve", `line 10: write "$ " before a command`},
		"a program that is missing": {"weir take", "weir-take", "command not found"},
		"nothing to run":            {fine, "Text.\n", "the page has no command that runs"},
		"a block without an end":    {"refused...\n...\n```\n", "refused...\n", "line 9: the block has no end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := fine
			if c.was != "" {
				text = strings.Replace(fine, c.was, c.is, 1)
				if text == fine {
					t.Fatalf("the page has no %q", c.was)
				}
			}
			page := filepath.Join(t.TempDir(), "page.md")
			if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := readPage(t, page, "")
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("it does not say %q: %v", c.want, err)
			}
		})
	}
}

// Output is compared line by line, and "..." stands for any.
func TestMatchOutput(t *testing.T) {
	for _, c := range []struct {
		want, got string
		match     bool
	}{
		{"a", "a\n", true},
		{"a", "a\r\n\n", true},
		{"a", "ab\n", false},
		{"a", "a\nb\n", false},
		{"a...", "a b\n", true},
		{"a...", "a\nb\n", false},
		{"...\nb\n...", "a\nb\nc\nd\n", true},
		{"...\nb\n...", "b\n", true},
		{"...\nb", "a\nc\n", false},
		{"a.b", "axb\n", false},
	} {
		if got := matchOutput(strings.Split(c.want, "\n"), c.got); got != c.match {
			t.Errorf("%q against %q: %t", c.want, c.got, got)
		}
	}
}

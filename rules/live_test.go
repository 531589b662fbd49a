package rules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/rules"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func ruleFile(count int) string {
	return fmt.Sprintf("domain: d\ndescriptors:\n  - key: k\n    limit: %d/minute\n", count)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// watched opens paths, and watches them until the test ends.
func watched(t *testing.T, opt rules.Options, paths ...string) *rules.Live {
	t.Helper()
	live, err := rules.Open(paths, opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- live.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return live
}

// quick looks at files at once, and polls so rarely that only notifications
// can have brought a change.
var quick = rules.Options{Settle: time.Millisecond, Poll: time.Hour}

// until waits for the status to be as ok says.
func until(t *testing.T, live *rules.Live, what string, ok func(rules.Status) bool) {
	t.Helper()
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	for {
		// The channel first: a change between the two is not missed.
		changed := live.Changed()
		if ok(live.Status()) {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("%s: status is %+v", what, live.Status())
		}
	}
}

// counts waits until the limit of key k is n.
func counts(t *testing.T, live *rules.Live, n int64) {
	t.Helper()
	until(t, live, fmt.Sprintf("limit %d", n), func(rules.Status) bool {
		ops := live.Match(nil, request("d", "k=1"))
		return len(ops) == 1 && ops[0].Limit.Count == n
	})
}

func TestLiveSeesFilesWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, ruleFile(1))
	live := watched(t, quick, dir)
	counts(t, live, 1)
	write(t, file, ruleFile(2))
	counts(t, live, 2)

	// An editor writes beside the file and renames over it.
	for n := 3; n < 6; n++ {
		tmp := filepath.Join(dir, ".a.yaml.swp")
		write(t, tmp, ruleFile(n))
		if err := os.Rename(tmp, file); err != nil {
			t.Fatal(err)
		}
		counts(t, live, int64(n))
	}
	write(t, filepath.Join(dir, "b.yml"), "domain: other\n")
	until(t, live, "second file", func(s rules.Status) bool { return len(s.Files) == 2 })
	if !live.Set().Has("other") {
		t.Error("domain of the second file is not there")
	}
}

func TestLiveSeesOneFileReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, ruleFile(1))
	live := watched(t, quick, file)
	write(t, filepath.Join(dir, "new"), ruleFile(2))
	if err := os.Rename(filepath.Join(dir, "new"), file); err != nil {
		t.Fatal(err)
	}
	counts(t, live, 2)
}

// TestLiveSeesConfigMapSwap does what the kubelet does: the files are links
// through ..data, which is swapped by a rename.
func TestLiveSeesConfigMapSwap(t *testing.T) {
	dir := t.TempDir()
	version := func(name string, count int) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "rules.yaml"), ruleFile(count))
		link(t, name, filepath.Join(dir, "..data_tmp"))
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..2026_01", 1)
	link(t, "..data/rules.yaml", filepath.Join(dir, "rules.yaml"))
	byDir := watched(t, quick, dir)
	byFile := watched(t, quick, filepath.Join(dir, "rules.yaml"))
	if got := byDir.Status().Files; len(got) != 1 || filepath.Base(got[0]) != "rules.yaml" {
		t.Errorf("files %q", got)
	}
	for n := 2; n < 5; n++ {
		version(fmt.Sprintf("..2026_%02d", n), n)
		counts(t, byDir, int64(n))
		counts(t, byFile, int64(n))
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_%02d", n-1))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLiveSeesRuntimeSwap does what Lyft's runtime does: a link above the
// directory is swapped.
func TestLiveSeesRuntimeSwap(t *testing.T) {
	root := t.TempDir()
	version := func(name string, count int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(root, name, "config"), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, name, "config", "rules.yaml"), ruleFile(count))
		link(t, name, filepath.Join(root, "next"))
		if err := os.Rename(filepath.Join(root, "next"), filepath.Join(root, "current")); err != nil {
			t.Fatal(err)
		}
	}
	version("v1", 1)
	live := watched(t, quick, filepath.Join(root, "current", "config"))
	for n := 2; n < 5; n++ {
		version(fmt.Sprintf("v%d", n), n)
		counts(t, live, int64(n))
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestLivePolls(t *testing.T) {
	dir := t.TempDir()
	real := t.TempDir()
	// A link in the directory leads to a file in another one, whose content is
	// changed in place: no directory on the way notices.
	write(t, filepath.Join(real, "target"), ruleFile(1))
	link(t, filepath.Join(real, "target"), filepath.Join(dir, "a.yaml"))
	live := watched(t, rules.Options{Settle: time.Millisecond, Poll: 5 * time.Millisecond}, dir)
	// The first change may be seen by the look that Watch begins with.
	for n := 2; n < 5; n++ {
		write(t, filepath.Join(real, "target"), ruleFile(n))
		counts(t, live, int64(n))
	}
}

func TestLiveKeepsLastGoodSet(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, ruleFile(1))
	live := watched(t, quick, dir)
	good := live.Status()

	write(t, file, "domain: d\ndescriptors:\n  - kye: k\n")
	// The file may be seen empty, before it is written.
	until(t, live, "failure", func(s rules.Status) bool { return s.Err != nil && strings.Contains(s.Err.Error(), "kye") })
	s := live.Status()
	var list rules.Errors
	if !errors.As(s.Err, &list) || s.FailedAt.IsZero() {
		t.Errorf("error %v at %s", s.Err, s.FailedAt)
	}
	if s.Generation != good.Generation || s.Hash != good.Hash || s.Failures == 0 {
		t.Errorf("after failure: %+v", s)
	}
	counts(t, live, 1)
	if err := live.Reload(); err == nil {
		t.Error("Reload of a bad file succeeded")
	}

	// One bad file among good ones keeps all from loading.
	write(t, filepath.Join(dir, "b.yaml"), "domain: b\n")
	until(t, live, "second failure", func(now rules.Status) bool { return now.Failures > s.Failures+1 })
	if live.Set().Has("b") {
		t.Error("half of the files were loaded")
	}

	write(t, file, ruleFile(2))
	counts(t, live, 2)
	if s := live.Status(); s.Err != nil || s.Generation != good.Generation+1 {
		t.Errorf("after repair: %+v", s)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	until(t, live, "removal", func(s rules.Status) bool { return s.Err != nil })
	counts(t, live, 2)
}

func TestReloadKeepsCounters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	write(t, file, ruleFile(3))
	live, err := rules.Open([]string{file}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	was := live.Match(nil, request("d", "k=1"))[0].Limit
	was.Counters().Add(weir.Refused)
	write(t, file, ruleFile(2))
	if err := live.Reload(); err != nil {
		t.Fatal(err)
	}
	now := live.Match(nil, request("d", "k=1"))[0].Limit
	if now == was || now.Count != 2 || now.Counters().Load(weir.Refused) != 1 {
		t.Errorf("count %d, %d refused", now.Count, now.Counters().Load(weir.Refused))
	}
	if now.ID() != was.ID() {
		t.Error("keys lost their state: the limit counts under another id")
	}
	// The same files again change nothing.
	before := live.Status()
	if err := live.Reload(); err != nil {
		t.Fatal(err)
	}
	if s := live.Status(); s.Generation != before.Generation || s.Successes != before.Successes+1 || live.Match(nil, request("d", "k=1"))[0].Limit != now {
		t.Errorf("reload of the same files: %+v", s)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := rules.Open([]string{dir}, rules.Options{}); err == nil || !strings.Contains(err.Error(), "no *.yaml") {
		t.Errorf("empty directory: %v", err)
	}
	live, err := rules.Open([]string{dir}, rules.Options{StartEmpty: true})
	if err != nil || live.Status().Err == nil {
		t.Fatalf("%v, %+v", err, live.Status())
	}
	if ops := live.Match(nil, request("d", "k=1")); len(ops) != 0 {
		t.Errorf("%d ops without rules", len(ops))
	}
	// What is no rules file is left alone.
	write(t, filepath.Join(dir, "README.txt"), "not: [rules")
	write(t, filepath.Join(dir, ".hidden.yaml"), "not: [rules")
	write(t, filepath.Join(dir, "a.yaml"), ruleFile(1))
	if err := os.MkdirAll(filepath.Join(dir, "sub.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(); err != nil {
		t.Fatal(err)
	}
	counts(t, live, 1)
}

// TestReloadAfterAPipe: a pipe in the place of a rules file is refused and does
// not end reloading.
func TestReloadAfterAPipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.yaml")
	const good = "domain: d\ndescriptors: [{key: k, limit: %d/s}]\n"
	write(t, file, fmt.Sprintf(good, 1))
	live, err := rules.Open([]string{file}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(t, file, fmt.Sprintf(good, 2))
	if err := live.Reload(); err != nil {
		t.Errorf("the good file is back: %v", err)
	}
	if got := live.Status().Generation; got != 2 {
		t.Errorf("generation %d, want 2", got)
	}
}

// TestFaultsQuoteLittle: what is no rules file is not repeated in logs.
func TestFaultsQuoteLittle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.yaml")
	secret := strings.Repeat("x", 100)
	for _, text := range []string{"root:$6$salt$" + secret + ":19000:0:::\n", secret + "\n", secret + ": 1\n", "domain: [" + secret + "]\n"} {
		write(t, file, text)
		if _, err := rules.Load([]string{file}, rules.Options{}); err == nil || strings.Contains(err.Error(), strings.Repeat("x", 50)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

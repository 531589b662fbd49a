package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

// Changes are looked at once they settle, at the latest when SettleMost has passed since the
// first one; a look for another reason in between does not take their place.
func TestSettles(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
		w := &Watcher{Notify: n, opt: Options{Settle: 20 * time.Millisecond, SettleMost: 50 * time.Millisecond, Poll: time.Second, Log: slog.New(slog.DiscardHandler),
			Counts: func(e fsnotify.Event) bool { return e.Name == "mine" }}}
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		tell := func(name string, at ...time.Duration) {
			for _, d := range at {
				time.AfterFunc(d*time.Millisecond-time.Since(start), func() { n.Events <- fsnotify.Event{Name: name} })
			}
		}
		wait := func(what string, at time.Duration, want bool) {
			t.Helper()
			changed, err := w.Wait(ctx)
			if got := time.Since(start); err != nil || changed != want || got != at*time.Millisecond {
				t.Errorf("%s: changed %t, %v after %s, want %t after %d ms", what, changed, err, got, want, at)
			}
		}
		tell("mine", 10)
		wait("a change", 30, true)
		tell("mine", 100, 115, 130, 145)
		wait("a row of changes", 150, true)
		tell("mine", 200)
		time.AfterFunc(55*time.Millisecond, func() { n.Errors <- errors.New("overflow") })
		wait("lost events", 205, false)
		wait("the change before", 225, true)
		tell("other", 300)
		wait("the poll", 1225, false)
		cancel()
		if _, err := w.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the end of the context: %v", err)
		}
	})
}

// Of a path are watched the folder of the file and those that hold a link on the way to it;
// of one that is not there, the last folder that is.
func TestFoldersOf(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"a/..one", "b"} {
		if err := os.MkdirAll(in(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"a/..data": "..one", "a/rules": "..data/rules", "b/far": in("a/rules"), "b/loop": "loop", "b/dir": "../a"} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(in("a/..one/rules"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(path string, want ...string) {
		t.Helper()
		got := foldersOf(path)
		slices.Sort(got)
		for i := range want {
			want[i] = in(want[i])
		}
		if got := slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	f(in("a/..one/rules"), "a/..one")
	f(in("a"), "a")
	f(in("a/rules"), "a", "a/..one")
	f(in("b/far"), "a", "a/..one", "b")
	f(in("a/none/of/it"), "a")
	f(in("b/dir/rules"), "a", "a/..one", "b")
	f(in("b/loop"), "b")
	f("")
}

// An empty path is no path, and a folder that is not followed any more is not watched any
// more.
func TestFollow(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	w := New(Options{Log: slog.New(slog.DiscardHandler)})
	defer w.Close()
	for _, paths := range [][]string{{a, ""}, {a, b}, {b}, {filepath.Join(b, "none")}} {
		w.Follow(paths...)
		var want []string
		for _, p := range paths {
			if p != "" {
				real, err := filepath.EvalSymlinks(p)
				if err != nil {
					real = b
				}
				want = append(want, real)
			}
		}
		got := w.Notify.WatchList()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q is watched, want %q", paths, got, want)
		}
	}
}

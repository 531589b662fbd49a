package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// source returns the files below a directory as rules, and the service that takes
// them.
func source(t *testing.T, root string, env map[string]string) (*fileSource, *Rules) {
	t.Helper()
	s, err := settings.Parse(func(name string) (string, bool) {
		v, ok := env[name]
		if name == "RUNTIME_ROOT" {
			return root, true
		}
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	f, err := newFileSource(s, stats.New(stats.Options{}).Scope("runtime"), log)
	if err != nil {
		t.Fatal(err)
	}
	return f, newRules(envoy.New(envoy.Options{}), s, newHealth(false, func(bool) {}), log)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The start waits for a first set of rules, good or bad, from files or over xDS.
func TestFirstSetThatIsBadEndsTheWait(t *testing.T) {
	for name, load := range map[string]func(r *Rules) error{
		"files": func(r *Rules) error { return r.TakeFiles([]envoy.File{{Name: "bad", Content: []byte("domain: ''")}}) },
		"xDS":   func(r *Rules) error { return r.Resources([]*rlsconfv3.RateLimitConfig{{Name: "bad"}}) },
	} {
		_, rules := source(t, t.TempDir(), nil)
		select {
		case <-rules.First():
			t.Errorf("%s: the wait ends before there is a set", name)
		default:
		}
		if err := load(rules); err == nil {
			t.Errorf("%s: a domain without a name is taken", name)
		}
		select {
		case <-rules.First():
		default:
			t.Errorf("%s: the wait goes on", name)
		}
	}
}

// A watcher that has lost events, as it says by an error, is made good by a look.
func TestLostEvents(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "config/a.yaml"), "domain: a")
	f, rules := source(t, root, map[string]string{"RUNTIME_WATCH_ROOT": "false"})
	// Nothing is told any more.
	if err := f.watcher.Notify.Remove(f.watched); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx, rules) }()
	defer func() { cancel(); <-ended }()
	<-rules.First()
	put(t, filepath.Join(root, "config/b.yaml"), "domain: b")
	select {
	case f.watcher.Notify.Errors <- errors.New("queue overflow"):
	case <-time.After(time.Minute):
		t.Fatal("nobody hears of errors")
	}
	// The second is heard once the first has been dealt with.
	f.watcher.Notify.Errors <- errors.New("queue overflow")
	if n, _ := rules.service.LoadedDomains(); n != 2 {
		t.Errorf("%d domains, want 2", n)
	}
}

// While a directory cannot be read the rules stay, unless an event says that they
// are gone.
func TestStateOfWhatCannotBeRead(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "config/a.yaml"), "domain: a")
	f, rules := source(t, root, map[string]string{"RUNTIME_WATCH_ROOT": "false"})
	defer f.watcher.Close()
	f.lookForRules(rules, true)
	f.lookForRules(rules, false)
	if got := f.tree.attempts.Value(); got != 1 {
		t.Errorf("what has not changed was loaded %d times", got)
	}
	if err := os.Rename(filepath.Join(root, "config"), filepath.Join(root, "away")); err != nil {
		t.Fatal(err)
	}
	f.lookForRules(rules, false)
	if got := f.tree.attempts.Value() + f.tree.failures.Value(); got != 1 {
		t.Error("what cannot be read is taken for a change")
	}
	if n, _ := rules.service.LoadedDomains(); n != 1 {
		t.Errorf("%d domains, want the one there was", n)
	}
}

func TestTooManyFiles(t *testing.T) {
	root := t.TempDir()
	for i := range 3 {
		put(t, filepath.Join(root, "config", string(rune('a'+i))+".yaml"), "domain: a")
	}
	f, _ := source(t, root, map[string]string{"RUNTIME_WATCH_ROOT": "false"})
	defer f.watcher.Close()
	r := reading{tree: f.tree, named: map[string]*envoy.File{}}
	for i := range maxFiles - 2 {
		r.named[fmt.Sprint(i)] = nil
	}
	r.directory(f.tree.root, "")
	if files := r.files(); len(files) != 2 || len(r.failures) != 1 {
		t.Errorf("%d files and %v; want two, and that there are more", len(files), r.failures)
	}
}

package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// What became of each attempt to read the rules is remembered: by whom it was asked
// for, what it changed, why it was refused.
func TestReloadsAreRemembered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	log := new(servertest.Log)
	rule := func(limits string) string { return "domain: api\ndescriptors:\n" + limits }
	put(rule("  - {key: a, limit: 2/hour}\n  - {key: b, limit: 7/day}\n"))
	r, err := openRules(&config.Config{Store: "memory:", Rules: file, API: config.API{Domain: "api"}}, nil, &openedStore{}, nil, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.watchFiles(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	attempts := func(n int) []attempt {
		t.Helper()
		servertest.Await(t, fmt.Sprintf("attempt %d", n), func() bool { return len(r.history.listAttempts()) >= n })
		return r.history.listAttempts()
	}
	if a := attempts(1); a[0].By != "start" || a[0].Generation != 1 || a[0].Rules != 2 || a[0].Removed != nil || a[0].Added != nil {
		t.Errorf("the start: %+v", a[0])
	}
	put(rule("  - {key: a, limit: 5/hour}\n  - {key: b, limit: 7/day}\n"))
	if a := attempts(2); a[0].By != "files" || a[0].Generation != 2 || len(a[0].Removed) != 1 || !strings.HasPrefix(a[0].Removed[0], "api a: 2/hour") ||
		len(a[0].Added) != 1 || !strings.HasPrefix(a[0].Added[0], "api a: 5/hour") || a[0].Error != "" {
		t.Errorf("a changed file: %+v", a[0])
	}
	put(rule("  - {key: a, limit: 5/huor}\n"))
	if a := attempts(3); a[0].By != "files" || a[0].Generation != 2 || !strings.Contains(a[0].Error, "rules.yaml:3:") || a[0].Removed != nil {
		t.Errorf("a broken file: %+v", a[0])
	}
	r.reloadFiles()
	if a := attempts(4); a[0].By != "signal" || a[0].Error == "" || a[0].Number != 4 || a[3].By != "start" {
		t.Errorf("asked for: %+v", a[0])
	}
	var many strings.Builder
	for i := range maxChanges + 5 {
		fmt.Fprintf(&many, "  - {key: k%d, limit: 1/hour}\n", i)
	}
	put(rule(many.String()))
	if a := attempts(5); len(a[0].Added) != maxChanges || len(a[0].Removed) != 2 || a[0].Left != 5 {
		t.Errorf("many changes: %+v", a[0])
	}
	for _, want := range []string{"generation=2 added=1 removed=1\n", "generation=3 added=25 removed=2\n"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if n := strings.Count(log.String(), "limits changed"); n != 2 {
		t.Errorf("%d changes are logged, want 2:\n%s", n, log)
	}
	for range maxReloads {
		r.reloadFiles()
	}
	if a := r.history.listAttempts(); len(a) != maxReloads || a[0].Number != 5+maxReloads {
		t.Errorf("%d are remembered, the last is number %d", len(a), a[0].Number)
	}
}

package rules_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/race"
	seeding "github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

const saas = `
domain: api
descriptors:
- key: plan
  value: free
  descriptors:
  - {key: user, limit: 2/hour}
  - key: region
    descriptors:
    - {key: path, limit: 9/hour}
- {key: path, value: /login, limit: 3/hour}
- {key: user, limit: 5/hour}
- {key: path, value: /health, limit: unlimited}
`

func limiterOf(t *testing.T, text string) *weir.Limiter {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(text), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{})
	t.Cleanup(func() { store.Close() })
	l, err := weir.New(store, set, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Rules are asked by keys and values: what they limit is limited, values without a limit
// pass, and what no rule can look at is an error, which refuses.
func TestTakeBy(t *testing.T) {
	l := limiterOf(t, saas)
	admitted := func(times int, entries ...string) (n int) {
		t.Helper()
		for range times {
			d, err := l.TakeBy(t.Context(), "api", 1, entries...)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed() {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		entries []string
		want    int
	}{
		{[]string{"plan", "free", "user", "ann"}, 2},
		{[]string{"plan", "gold", "user", "ann"}, 10},
		{[]string{"user", "ann"}, 5},
		{[]string{"path", "/login"}, 3},
		{[]string{"path", "/health"}, 10},
		{[]string{"path", "/other"}, 10},
	} {
		if got := admitted(10, c.entries...); got != c.want {
			t.Errorf("%q: %d of 10 pass, not %d", c.entries, got, c.want)
		}
	}
	if d, err := l.TakeBy(t.Context(), "api", 0, "user", "bob"); err != nil || !d.Allowed() || d.Remaining != 5 {
		t.Errorf("a look: %+v, %v", d, err)
	}
	for _, c := range []struct {
		domain  string
		cost    int64
		entries []string
		is      error
		says    string
	}{
		{"api", 1, []string{"usr", "ann"}, weir.ErrNoRule, `did you mean "user"?`},
		{"api", 1, []string{"user", "ann", "plan", "free"}, weir.ErrNoRule, `did you mean "plan/user"?`},
		{"api", 1, []string{"plan", "free"}, weir.ErrNoRule, "plan"},
		{"apis", 1, []string{"user", "ann"}, weir.ErrNoRule, `did you mean "api"?`},
		{"", 1, []string{"user", "ann"}, weir.ErrNoRule, "api"},
		{"api", 1, nil, weir.ErrNoRequest, "0 texts"},
		{"api", 1, []string{"user"}, weir.ErrNoRequest, "1 texts"},
		{"api", 1, []string{"user", "ann", "plan"}, weir.ErrNoRequest, "3 texts"},
		{"api", -1, []string{"user", "ann"}, weir.ErrCost, "cost"},
		{"api", weir.MaxCost + 1, []string{"usr", "ann"}, weir.ErrCost, "cost"},
	} {
		d, err := l.TakeBy(t.Context(), c.domain, c.cost, c.entries...)
		if d != (weir.Decision{}) || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %d %q: %+v, %v", c.domain, c.cost, c.entries, d, err)
		}
	}
}

// A request that meets no limit is as usual as another: it allocates nothing either.
func TestTakeByAllocatesNothing(t *testing.T) {
	l := limiterOf(t, saas)
	for _, entries := range [][]string{{"plan", "gold", "user", "ann"}, {"path", "/health"}, {"path", "/other"}, {"user", "ann"}, {"plan", "gold", "region", "eu", "path", "/"}} {
		n := testing.AllocsPerRun(200, func() {
			if _, err := l.TakeBy(t.Context(), "api", 1, entries...); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 && !race.Enabled { // whose pool of requests drops some
			t.Errorf("%q: %v allocations", entries, n)
		}
	}
}

// TestTakeByIsDecide: two limiters of the same rules, one asked by TakeBy and one by
// Decide, answer alike, but for what no rule looks at.
func TestTakeByIsDecide(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeding.Of(t), 26))
	by, decide := limiterOf(t, saas), limiterOf(t, saas)
	words := []string{"plan", "user", "path", "free", "gold", "ann", "bob", "/login", "/health", ""}
	errs := 0
	for range 3000 {
		domain := []string{"api", "api", "api", "other"}[rnd.IntN(4)]
		var texts []string
		r := decide.Acquire()
		var entries []weir.Entry
		for range 1 + rnd.IntN(3) {
			k, v := words[rnd.IntN(len(words))], words[rnd.IntN(len(words))]
			texts = append(texts, k, v)
			entries = append(entries, weir.Entry{Key: k, Value: v})
		}
		r.Domain, r.Cost = domain, rnd.Int64N(3)
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: entries})
		if r.Cost == 0 {
			r.Verb = weir.Peek
		}
		got, err := by.TakeBy(t.Context(), domain, r.Cost, texts...)
		want, wantErr := decide.Decide(context.Background(), r)
		switch {
		case errors.Is(err, weir.ErrNoRule):
			if errs++; len(r.Ops()) > 0 || got.Allowed() {
				t.Errorf("%s %q: %v, and %d limits are met", domain, texts, err, len(r.Ops()))
			}
		case err != nil || wantErr != nil:
			t.Errorf("%s %q: %v, Decide says %v", domain, texts, err, wantErr)
		case got.Allowed() != want.Allowed() || got.Remaining != want.Remaining:
			t.Errorf("%s %q: %+v, Decide says %+v", domain, texts, got, want)
		}
		decide.Recycle(r)
	}
	if errs == 0 || errs == 3000 {
		t.Errorf("%d of 3000 are met by no rule", errs)
	}
}

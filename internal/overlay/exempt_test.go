package overlay_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// A limit that an operator switched off limits nothing, and is no mistake; rules that
// have no limit beneath are one.
func TestTakeUnderALimitThatIsOff(t *testing.T) {
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer store.Close()
	limit := weir.PerHour(1, algorithm.TokenBucket)
	if err := limit.Compile(); err != nil {
		t.Fatal(err)
	}
	places := []*limits.Limit{{Limit: limit, Rule: &limits.Rule{Path: "key", File: "rules.yaml"}}}
	limiter := func(r weir.Rules) (*weir.Limiter, *overlay.Overlay) {
		over, err := overlay.New(t.Context(), overlay.Options{Rules: r, Board: store, Limits: func() []*limits.Limit { return places }})
		if err != nil {
			t.Fatal(err)
		}
		lim, err := weir.New(store, over, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return lim, over
	}
	lim, over := limiter(weir.Limits{limit})
	if err := over.Modes.Set(t.Context(), places, overlay.Setting{Mode: overlay.Off}, time.Hour, overlay.Author{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if d, err := lim.Take(t.Context(), "acme", 1); err != nil || d != weir.AllowUnlimited() {
			t.Errorf("a limit that is off: %s, %v", d, err)
		}
	}
	none, _ := limiter(weir.Limits{})
	if d, err := none.Take(t.Context(), "acme", 1); !errors.Is(err, weir.ErrNoKey) || d.Allowed() {
		t.Errorf("no limit beneath: %s, %v", d, err)
	}
}

// Keys that no rule looks at are as wrong over an overlay as they are by the rules alone.
func TestTakeByOfKeysThatNoRuleHas(t *testing.T) {
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer store.Close()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("domain: api\ndescriptors:\n  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load([]string{file}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	over, err := overlay.New(t.Context(), overlay.Options{Rules: set, Board: store})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]weir.Rules{"rules": set, "overlay": over} {
		lim, err := weir.New(store, r, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range [][]string{{"api", "usr"}, {"apis", "user"}} {
			if d, err := lim.TakeBy(t.Context(), by[0], 1, by[1], "ann"); !errors.Is(err, weir.ErrNoRule) || d.Allowed() {
				t.Errorf("%s: domain %s, key %s: %s, %v", name, by[0], by[1], d, err)
			}
		}
	}
}

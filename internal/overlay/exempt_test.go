package overlay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/limits"
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

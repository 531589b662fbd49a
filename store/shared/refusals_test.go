package shared_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// What the store has refused is refused from memory in each mode, also where a limit is too
// small for its nodes, or a cost too large for what they hold: the store decides those.
func TestRefusalsAreRememberedInEachMode(t *testing.T) {
	store, local := memory.New(memory.Options{}), memory.New(memory.Options{})
	defer store.Close()
	defer local.Close()
	s, err := shared.New(store, shared.Options{Local: local, Timeout: time.Minute, Nodes: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, a := range []weir.Algorithm{
		algorithm.FixedWindow, algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows,
	} {
		for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
			for _, c := range []struct{ count, cost int64 }{{8, 1}, {60, 1}, {60, 7}, {400, 150}} {
				for _, cache := range []params.DenyCache{params.DenyCacheAuto, params.DenyCacheOff} {
					what := fmt.Sprint(a.Name(), " ", mode, " ", c, " ", cache)
					l := compiled(t, weir.PerHour(c.count, a), func(l *weir.Limit) { l.Consistency.Mode, l.Consistency.DenyCache = mode, cache })
					var admitted int64
					take := func() bool {
						d, err := s.TakeOne(t.Context(), what, l, c.cost)
						if err != nil {
							t.Fatal(what, err)
						}
						if d.Allowed() {
							admitted += c.cost
						}
						return d.Allowed()
					}
					for take() {
					}
					before := s.Stats()
					for range 200 {
						take()
					}
					after := s.Stats()
					// Another thing may be asked for in the background, and a refusal lasts a second.
					calls := after.Calls - before.Calls
					if isOff := cache == params.DenyCacheOff; isOff != (calls >= 200) || !isOff && calls > 20 {
						t.Errorf("%s: %d calls for 200 refusals", what, calls)
					}
					if admitted > c.count || admitted+c.cost <= c.count/2 {
						t.Errorf("%s: %d admitted", what, admitted)
					}
				}
			}
		}
	}
}

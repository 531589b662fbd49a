package region_test

import (
	"context"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/region"
)

// Of spends that were sent together those are counted for other regions that pass, and
// no others, whether the limit refuses the rest or what others need not know does.
func TestCoalescedSpendsAreCountedOneByOne(t *testing.T) {
	for overshoot, want := range map[int64]int64{100: 40, 7: 7} {
		own, other := memory.New(memory.Options{MaxBytes: 1 << 20}), memory.New(memory.Options{MaxBytes: 1 << 20})
		s, err := region.New(own, region.Options{Name: "a", Peers: []region.Peer{{Name: "b", Store: other}}})
		if err != nil {
			t.Fatal(err)
		}
		l := compiled(t, weir.PerDay(40, algorithm.FixedWindow), func(l *weir.Limit) {
			l.Name, l.Consistency.Mode, l.Consistency.MaxOvershoot = "limit", params.ConsistencyEventual, overshoot
		})
		all := compiled(t, weir.PerDay(1000, algorithm.FixedWindow), func(l *weir.Limit) { l.Name = "limit" })
		ops := make([]weir.Op, 60)
		for i := range ops {
			ops[i] = weir.Op{Key: "k", Limit: l, Cost: 1, Role: weir.Always}
		}
		if err := s.Take(context.Background(), ops); err != nil {
			t.Fatal(err)
		}
		passed := int64(0)
		for i := range ops {
			if o := &ops[i]; o.Charged != o.Decision.Allowed() || o.Role != weir.Always {
				t.Errorf("%+v", o)
			} else if o.Charged {
				passed++
			}
		}
		s.Close()
		for name, m := range map[string]weir.Store{"own": own, "other": other} {
			look := []weir.Op{{Key: "k", Limit: all, Cost: 1, Verb: weir.Peek}}
			if err := m.Take(context.Background(), look); err != nil || 1000-look[0].Decision.Remaining != want || passed != want {
				t.Errorf("overshoot %d: %d passed, the %s store counts %d, want %d (%v)", overshoot, passed, name, 1000-look[0].Decision.Remaining, want, err)
			}
			m.Close()
		}
	}
}

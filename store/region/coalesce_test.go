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
// no others, whether the limit refuses the rest or what others need not know does. What
// others count already is no longer among what they need not know.
func TestCoalescedSpendsAreCountedOneByOne(t *testing.T) {
	for _, overshoot := range []int64{100, 7} {
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
		told := counted(t, other, "k", all)
		s.Close()
		if passed < min(overshoot, 40) || passed > min(overshoot+told, 40) {
			t.Errorf("overshoot %d: %d passed, and the other store counts %d of them", overshoot, passed, told)
		}
		for name, m := range map[string]weir.Store{"own": own, "other": other} {
			if n := counted(t, m, "k", all); n != passed {
				t.Errorf("overshoot %d: %d passed, the %s store counts %d", overshoot, passed, name, n)
			}
			m.Close()
		}
	}
}

// counted returns how many units of a key a store counts, by a larger limit on the same
// counters.
func counted(t testing.TB, store weir.Store, key string, most *weir.Limit) int64 {
	t.Helper()
	look := []weir.Op{{Key: key, Limit: most, Cost: 1, Verb: weir.Peek}}
	if err := store.Take(context.Background(), look); err != nil {
		t.Fatal(err)
	}
	return most.Burst - look[0].Decision.Remaining
}

package fleet

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Slots move from server to server of a cluster while limits of every mode are
// spent from: MOVED and ASK lose nothing and admit nothing too many.
func TestSlotsMoveUnderLoad(t *testing.T) {
	processes(t)
	cluster := servertest.RedisCluster(t, 3)
	primaries := cluster[:3]
	s := &stage{T: t, file: rules(t, stageRules(count)...)}
	s.nodes = serveMany(t, 2, "redis+cluster://"+primaries[0].Addr+","+primaries[1].Addr+patient, s.file)
	s.load(s.nodes, count/10, 5)
	owner := map[int]int{}
	for i, p := range primaries {
		keys, ok := p.Do(t, "KEYS", "*").([]any)
		if !ok {
			t.Fatal("KEYS gave no list")
		}
		for _, key := range keys {
			slot, ok := p.Do(t, "CLUSTER", "KEYSLOT", fmt.Sprint(key)).(int64)
			if !ok {
				t.Fatal("KEYSLOT gave no number")
			}
			owner[int(slot)] = i
		}
	}
	moves := 0
	s.suffer(fault{during: func(s *stage) {
		for slot, from := range owner {
			to := (from + 1) % len(primaries)
			servertest.MoveSlot(t, primaries, slot, from, to)
			owner[slot] = to
			moves++
		}
	}})
	s.load(s.nodes, 6*count, 10)
	if moves < len(owner) {
		t.Errorf("%d of %d slots moved: nothing was tested", moves, len(owner))
	}
	for i, c := range faultModes {
		passed := float64(s.passed[i].allowed.Load())
		t.Logf("%s: %.0f of %d passed, %d moves", c.key(), passed, count, moves)
		if passed > count*(1+c.over) || passed < 0.98*count || s.passed[i].degraded.Load() != 0 {
			t.Errorf("%s: %.0f passed, %d by policy, want %d to %g", c.key(), passed, s.passed[i].degraded.Load(), count, count*(1+c.over))
		}
	}
}

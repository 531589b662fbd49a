package overlay

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// The ops of one limit are found among those of others, and an override makes of them
// what the variant would have appended.
func TestParts(t *testing.T) {
	pool := &weir.Limit{Name: "pool", Algorithm: algorithm.FixedWindow, Count: 1000, Period: time.Minute}
	ban := func() *weir.Limit {
		return &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 3, Period: time.Minute}
	}
	for name, mode := range map[string]weir.Mode{
		"hard": {}, "soft": {Excess: 10}, "shadow": {Shadow: true}, "reserve": {Headroom: []int64{0, 20}},
		"elastic": {Pool: pool, PoolKey: "p", Ceiling: 200, Headroom: []int64{0, 20}}, "ban": {Ban: ban()}, "soft with a ban": {Excess: 10, Ban: ban()},
	} {
		l := &weir.Limit{Name: name, Scope: "api/x", Algorithm: algorithm.TokenBucket, Count: 100, Period: time.Minute, Mode: mode}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		with, err := l.Variant(500, time.Minute, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := &weir.Request{Priority: 1}
		// The same limit under three keys.
		var ops []weir.Op
		ends := []int{0}
		for _, key := range []string{"a", "b", "c"} {
			ops = l.Append(ops, key, 1, r)
			ends = append(ends, len(ops))
		}
		for i := range ops {
			if ops[i].Part != weir.PartLimit {
				continue
			}
			k := i / ends[1]
			if from, to := partsOf(ops, i); from != ends[k] || to != ends[k+1] {
				t.Errorf("%s: op %d: from %d to %d, want %d to %d", name, i, from, to, ends[k], ends[k+1])
			}
		}
		got, want := ops[ends[1]:ends[2]], with.Append(nil, "b", 1, r)
		override(got, with)
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: op %d is %+v, want %+v", name, i, got[i], want[i])
			}
		}
	}
}

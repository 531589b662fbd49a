package outage

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// A node's share of a limit that came with a call has its part of the burst, and together
// all shares have the rate.
func TestShareOfThrottle(t *testing.T) {
	l := &weir.Limit{Name: "l", Algorithm: algorithm.Throttle, Count: 30, Period: time.Minute, Burst: 16}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	share, err := NewTerms(l, 1).shareOfParts(2)
	if err != nil {
		t.Fatal(err)
	}
	if share.Burst != 8 || share.Count != 30 || share.Period != 2*time.Minute {
		t.Errorf("burst %d, %d per %s", share.Burst, share.Count, share.Period)
	}
}

// A pool has a share of its own, by the policy of the limit that borrows from it.
func TestPoolHasItsOwnShare(t *testing.T) {
	for _, policy := range []params.StoreErrorPolicy{params.OnErrorLocal, params.OnErrorLastKnown} {
		w := newWorld(t)
		w.parts = 2
		own, pool := daily(t, 4, policy), daily(t, 20, params.OnErrorAllow)
		pool.Scope = "pool"
		if err := pool.Compile(); err != nil {
			t.Fatal(err)
		}
		borrowed, want := int64(0), pool.Burst-own.Burst
		if policy == params.OnErrorLocal {
			want /= w.parts
		}
		for range 30 {
			ops := []weir.Op{{Key: "a", Limit: own, Cost: 1, Role: weir.Own}, {Key: "all", Limit: pool, Cost: 1, Role: weir.Pool}}
			if err := w.DecideOps(context.Background(), ops, errOpen); err != nil {
				t.Fatal(err)
			}
			if ops[1].Borrowed {
				borrowed++
			}
		}
		if borrowed != want {
			t.Errorf("%s: %d units were borrowed where the share has %d", policy, borrowed, want)
		}
	}
}

package tier_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

// A hundred a minute by address, on two nodes that fetch units ahead: clients that
// spend all they can before an edge and after it, and whatever becomes free, get a
// hundred in no 60 seconds more, however units are given back meanwhile.
func TestFamilyNeverMoreThanWritten(t *testing.T) {
	for _, c := range []struct {
		count  int64
		period time.Duration
	}{{100, time.Minute}, {500, time.Second}, {20, 5 * time.Second}} {
		for seed := range drawn(t, 2, 30) {
			l := &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: c.count, Period: c.period}
			virtual(t, l.Period.String(), func(t *testing.T) { attackNodes(t, compiled(t, l, leased), seed) })
		}
	}
}

func attackNodes(t *testing.T, l *weir.Limit, seed uint64) {
	f := newFleet(t, 2, tier.Options{})
	f.shared.delay.Store(int64(time.Millisecond))
	r := rand.New(rand.NewPCG(seed, 71))
	type taking struct {
		at time.Time
		op weir.Op
	}
	var took []taking
	var most, sum, passed int64
	refunds := seed%2 == 1
	take := func() bool {
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 1}}
		if err := f.nodes[r.IntN(2)].Take(context.Background(), ops); err != nil {
			t.Fatal(err)
		}
		if !ops[0].Charged {
			return false
		}
		if ops[0].Decision.Guarantee().Degraded {
			t.Fatalf("decided without the store: %v", ops[0].Decision)
		}
		now := time.Now()
		took = append(took, taking{now, ops[0]})
		passed++
		sum++
		for now.Sub(took[0].at) >= l.Period {
			if took[0].op.Charged {
				sum--
			}
			took = took[1:]
		}
		most = max(most, sum)
		return true
	}
	all := func() {
		for range l.Count + 2 {
			if !take() && r.IntN(4) == 0 {
				return
			}
		}
	}
	refund := func() {
		if !refunds || len(took) == 0 {
			return
		}
		// Not used after all.
		if x := &took[r.IntN(len(took))]; x.op.Charged {
			if err := f.nodes[r.IntN(2)].Take(context.Background(), []weir.Op{x.op.Undo(1)}); err != nil {
				t.Fatal(err)
			}
			x.op.Charged = false
			sum--
		}
	}
	nap := func(most time.Duration) { time.Sleep(time.Duration(1 + r.Int64N(int64(most)))) }
	for range max(1, min(3, 10*time.Second/l.Period)) {
		aligned(l.Period)
		time.Sleep(l.Period - l.Period/time.Duration(20+r.IntN(200)))
		all()
		aligned(l.Period)
		all()
		for range 30 {
			nap(l.Period / 30)
			refund()
			all()
		}
		// What nodes hold is spent as late as they let.
		time.Sleep(2 * l.Period)
		for range 30 {
			take()
			nap(l.Period / 150)
		}
		nap(l.Period / 60)
		all()
		time.Sleep(l.Period * 3 / 4)
		for range 200 {
			nap(l.Period / 150)
			refund()
			all()
		}
	}
	if most > l.Count || most < l.Count*8/10 {
		t.Errorf("%d units in one period of a limit of %d, %d in all", most, l.Count, passed)
	}
}

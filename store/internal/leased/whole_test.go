package leased

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// written are limits as people write them.
var written = []struct {
	count, burst int64
	period       time.Duration
}{
	{10, 0, time.Minute}, {20, 0, time.Minute}, {30, 0, time.Minute}, {60, 0, time.Minute}, {100, 0, time.Minute}, {300, 0, time.Minute}, {600, 0, time.Minute},
	{1000, 0, time.Hour}, {100, 0, time.Hour}, {5000, 0, time.Hour}, {1000, 0, 24 * time.Hour}, {10, 0, time.Second}, {20, 0, time.Second}, {100, 0, time.Second},
	{10, 50, time.Second}, {60, 10, time.Minute}, {100, 1000, time.Minute}, {1000, 100, time.Hour}, {5, 20, time.Second}, {50, 100, time.Second}, {3000, 100, time.Minute}, {6000, 40, time.Minute}, {6000, 300, time.Minute}, {4000, 60, time.Minute}, {1000, 1000, time.Second}, {12_000, 1000, time.Minute}, {5000, 100, time.Second},
}

// A node that asks alone admits what one strict store does, to the last unit, from the first
// request on: for each limit, cost and number of nodes. What another node holds it leaves.
func TestNodeAloneAdmitsAllThereIs(t *testing.T) {
	for _, a := range lenders {
		for _, x := range written {
			if x.burst > 0 && a != algorithm.TokenBucket && a != algorithm.LeakyBucket {
				continue
			}
			l := &weir.Limit{Name: "limit", Algorithm: a, Count: x.count, Period: x.period}
			l.Burst = x.burst
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			if terms, err := NewTerms(l, true); err != nil || terms == nil {
				continue // it is decided strictly
			}
			for nodes := 1; nodes <= 5; nodes++ {
				for _, cost := range []int64{1, 2, 3, 7, 10, 25, 100} {
					t.Run(fmt.Sprintf("%s %d burst %d in %s, %d nodes, cost %d", a.Name(), x.count, l.Burst, x.period, nodes, cost), func(t *testing.T) {
						if cost <= l.Burst {
							admitAlone(t, l, nodes, cost)
						}
					})
				}
			}
		}
	}
}

func admitAlone(t *testing.T, l *weir.Limit, nodes int, cost int64) {
	w := newWorld(t, nodes)
	n := w.nodes[0]
	d, strict := n.decider(l), make([]int64, l.Cells)
	requests := 2 * l.Burst / cost
	if d.busyFor > 0 {
		requests = l.Burst / cost // what flows back into a fast one is fetched in lots
	}
	for i := range requests {
		w.true += 20
		want := l.Algorithm.Step(strict, l, weir.Ask{Now: epoch + w.true, Cost: cost}).Allowed()
		if got := n.spend(d, cost); got != want {
			t.Fatalf("request %d: admitted %v, by one store %v; %d are held and %d left", i+1, got, want, n.held(), w.left(l))
		}
	}
}

// Of slow buckets all of the burst can be fetched, and still no more passes than one bucket
// admits, by the true time: nodes hold lots while it is about to be whole, give them back, and
// then all is asked for at once.
func TestSlowBucketsAdmitOneBurst(t *testing.T) {
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 21))
		x := written[r.IntN(len(written))]
		l := &weir.Limit{Name: "limit", Algorithm: algorithm.TokenBucket, Count: x.count, Burst: x.burst, Period: x.period}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		l.Consistency.Share = 1 + r.Int64N(4)
		terms, err := NewTerms(l, true)
		if err != nil || terms == nil || !terms.ends {
			continue
		}
		nodes := 1 + r.IntN(4)
		w := newWorld(t, nodes)
		oracle := make([]int64, l.Cells)
		var deciders []*Decider
		for _, n := range w.nodes {
			deciders = append(deciders, n.decider(l))
		}
		ask := func(i int, cost int64) bool {
			if !w.nodes[i].spend(deciders[i], cost) {
				return false
			}
			if a := l.Algorithm.Step(oracle, l, weir.Ask{Now: epoch + w.true, Cost: cost}); !a.Allowed() {
				t.Fatalf("seed %d: %d per %s, burst %d, %d nodes: %d more at %d, when the limit has %d", seed, x.count, x.period, l.Burst, nodes, cost, w.true, a.Remaining)
			}
			return true
		}
		for range 60 {
			w.true += r.Int64N(2 + []int64{1000, terms.inflowTime(1), 2 * terms.life, terms.inflowTime(l.Burst)}[r.IntN(4)])
			for range r.IntN(6) {
				i := r.IntN(nodes)
				ask(i, 1+r.Int64N(3))
				w.true += r.Int64N(1 + terms.life/8)
				// More is fetched, and nothing drawn of it.
				w.nodes[i].draw(deciders[i], w.nodes[i].held()+1)
				w.land()
			}
			if i := r.IntN(nodes); r.IntN(3) == 0 {
				w.true += r.Int64N(2 * terms.life)
				w.nodes[i].Table.SweepIdle(w.nodes[i].Clock.Now())
				w.nodes[i].giveBack()
			}
			if r.IntN(2) == 0 {
				w.true += r.Int64N(2 * terms.life)
				for _, i := range r.Perm(nodes) {
					for ask(i, 1) {
					}
				}
			}
		}
	}
}

// What a node gives back does not make a slow bucket whole while another draws from a lot that
// it fetched later, when it was to be whole later.
func TestReturnLeavesWhatLaterLotsNeed(t *testing.T) {
	w := newWorld(t, 2)
	l := &weir.Limit{Name: "limit", Algorithm: algorithm.TokenBucket, Count: 6000, Burst: 300, Period: time.Minute}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	a, b := w.nodes[0], w.nodes[1]
	da, db := a.decider(l), b.decider(l)
	oracle := make([]int64, l.Cells)
	ask := func(n *node, d *Decider) bool {
		ok := n.spend(d, 1)
		if ok && !l.Algorithm.Step(oracle, l, weir.Ask{Now: epoch + w.true, Cost: 1}).Allowed() {
			t.Fatal("more than the burst")
		}
		return ok
	}
	ask(a, da)
	a.draw(da, 30)
	w.land()
	w.true += 98_000
	ask(b, db)
	ask(b, db)
	b.draw(db, b.held()+3)
	w.land()
	w.true += 3000
	a.Table.SweepIdle(a.Clock.Now())
	if a.giveBack(); a.held() != 0 || b.held() < 3 || l.Burst-w.left(l) > 20+b.held() {
		t.Fatalf("%d and %d held, %d left", a.held(), b.held(), w.left(l))
	}
	for range 16 { // until just before the lot of b ends
		w.true += 5000
		if left := w.left(l); left+b.held() > l.Burst {
			t.Fatalf("%d are left and %d held of %d", left, b.held(), l.Burst)
		}
	}
	for ask(b, db) || ask(a, da) {
	}
}

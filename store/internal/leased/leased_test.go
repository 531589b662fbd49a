package leased

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// warm returns a node with units of a limit of a thousand a minute, of a bucket of ten
// thousand, which is not a slow one.
func warm(t *testing.T, a weir.Algorithm, nodes int) (*node, *Decider) {
	count := int64(1000)
	if a.Traits()&weir.Refills != 0 {
		count = 10_000
	}
	return warmOf(t, limited(t, count, a), nodes)
}

func warmOf(t *testing.T, l *weir.Limit, nodes int) (*node, *Decider) {
	w := newWorld(t, nodes)
	n := w.nodes[0]
	d := n.decider(l)
	for n.held() < 20 {
		n.spend(d, 1)
	}
	n.land()
	return n, d
}

// looseOf returns a node with units of a bucket of which lots live while it is whole.
func looseOf(t *testing.T) (*node, *Decider) {
	l := &weir.Limit{Name: "limit", Algorithm: algorithm.TokenBucket, Count: 10_000, Period: time.Minute}
	l.Consistency.Loose = true
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return warmOf(t, l, 1)
}

func TestColdDrawFetchesOnce(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	d := n.decider(limited(t, 1000, algorithm.FixedWindow))
	v, f, _ := n.draw(d, 5)
	v2, f2, _ := n.draw(d, 3)
	if v != lot.Wait || v2 != lot.Wait || f == nil || f != f2 || len(w.flying) != 1 {
		t.Fatalf("%v, %v, %d flights", v, v2, len(w.flying))
	}
	n.land()
	if v, _, o := n.draw(d, 5); v != lot.Charged || !o.Charged || o.Decision.Guarantee().Source != weir.FromLease || w.failed {
		t.Errorf("%v %+v", v, o)
	}
	if w.calls != 1 || w.left(d.limit) != 995 {
		t.Errorf("%d calls, %d left", w.calls, w.left(d.limit))
	}
}

func TestRefusalIsAnsweredUntilItEnds(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	l := limited(t, 100, algorithm.FixedWindow)
	d := n.decider(l)
	w.take([]weir.Op{{Key: "k", Limit: l, Cost: 97}})
	_, f, _ := n.draw(d, 5)
	n.land()
	if f.Refused != 5 || f.Decision.Allowed() {
		t.Errorf("%+v", f)
	}
	calls := w.calls
	v, _, o := n.draw(d, 6)
	if v != lot.Refused || o.Charged || o.Decision.RetryAfter < 50*time.Second || o.Decision.Remaining != 3 || o.Decision.Guarantee().Source != weir.FromLease || w.calls != calls {
		t.Errorf("%v %+v", v, o)
	}
	if v, _, _ := n.draw(d, 4); v != lot.Wait {
		t.Errorf("a smaller cost is refused: %v", v)
	}
	n.land()
	w.true += 1_000_001
	if v, _, _ := n.draw(d, 6); v != lot.Wait {
		t.Errorf("after its end: %v", v)
	}
}

// Where less is there than a share the store is asked again, for a share of that.
func TestFetchAsksOnceMoreForLess(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	l := limited(t, 1000, algorithm.FixedWindow)
	d := n.decider(l)
	n.spend(d, 100)
	n.held()
	w.take([]weir.Op{{Key: "k", Limit: l, Cost: 840}})
	if !n.spend(d, 20) || w.left(l) > 40 {
		t.Errorf("20 of 60 are refused, %d left", w.left(l))
	}
}

func TestFlightWithoutAnswerLeavesTheEntryCold(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	d := n.decider(limited(t, 1000, algorithm.FixedWindow))
	_, f, _ := n.draw(d, 5)
	w.flying[0].loseCall = true
	n.land()
	if !w.failed || f.Refused != 0 || n.held() != 0 {
		t.Errorf("%+v", f)
	}
	if v, f2, _ := n.draw(d, 5); v != lot.Wait || f2 == f {
		t.Error("no second flight")
	}
}

// A late answer adopts its lot, for what life is left of it since it was sent.
func TestLateAnswerIsAdopted(t *testing.T) {
	for _, late := range []int64{700_000, 1_100_000} {
		n, d := looseOf(t)
		n.true += 2_000_000
		n.Table.SweepIdle(n.Clock.Now())
		for range 3 {
			n.spend(d, 5)
		}
		n.true += 1_200_000
		n.draw(d, 50)
		sent := n.Clock.Now()
		n.resume(0)
		n.resume(0)
		n.true += late
		n.land()
		if n.failed {
			t.Fatal("no answer")
		}
		v, _, _ := n.draw(d, 50)
		if alive := n.Clock.Now() < sent.Expiry(d.brief); alive != (v == lot.Charged) {
			t.Errorf("after %d: %v", late, v)
		}
	}
}

func TestFewUnitsAreFetchedAhead(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	for len(n.flying) == 0 {
		if v, _, _ := n.draw(d, 1); v != lot.Charged {
			t.Fatalf("%v", v)
		}
	}
	if n.held() == 0 {
		t.Error("it was fetched after the last unit")
	}
}

func TestStoreIsAskedWhereLotsDoNotServe(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 2)
		if v, _, _ := n.draw(d, d.by.Burst/8+1); v != lot.Wait {
			t.Errorf("%s: the rest of a large cost, of which some is held: %v", a.Name(), v)
		}
		n.land()
		n.Table = lot.NewTable(1<<20, n.returns)
		if v, _, _ := n.draw(d, d.by.Burst/8+1); v != lot.Ask {
			t.Errorf("%s: a cost above the largest lot: %v", a.Name(), v)
		}
		n.closing = true
		if v, _, _ := n.draw(d, n.held()+1); v != lot.Ask {
			t.Errorf("%s: no call is to be had: %v", a.Name(), v)
		}
		n.closing = false
		n.Table = lot.NewTable(1, n.returns)
		if v, _, _ := n.draw(d, 1); v != lot.Ask {
			t.Errorf("%s: no room: %v", a.Name(), v)
		}
		few := n.decider(limited(t, 15, a))
		if v, _, _ := n.draw(few, 1); v != lot.Ask {
			t.Errorf("%s: a share of less than 8: %v", a.Name(), v)
		}
	}
}

func TestIdleUnitsAreReturned(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1)
		spent := d.limit.Burst - n.left(d.limit) - n.held()
		n.true += 1_000_000
		n.Table.SweepIdle(n.Clock.Now())
		if n.held() != 0 {
			t.Errorf("%s: %d are still held", a.Name(), n.held())
		}
		n.giveBack()
		if left := n.left(d.limit); left < d.limit.Burst-spent-1 {
			t.Errorf("%s: %d are left of %d of which %d were spent", a.Name(), left, d.limit.Burst, spent)
		}
	}
}

// After a reload lots are used up soon, by the limit that they were counted by, and what
// was refused before is asked again. Lots of a bucket with another rate are returned at
// once: a unit of the new rate was charged another time.
func TestReloadDrainsLots(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1)
		held, start := n.held(), n.Clock.Now()
		raised := n.decider(limited(t, 3000, a))
		if v, _, _ := n.draw(raised, 1); d.flows {
			if v == lot.Charged || n.held() != 0 {
				t.Errorf("%s: %v, %d are held at the old price", a.Name(), v, n.held())
			}
		} else if v != lot.Charged || n.held() != held-1 {
			t.Errorf("%s: %v", a.Name(), v)
		}
		n.true += d.brief + 100_000
		n.draw(raised, 1)
		if n.Clock.Now() <= start.Add(d.brief) {
			t.Fatal("time stands still")
		}
		for _, b := range n.returns.TakeDue(0, 0) {
			if b.Limit != d.by {
				t.Errorf("%s: returned by %d", a.Name(), b.Limit.Count)
			}
		}
		if e := n.Table.ShardOfTag(n.Table.TagForKey("k", raised.limit)).GetEntry(n.Table.TagForKey("k", raised.limit), "k"); len(e.Lots()) != 0 || e.Limit != raised.limit {
			t.Errorf("%s: %+v", a.Name(), e.Lots())
		}
	}
}

// Whatever was held when versions of a limit were loaded, a draw ends after few flights:
// what is fetched for it is not given up for what is held of another version.
func TestDrawEndsAcrossReloads(t *testing.T) {
	for seed := range uint64(600) {
		a := lenders[seed%uint64(len(lenders))]
		r := rand.New(rand.NewPCG(seed, 17))
		n := newWorld(t, 1).nodes[0]
		var versions []*Decider
		for range 3 {
			l := limited(t, 500<<r.IntN(3), a)
			l.Consistency.Share = 1 + r.Int64N(8)
			versions = append(versions, n.decider(l))
		}
		for range 200 {
			if n.true += r.Int64N(10_000); r.IntN(20) == 0 {
				n.true += r.Int64N(3_000_000)
			}
			n.spend(versions[r.IntN(3)], 1+r.Int64N(40))
			for range r.IntN(3) {
				if len(n.flying) > 0 {
					n.resume(0)
				}
			}
		}
	}
}

// An entry of another decider is left to it.
func TestEntryOfAnotherDeciderIsLeft(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	tag := n.Table.TagForKey("other", d.limit)
	e := n.Table.ShardOfTag(tag).AddEntry(tag, "other", limited(t, 50, algorithm.FixedWindow), 0, n.Clock.Now())
	e.State = "a tally"
	o := weir.Op{Key: "other", Limit: d.limit, Cost: 1}
	if v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, nil); v != lot.Ask || e.State != "a tally" {
		t.Errorf("%v", v)
	}
}

// What was lost while the machine was suspended is not drawn late (I2).
func TestSuspendedNodeDrawsNothingLate(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1)
		n.true, n.slept = n.true+120_000_000, n.slept+120_000_000
		n.true += 1000
		if v, _, _ := n.draw(d, 1); v == lot.Charged {
			t.Errorf("%s: drawn two minutes late", a.Name())
		}
	}
}

func TestUndoAndRefundGoToTheLot(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1)
		held, now := n.held(), n.Clock.Now()
		var h lot.Hold
		o := weir.Op{Key: "k", Limit: d.limit, Cost: 3}
		if v, _ := d.Draw(context.Background(), now, &o, &h); v != lot.Charged {
			t.Fatal(v)
		}
		r := weir.Op{Key: "k", Limit: d.limit, Cost: 3, Verb: weir.Refund, ID: o.Receipt(), FlowsFrom: o.ChargedAt}
		if o.ChargedAt == 0 || o.ChargedAt > o.Now || n.held() != held-3 {
			t.Errorf("%s: %+v", a.Name(), o)
		}
		if !d.Refund(now, &r) || !r.Charged || n.held() != held {
			t.Errorf("%s: refund %+v, %d held of %d", a.Name(), r, n.held(), held)
		}
		r.ID = epoch
		if d.Refund(now, &r) {
			t.Errorf("%s: a refund of what no longer counts", a.Name())
		}
		h = lot.Hold{}
		d.Draw(context.Background(), now, &o, &h)
		d.Undo(now, &h)
		if n.held() != held {
			t.Errorf("%s: %d held after undo, want %d", a.Name(), n.held(), held)
		}
	}
}

func TestRefundEndsARefusal(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	o := weir.Op{Key: "k", Limit: d.limit, Cost: 2}
	var h lot.Hold
	d.Draw(context.Background(), n.Clock.Now(), &o, &h)
	n.true += 10
	refused := weir.Op{Key: "k", Limit: d.limit, Cost: 90, Answer: weir.Answer{Decision: weir.Decision{Limit: d.limit, RetryAfter: time.Second}}}
	d.Learn(&refused, n.Clock.Now())
	cost := 90 + n.held()
	if v, _, _ := n.draw(d, cost); v != lot.Refused {
		t.Fatalf("%v", v)
	}
	if v, _, _ := n.draw(d, cost-1); v != lot.Wait {
		t.Errorf("the store may have what is missing, and is not asked: %v", v)
	}
	n.true += 10
	r := weir.Op{Key: "k", Limit: d.limit, Cost: 2, Verb: weir.Refund, ID: o.Receipt()}
	if !d.Refund(n.Clock.Now(), &r) {
		t.Fatal("not refunded")
	}
	if v, _, _ := n.draw(d, cost+2); v != lot.Wait {
		t.Errorf("%v", v)
	}
}

// Units of a bucket that have flowed in again are not taken back too.
func TestRefundAfterItsReceiptIsNotTaken(t *testing.T) {
	n, d := looseOf(t)
	n.true += 30_000_000
	n.spend(d, 1)
	n.spend(d, 2)
	o := weir.Op{Key: "k", Limit: d.limit, Cost: 1}
	if v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, &lot.Hold{}); v != lot.Charged {
		t.Fatal(v)
	}
	receipt := o.Receipt()
	n.true += receipt - epoch - n.true + 1
	r := weir.Op{Key: "k", Limit: d.limit, Cost: 1, Verb: weir.Refund, ID: receipt}
	tag := n.Table.TagForKey("k", d.limit)
	lots := n.Table.ShardOfTag(tag).GetEntry(tag, "k").Lots()
	if d.Refund(n.Clock.Now(), &r) || n.Clock.Now() >= lots[0].Expiry {
		t.Errorf("a refund was taken after its receipt, lots %+v", lots)
	}
}

// Of what a region may admit before the others know, a node fetches half its share at most:
// the others of the region need not wait.
func TestNodeLeavesTheOthersOfItsRegionTheirShare(t *testing.T) {
	n := newWorld(t, 2).nodes[0]
	d, most := n.decider(limited(t, 100_000, algorithm.FixedWindow)), int64(0)
	d.CountForRegions(80)
	call := n.Fetch
	n.Fetch = func(f *lot.Flight, ops []weir.Op) (clock.Node, error) {
		most = max(most, ops[0].Cost)
		return call(f, ops)
	}
	for range 500 {
		n.draw(d, 1)
		n.land()
	}
	if most != 20 {
		t.Errorf("%d units were fetched at a time", most)
	}
}

// While units of a bucket trickle in, none are fetched until a lot is there.
func TestRefusedLotOfABucketRefusesEachCost(t *testing.T) {
	n, d := warm(t, algorithm.TokenBucket, 1)
	n.take([]weir.Op{{Key: "k", Limit: d.by, Cost: n.left(d.by)}})
	for _, want := range []int64{1 + n.held(), 1 + n.held()} { // what is missing, then each cost
		_, f, _ := n.draw(d, n.held()+1)
		n.land()
		if f.Refused != want {
			t.Errorf("refused from %d on, want %d", f.Refused, want)
		}
		n.true += 1_000_000
		n.take([]weir.Op{{Key: "k", Limit: d.by, Cost: n.left(d.by)}})
	}
}

func TestPeekTakesNothing(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	held := n.held()
	peek := func(cost int64) (lot.Verdict, weir.Op) {
		o := weir.Op{Key: "k", Limit: d.limit, Cost: cost, Verb: weir.Peek}
		v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, nil)
		return v, o
	}
	if v, o := peek(held); v != lot.Charged || o.Charged || !o.Decision.Allowed() || o.Decision.Remaining < held {
		t.Errorf("%v %+v", v, o)
	}
	if v, _ := peek(held + 1); v != lot.Ask || n.held() != held || len(n.flying) != 0 {
		t.Errorf("%v, %d held, %d flights", v, n.held(), len(n.flying))
	}
}

// A fetch whose answer was lost is found by the next one: nothing is stranded.
func TestLostAnswerIsFound(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1)
		count := func() int64 { return d.limit.Burst - n.left(d.limit) }
		spent := count() - n.held()
		for lost := 0; lost < 4; {
			for len(n.flying) == 0 {
				if v, _, _ := n.draw(d, 1); v == lot.Charged {
					spent++
				}
			}
			x := n.flying[0]
			x.loseCall, x.loseAnswer = lost%2 == 1, lost%2 == 0
			n.land()
			n.draw(d, n.held()+1)
			n.land()
			n.true += 1000
			lost++
		}
		// The lots of what was drawn meanwhile may have been given up.
		n.giveBack()
		if got := spent + n.held(); a.Name() != "token_bucket" && a.Name() != "leaky_bucket" && count() != got {
			t.Errorf("%s: the store counts %d, %d were spent and %d are held", a.Name(), count(), spent, n.held())
		} else if count() < got-20 || count() > got+2*d.limit.Inflow() { // as much is charged longer of each that is given back
			t.Errorf("%s: the store counts %d, %d were spent and %d are held", a.Name(), count(), spent, n.held())
		}
		if n.returns.Stranded.Load() != 0 {
			t.Error("stranded")
		}
	}
}

// What a lost answer brought is adopted as what it was at the earliest: charged no later
// than it was, and given back no later than it may be.
func TestFoundLotIsAsOldAsItMayBe(t *testing.T) {
	n, d := looseOf(t)
	n.true += 100_000_000 // longer than a mark is remembered
	n.spend(d, 1)
	n.draw(d, n.held()+1)
	n.flying[0].loseAnswer = true
	n.resume(0)
	n.resume(0)
	served := epoch + n.true
	n.true += 5000
	n.land()
	before := n.calls
	n.draw(d, n.held()+1)
	n.land()
	tag := n.Table.TagForKey("k", d.limit)
	lots := n.Table.ShardOfTag(tag).GetEntry(tag, "k").Lots()
	found := lots[len(lots)-1]
	flows := served + found.Fetched*60_000_000/10_000
	if n.calls != before+1 || found.Fetched < 2 || int64(found.Charged) > served || int64(found.Charged) < served-1000 || found.ID > flows || found.ID < flows-2000 {
		t.Errorf("%d calls, charged at %d: %+v", n.calls-before, served, found)
	}
}

// After the store's clock was set back it is not known when a lost fetch was counted: its
// units are not drawn.
func TestLostFetchIsGivenUpWhenTheStoresClockIsSet(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	n.draw(d, n.held()+1)
	n.flying[0].loseAnswer = true
	n.land()
	before, left := n.calls, n.left(d.limit)
	n.true += 5000
	n.set = -4_000_000
	n.draw(d, n.held()+1)
	n.land()
	if n.calls != before+2 || n.left(d.limit) >= left {
		t.Errorf("%d calls, %d left of %d", n.calls-before, n.left(d.limit), left)
	}
}

// Whatever answers are lost, the store counts all that was admitted or is held, and what
// is stranded is little.
func TestLostAnswersInventNothing(t *testing.T) {
	sum := int64(0)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		w := newWorld(t, 1)
		n := w.nodes[0]
		d := n.decider(limited(t, 200+r.Int64N(3000), algorithm.FixedWindow))
		spent, stranded, others := int64(0), int64(0), int64(0)
		for range 400 {
			if v, _, o := n.draw(d, 1+r.Int64N(3)); v == lot.Charged {
				spent += o.Cost
			}
			if len(w.flying) > 0 && r.IntN(2) == 0 {
				x := w.flying[0]
				x.loseCall, x.loseAnswer = r.IntN(4) == 0, r.IntN(4) == 0
				w.resume(0)
			}
			w.true += r.Int64N(20_000)
			if r.IntN(100) == 0 {
				ops := []weir.Op{{Key: "k", Limit: d.limit, Cost: w.left(d.limit) * r.Int64N(4) / 3}}
				if w.take(ops); ops[0].Charged {
					others += ops[0].Cost
				}
			}
			if len(w.flying) > 0 {
				continue
			}
			count := d.limit.Count - w.left(d.limit) - others
			if count < spent+n.held() {
				t.Fatalf("seed %d: the store counts %d, but %d were spent and %d are held", seed, count, spent, n.held())
			}
			stranded = count - spent - n.held()
		}
		if sum += spent; stranded > d.limit.Count/4 {
			t.Errorf("seed %d: %d of %d are stranded", seed, stranded, d.limit.Count)
		}
	}
	if sum < 20_000 {
		t.Errorf("only %d were spent", sum)
	}
}

// I1: whatever is lost, late, suspended, drained and returned, nodes admit no more than
// what conforms to the limit, by the true time; and the store counts all that is admitted
// or held.
func TestLeasedNodesHoldTheLimit(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 24
	}
	for seed := range seeds {
		a := lenders[seed%uint64(len(lenders))]
		t.Run(fmt.Sprint(a.Name(), " ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 9))
			w := newWorld(t, 3)
			l := &weir.Limit{Name: "limit", Algorithm: a, Count: 100 + r.Int64N(200), Period: 4 * time.Second}
			if a.Traits()&weir.Refills != 0 && r.IntN(2) == 0 {
				l.Count, l.Burst = 8*l.Count, l.Count // a fast one
			}
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			oracle := make([]int64, l.Cells)
			var deciders []*Decider
			for _, n := range w.nodes {
				n.drift = r.Int64N(1001) - 500
				deciders = append(deciders, n.decider(l))
			}
			admitted, waiting := 0, make([]*lot.Flight, 3)
			for range 40_000 {
				i := r.IntN(3)
				n, d := w.nodes[i], deciders[i]
				switch x := r.IntN(200); {
				case x < 100:
					cost := 1 + r.Int64N(3)
					v, f, o := n.draw(d, cost)
					switch v {
					case lot.Wait:
						waiting[i] = f
					case lot.Ask:
						sent := n.Clock.Now()
						ops := []weir.Op{{Key: "k", Limit: l, Cost: cost}}
						w.take(ops)
						n.Clock.Observe(0, clock.Store(ops[0].Now), sent)
						o = ops[0]
						d.Learn(&o, sent)
					}
					if o.Charged {
						admitted++
						if own := l.Algorithm.Step(oracle, l, weir.Ask{Now: epoch + w.true, Cost: cost}); !own.Allowed() {
							t.Fatalf("after %d: %d more at %d, when the limit has %d", admitted, cost, w.true, own.Remaining)
						}
					}
				case x < 104:
					var h lot.Hold
					o := weir.Op{Key: "k", Limit: l, Cost: 1 + r.Int64N(5)}
					if v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, &h); v == lot.Charged {
						w.true += r.Int64N(2000)
						d.Undo(n.Clock.Now(), &h)
					}
				case x < 150:
					if len(w.flying) > 0 {
						i := r.IntN(len(w.flying))
						f := w.flying[i]
						f.loseCall, f.loseAnswer = r.IntN(20) == 0, r.IntN(20) == 0
						w.resume(i)
					}
				case x < 152:
					n.Table.SweepIdle(n.Clock.Now())
				case x < 154:
					n.giveBack()
				case x < 155 && r.IntN(20) == 0:
					us := 200_000 + r.Int64N(5_000_000)
					w.true, n.slept = w.true+us, n.slept+us
					w.true += 1000
				case x < 156:
					w.true += r.Int64N(400_000)
				default:
					w.true += r.Int64N(20_000)
				}
			}
			if admitted < 600 {
				t.Errorf("only %d were admitted", admitted)
			}
		})
	}
}

// A decision by what is held takes no memory.
func TestWarmDrawAllocatesNothing(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	d := n.decider(limited(t, 1<<40, algorithm.FixedWindow))
	for range 200 {
		n.spend(d, 1<<10)
	}
	n.land()
	decide, o, h := lot.Decider(d), &weir.Op{Key: "k", Limit: d.limit, Cost: 1}, &lot.Hold{Parts: make([]lot.Lot, 0, 2)}
	before := n.Table.CountDrawn()
	if a := testing.AllocsPerRun(1000, func() {
		now := n.Clock.Now()
		if v, _ := decide.Draw(context.Background(), now, o, nil); v != lot.Charged {
			t.Fatal("not warm")
		}
		decide.Draw(context.Background(), now, o, h)
		decide.Undo(now, h)
	}); a != 0 || n.Table.CountDrawn() < before+2000 {
		t.Errorf("%v allocations, %d decisions by what is held", a, n.Table.CountDrawn()-before)
	}
}

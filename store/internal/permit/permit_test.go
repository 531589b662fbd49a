package permit

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/lot"
)

// busy returns a node of which so many holders, from 1 on, have one of a hundred permits
// for ten seconds.
func busy(t *testing.T, nodes int, holders int64) (*node, *Decider) {
	n := newWorld(t, nodes).nodes[0]
	d := n.decider(limited(t, 100, 10*time.Second))
	for id := range holders {
		if !n.acquire(d, id+1, 1) {
			t.Fatalf("holder %d is refused", id+1)
		}
	}
	n.land()
	return n, d
}

func TestColdDrawFetchesOnce(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	d := n.decider(limited(t, 100, 10*time.Second))
	v, f, _ := n.draw(d, 1, 2)
	v2, f2, _ := n.draw(d, 2, 3)
	if v != lot.Wait || v2 != lot.Wait || f == nil || f != f2 || len(w.flying) != 1 {
		t.Fatalf("%v, %v, %d flights", v, v2, len(w.flying))
	}
	n.land()
	v, _, o := n.draw(d, 1, 2)
	v2, _, _ = n.draw(d, 2, 3)
	if v != lot.Charged || v2 != lot.Charged || !o.Charged || o.Decision.Guarantee().Source != weir.FromLease || o.Decision.Remaining != 98 {
		t.Errorf("%v, %v %+v", v, v2, o)
	}
	// What waited is fetched together.
	if n.land(); w.calls > 2 || n.left(d.limit) != 100-5-n.held() {
		t.Errorf("%d calls, %d left, %d held", w.calls, n.left(d.limit), n.held())
	}
}

// Of what is held permits are handed out and taken back without a call.
func TestPermitsGoAround(t *testing.T) {
	n, d := busy(t, 1, 40)
	calls := n.calls
	for id := range int64(1000) {
		if !n.release(d, id+1) || !n.acquire(d, id+41, 1) {
			t.Fatalf("holder %d", id+1)
		}
		n.land()
	}
	if n.calls > calls || n.Table.CountDrawn() < 1000 || n.left(d.limit) != 60-n.held() {
		t.Errorf("%d calls more, %d left", n.calls-calls, n.left(d.limit))
	}
	if calls > 12 {
		t.Errorf("%d calls for 40 permits", calls)
	}
}

// A name that asks again has one permit, of its new cost, and a new time.
func TestRenewalIsNoSecondPermit(t *testing.T) {
	n, d := busy(t, 1, 20)
	held := n.held()
	n.true += 400_000
	for range 5 {
		if !n.acquire(d, 7, 1) {
			t.Fatal("refused")
		}
	}
	if n.held() != held {
		t.Errorf("%d held, want %d", n.held(), held)
	}
	if !n.acquire(d, 7, 2) || n.held() != held-1 {
		t.Errorf("%d held, want %d", n.held(), held-1)
	}
	n.true += 9_700_000 // all but the renewed one have ended
	if v, _, _ := n.draw(d, 7, 1); v != lot.Wait {
		t.Errorf("in a lot that is too old: %v", v)
	}
	if s := stateOf(n.entry(d.limit)); len(s.holders) != 1 || s.holders[7] == nil {
		t.Errorf("%d holders", len(s.holders))
	}
}

// I11: a lot is handed out while it outlives the holder only; it is renewed in time, by its
// name and for as many units.
func TestLotOutlivesItsHolders(t *testing.T) {
	n, d := busy(t, 1, 4)
	before := n.lots(d)[0]
	n.true += 1_300_000 // an eighth of the period is over, and nobody waits
	if v, _, _ := n.draw(d, 1, 1); v != lot.Charged || len(n.flying) != 1 {
		t.Fatalf("%v, %d flights", v, len(n.flying))
	}
	n.land()
	after := n.lots(d)[0]
	if after.ID != before.ID || after.Fetched != before.Fetched || after.Expiry != before.Expiry+1_300_000 {
		t.Errorf("%+v\n%+v", before, after)
	}
	n.closing = true
	n.true += 2_400_000 // nearly a quarter, and nothing lies idle
	if v, _, _ := n.draw(d, 1, 1); v != lot.Charged {
		t.Fatalf("the lot outlives the holder: %v", v)
	}
	n.true += 100_000 // over a quarter
	if !d.Release(n.Clock.Now(), &weir.Op{Key: "k", Limit: d.limit, ID: 2}) || !slices.ContainsFunc(n.lots(d), func(t lot.Lot) bool { return t.IsOpen() && t.Free > 0 }) {
		t.Fatalf("nothing is free: %+v", n.lots(d))
	}
	if v, _, _ := n.draw(d, 99, 1); v == lot.Charged {
		t.Error("handed out for longer than the lot lives")
	}
	n.closing = false
	if v, _, _ := n.draw(d, 99, 1); v != lot.Wait {
		t.Fatal(v)
	}
	n.land()
	if v, _, _ := n.draw(d, 99, 1); v != lot.Charged {
		t.Error(v)
	}
}

// The life of a lot counts from when it was asked for.
func TestLifeCountsFromTheQuestion(t *testing.T) {
	n := newWorld(t, 1).nodes[0]
	d := n.decider(limited(t, 100, 10*time.Second))
	n.draw(d, 1, 1)
	sent := n.Clock.Now()
	n.resume(0)
	n.true += 1_000_000
	n.land()
	if got, want := n.lots(d)[0].Expiry, sent.Expiry(12_500_000); got != want || want >= sent+12_500_000-20_000 {
		t.Errorf("expires at %d, sent at %d", got, sent)
	}
}

// A lot that the store has given to others gets no new holders; those that it has finish.
func TestLostLotGetsNoNewHolders(t *testing.T) {
	n, d := busy(t, 1, 4)
	for _, t := range n.lots(d) {
		n.take([]weir.Op{{Key: "k", Limit: d.by, ID: t.ID, Cost: 1, Role: weir.Always, Verb: weir.Refund}})
	}
	n.take([]weir.Op{{Key: "k", Limit: d.by, ID: 12345, Cost: 100}})
	n.true += 1_300_000
	n.draw(d, 1, 1)
	n.land()
	for _, t := range n.lots(d) {
		if !t.Lost {
			n.Errorf("%+v", t)
		}
	}
	if n.held() != 0 || n.acquire(d, 99, 1) {
		t.Error("handed out of a lost lot")
	}
	n.true += 100_000
	if v, _, _ := n.draw(d, 2, 1); v != lot.Charged {
		t.Errorf("a holder in a lost lot: %v", v)
	}
	n.true += 2_000_000 // too old, and it is not renewed
	if v, _, _ := n.draw(d, 2, 1); v != lot.Ask {
		t.Errorf("a holder in a lot that cannot be renewed: %v", v)
	}
	n.land()
	for id := range int64(4) {
		n.release(d, id+1)
	}
	if len(n.lots(d)) != 0 {
		t.Errorf("%+v", n.lots(d))
	}
	if n.giveBack(nil); n.left(d.limit) != 0 {
		t.Error("a lost lot was returned")
	}
}

// What nobody took for the idle time goes back, and what has a holder stays.
func TestIdlePermitsAreReturned(t *testing.T) {
	n, d := busy(t, 1, 40)
	if n.held() == 0 {
		t.Fatal("nothing is idle")
	}
	n.sweep(600 * time.Millisecond)
	if n.left(d.limit) != 60 || n.held() != 0 {
		t.Errorf("%d left, %d held", n.left(d.limit), n.held())
	}
	for id := range int64(30) {
		if !n.release(d, id+1) {
			t.Fatalf("holder %d is forgotten", id+1)
		}
	}
	n.sweep(600 * time.Millisecond)
	if n.left(d.limit) != 90 || n.Returns.Stranded.Load() != 0 {
		t.Errorf("%d left", n.left(d.limit))
	}
	for id := range int64(10) {
		n.release(d, id+31)
	}
	n.sweep(600 * time.Millisecond)
	if keys, _, _ := n.Table.CountHeld(); keys != 0 || n.left(d.limit) != 100 {
		t.Errorf("%d keys, %d left", keys, n.left(d.limit))
	}
}

// The same while other permits of the key are in use.
func TestIdlePermitsOfABusyKeyAreReturned(t *testing.T) {
	n, d := busy(t, 1, 40)
	for id := range int64(38) {
		n.release(d, id+1)
	}
	for i := range int64(20) {
		n.true += 100_000
		if !n.release(d, 39+i) || !n.acquire(d, 41+i, 1) {
			t.Fatal("refused")
		}
		n.land()
		n.giveBack(nil)
	}
	if n.left(d.limit) < 90 {
		t.Errorf("%d left of 100, 2 are taken", n.left(d.limit))
	}
}

// What is taken now and then stays, as long as that is more often than the idle time.
func TestPermitsThatAreTakenStay(t *testing.T) {
	n, d := busy(t, 1, 40)
	calls := n.Table.CountDrawn()
	for range 50 {
		for id := range int64(40) {
			n.release(d, id+1)
		}
		n.true += 80_000
		for id := range int64(40) {
			if !n.acquire(d, id+1, 1) {
				t.Fatal("refused")
			}
		}
		n.giveBack(nil)
	}
	if n.Table.CountDrawn() != calls+50*40 || n.Returns.Returned.Load() > 60 {
		t.Errorf("%d of 2000 by what is held, %d returned", n.Table.CountDrawn()-calls, n.Returns.Returned.Load())
	}
}

// Holders whose time is over are forgotten where nobody comes, and their permits go back.
func TestPermitsOfLostHoldersAreReturned(t *testing.T) {
	n, d := busy(t, 1, 40)
	for range 25 {
		n.sweep(500 * time.Millisecond)
	}
	if keys, _, _ := n.Table.CountHeld(); keys != 0 || n.left(d.limit) != 100 {
		t.Errorf("%d keys, %d left", keys, n.left(d.limit))
	}
}

// An entry that leaves with its node gives back what is free and keeps the rest.
func TestDrainKeepsWhatHoldersHave(t *testing.T) {
	n, d := busy(t, 1, 40)
	n.Table.DrainEntries(func() { n.giveBack(nil) })
	if n.left(d.limit) != 60 {
		t.Errorf("%d left, 40 are taken", n.left(d.limit))
	}
}

// After a reload that lowers the count what is free goes back at once, and what is taken
// when it is released. Holders keep their permits as long as they renew them.
func TestLoweredCountDrainsLots(t *testing.T) {
	n, old := busy(t, 1, 40)
	low := n.decider(limited(t, 20, 8*time.Second))
	if v, _, _ := n.draw(low, 7, 1); v != lot.Charged {
		t.Fatalf("a holder is refused: %v", v)
	}
	n.draw(low, 7, 1)
	n.giveBack(nil)
	if n.held() != 0 || n.left(old.limit) != 60 {
		t.Errorf("%d held, %d left of 100", n.held(), n.left(old.limit))
	}
	if n.acquire(low, 99, 1) {
		t.Error("a new holder above the new count")
	}
	for range 20 {
		n.true += 1_000_000
		for id := range int64(40) {
			if !n.acquire(low, id+1, 1) {
				t.Fatalf("holder %d is refused", id+1)
			}
		}
		n.land()
	}
	for id := range int64(40) {
		n.release(low, id+1)
	}
	n.giveBack(nil)
	if n.left(old.limit) != 100 || len(n.lots(low)) != 0 {
		t.Errorf("%d left, lots %+v", n.left(old.limit), n.lots(low))
	}
	n.true += 1_000_000
	for id := range int64(20) {
		if !n.acquire(low, id+201, 1) {
			t.Fatal("refused")
		}
	}
	if n.acquire(low, 999, 1) {
		t.Error("a permit too many")
	}
}

// A fetch that was under way when the count was lowered brings nothing that is handed out.
func TestFetchUnderTheOldCountIsClosed(t *testing.T) {
	n, d := busy(t, 1, 4)
	for id := int64(50); len(n.flying) == 0; id++ {
		n.draw(d, id, 1)
	}
	low := n.decider(limited(t, 50, 10*time.Second))
	n.draw(low, 1, 1)
	n.land()
	n.giveBack(nil)
	if n.held() != 0 {
		t.Errorf("%d held", n.held())
	}
}

// Where holders have a longer time by a reload, lots are renewed for that.
func TestLongerPeriodRenewsLots(t *testing.T) {
	n, _ := busy(t, 1, 10)
	long := n.decider(limited(t, 100, 30*time.Second))
	for id := range int64(10) {
		if !n.acquire(long, id+1, 1) {
			t.Fatal("refused")
		}
	}
	for _, t := range n.lots(long) {
		if t.Limit != long.by || t.Expiry < n.Clock.Now()+30_000_000 {
			n.Errorf("%+v", t)
		}
	}
}

func TestStoreIsAskedWhereLotsDoNotServe(t *testing.T) {
	n, d := busy(t, 2, 4)
	ask := func(what string, d *Decider, id, cost int64) {
		t.Helper()
		if v, _, o := n.draw(d, id, cost); v != lot.Ask {
			t.Errorf("%s: %v %+v", what, v, o)
		}
	}
	ask("a cost above the largest lot", d, 50, 100/8+1)
	ask("no name", d, 0, 1)
	ask("a holder who wants more than its lot has", d, 1, 12)
	n.land()
	n.closing = true
	for id := int64(50); n.held() > 0; id++ {
		n.acquire(d, id, 1)
	}
	ask("no call is to be had", d, 99, 1)
	n.closing = false
	n.Table = lot.NewTable(1, n.Returns)
	ask("no room", d, 50, 1)
	ask("a share of less than 8", n.decider(limited(t, 15, 10*time.Second)), 1, 1)
	n.Table = lot.NewTable(1<<20, n.Returns)
	tag := n.Table.TagForKey("k", d.limit)
	e := n.Table.ShardOfTag(tag).AddEntry(tag, "k", d.limit, 0, n.Clock.Now())
	e.State = "a tally"
	ask("another decider's entry", d, 50, 1)
	if e.State != "a tally" || d.Refund(n.Clock.Now(), &weir.Op{Key: "k", Limit: d.limit, ID: 1}) {
		t.Error("the entry was used")
	}
}

// A limit whose permits cannot be leased has no terms.
func TestTermsOfLimits(t *testing.T) {
	if d, err := NewTerms(limited(t, 100, 10*time.Millisecond)); d != nil || err != nil {
		t.Errorf("idle permits would go back after %d: %v", d.idle, err)
	}
	l := limited(t, 100, weir.MaxPeriod)
	if d, err := NewTerms(l); d != nil || err != nil {
		t.Errorf("longer than there is: %v", err)
	}
	l = limited(t, 100, 8*time.Second)
	l.Consistency.Share = 2
	d, err := NewTerms(l)
	if err != nil || d.by.ID() != l.ID() || d.life != 10_000_000 || d.period != 8_000_000 || d.renewal != 1_000_000 || d.parts != 2 || d.idle != 400_000 {
		t.Errorf("%+v, %v", d, err)
	}
}

// A fetch without an answer may have been granted: its name is returned, twice.
func TestUnansweredFetchIsReturnedByName(t *testing.T) {
	for _, call := range []bool{true, false} {
		n := newWorld(t, 1).nodes[0]
		d := n.decider(limited(t, 100, 10*time.Minute))
		n.draw(d, 1, 5)
		n.flying[0].loseCall, n.flying[0].loseAnswer = call, !call
		n.land()
		if !n.failed || n.held() != 0 {
			t.Fatal("answered")
		}
		for range 2 {
			some := n.Returns.TakeDue(0, 0)
			if len(some) != 1 || some[0].Expiry <= n.Clock.Now() {
				t.Errorf("not returned: %+v", some)
			}
			n.Returns.FinishCall(some, n.Clock.Now(), lot.Accepted)
			n.Returns.Resume()
		}
	}
	n := newWorld(t, 1).nodes[0]
	d := n.decider(limited(t, 100, 10*time.Minute))
	n.draw(d, 1, 5)
	n.flying[0].loseAnswer = true
	n.land()
	if n.giveBack(nil); n.left(d.limit) != 100 {
		t.Errorf("%d left", n.left(d.limit))
	}
}

// While a lot is renewed it keeps its units: a smaller number could reach the store before
// the renewal, which would then ask for more than is left.
func TestRenewedLotKeepsItsUnits(t *testing.T) {
	n, d := busy(t, 1, 20)
	n.true += 1_300_000
	n.draw(d, 1, 1)
	n.giveBack(nil)
	held := n.held()
	if len(n.flying) != 1 {
		t.Fatalf("%d flights", len(n.flying))
	}
	n.release(d, 2)
	n.sweep(600 * time.Millisecond)
	if n.held() != held+1 || n.left(d.limit) != 100-20-held {
		t.Errorf("%d held of which %d before, %d left", n.held(), held, n.left(d.limit))
	}
	n.land()
	n.sweep(600 * time.Millisecond)
	if n.held() != 0 || n.left(d.limit) != 81 {
		t.Errorf("%d held, %d left", n.held(), n.left(d.limit))
	}
}

// A renewal whose answer comes when the lot has expired holds nothing on the store.
func TestLateRenewalIsReturned(t *testing.T) {
	n, d := busy(t, 1, 4)
	n.sweep(400 * time.Millisecond)
	for id := range int64(4) {
		n.release(d, id+1)
	}
	n.true += 1_300_000
	n.acquire(d, 1, 1)
	n.resume(0)
	n.true += 13_000_000
	n.Table.SweepIdle(n.Clock.Now())
	n.draw(d, 0, 1)
	n.giveBack(nil)
	n.land()
	n.sweep(time.Second)
	n.sweep(time.Second)
	if n.left(d.limit) != 100 {
		t.Errorf("%d left of 100", n.left(d.limit))
	}
}

func TestUndoTakesBackNewPermitsOnly(t *testing.T) {
	n, d := busy(t, 1, 20)
	held := n.held()
	var h lot.Hold
	for _, x := range []struct{ id, want int64 }{{99, held}, {3, held}} {
		o := weir.Op{Key: "k", Limit: d.limit, Cost: 1, ID: x.id}
		if v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, &h); v != lot.Charged {
			t.Fatal(v)
		}
		d.Undo(n.Clock.Now(), &h)
		if n.held() != x.want || len(h.Parts) != 0 {
			t.Errorf("holder %d: %d held, want %d", x.id, n.held(), x.want)
		}
	}
	if !n.release(d, 3) || n.release(d, 99) {
		t.Error("the renewed permit is gone, or the new one is not")
	}
}

// A holder that the store has granted a permit itself renews and releases there.
func TestStoresHoldersAreLeftToIt(t *testing.T) {
	n, d := busy(t, 1, 20)
	held, left := n.held(), n.left(d.limit)
	for _, id := range []int64{50, 3} { // the second had one of the node's
		o := []weir.Op{{Key: "k", Limit: d.limit, Cost: 30, ID: id}}
		if v, _, _ := n.draw(d, id, 30); v != lot.Ask {
			t.Fatal(v)
		}
		sent := n.Clock.Now()
		n.take(o)
		d.Learn(&o[0], sent)
		if !o[0].Charged || o[0].Decision.Remaining != n.left(d.limit)+n.held() {
			t.Errorf("%+v", o[0])
		}
		if v, _, _ := n.draw(d, id, 1); v != lot.Ask {
			t.Errorf("renewed by the node: %v", v)
		}
		if n.release(d, id) {
			t.Error("released by the node")
		}
	}
	if n.held() != held+1 || n.left(d.limit) != left {
		t.Errorf("%d held, want %d; %d left, want %d", n.held(), held+1, n.left(d.limit), left)
	}
	// Where nothing is known of the key it is noted too.
	n.Table = lot.NewTable(1<<20, n.Returns)
	o := []weir.Op{{Key: "k", Limit: d.limit, Cost: 1, ID: 70}}
	n.take(o)
	d.Learn(&o[0], n.Clock.Now())
	if v, _, _ := n.draw(d, 70, 1); v != lot.Ask {
		t.Error(v)
	}
}

// A refusal holds for an eighth of the idle time, for what is as large, and until a
// permit is released on the node.
func TestRefusalIsRemembered(t *testing.T) {
	n, d := busy(t, 1, 4)
	n.take([]weir.Op{{Key: "k", Limit: d.limit, ID: 12345, Cost: n.left(d.limit)}})
	for id := int64(50); n.acquire(d, id, 1); id++ {
	}
	calls := n.calls
	v, _, o := n.draw(d, 99, 1)
	if v != lot.Refused || o.Charged || o.Decision.Allowed() || o.Decision.RetryAfter <= 0 || o.Decision.Guarantee().Source != weir.FromLease {
		t.Errorf("%v %+v", v, o)
	}
	if v, _, _ := n.draw(d, 1, 1); v != lot.Charged {
		t.Errorf("a holder that renews: %v", v)
	}
	n.release(d, 1)
	if v, _, _ := n.draw(d, 99, 1); v != lot.Charged || n.calls != calls {
		t.Errorf("%v, %d calls more", v, n.calls-calls)
	}
	n.land()
	n.true += d.idle / 8
	if v, _, _ := n.draw(d, 98, 1); v != lot.Wait {
		t.Errorf("after its end: %v", v)
	}
}

// One that waited for a refusal that comes late hears of it.
func TestLateRefusalIsHeard(t *testing.T) {
	n := newWorld(t, 1).nodes[0]
	d := n.decider(limited(t, 100, 10*time.Second))
	n.take([]weir.Op{{Key: "k", Limit: d.limit, ID: 12345, Cost: 100}})
	n.draw(d, 1, 1)
	n.resume(0)
	n.true += 700_000
	n.land()
	if v, _, _ := n.draw(d, 1, 1); v != lot.Refused {
		t.Error(v)
	}
}

func TestPeekTakesNothing(t *testing.T) {
	n, d := busy(t, 1, 20)
	held := n.held()
	peek := func(id, cost int64) (lot.Verdict, weir.Op) {
		o := weir.Op{Key: "k", Limit: d.limit, Cost: cost, ID: id, Verb: weir.Peek}
		v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, nil)
		return v, o
	}
	if v, o := peek(0, held); v != lot.Charged || o.Charged || !o.Decision.Allowed() || o.Decision.Remaining < held || o.Decision.ResetAfter <= 0 {
		t.Errorf("%v %+v", v, o)
	}
	if v, _ := peek(0, held+1); v != lot.Ask || n.held() != held {
		t.Error(v)
	}
	for id := int64(50); n.held() > 0; id++ {
		n.draw(d, id, 1)
	}
	n.land()
	for id := int64(90); n.held() > 0; id++ {
		n.draw(d, id, 1)
	}
	if v, _ := peek(3, 1); v != lot.Charged {
		t.Errorf("by who has one: %v", v)
	}
}

// I2: what ended while the machine was suspended is not handed out.
func TestSuspendedNodeHandsOutNothingLate(t *testing.T) {
	n, d := busy(t, 1, 20)
	n.true, n.slept = n.true+60_000_000, n.slept+60_000_000
	n.true += 1000
	if v, _, _ := n.draw(d, 99, 1); v != lot.Wait || n.held() != 0 {
		t.Errorf("%v, %d held", v, n.held())
	}
}

// I11: a wall clock that is set forward ends lots too early, and no holder: nobody gets
// what one has, from the node or from the store.
func TestClockSetForwardEndsNoHolder(t *testing.T) {
	for _, ahead := range []int64{10_000_000, 60_000_000} { // a lot ends later, and earlier
		n, d := busy(t, 1, 20)
		n.ahead = ahead
		n.true += 1000
		taken := 20
		for id := range int64(200) {
			if n.acquire(d, 1000+id, 1) {
				taken++
			}
			n.giveBack(nil)
		}
		if int64(taken) > d.limit.Count {
			t.Errorf("%d ahead: %d of %d are taken", ahead, taken, d.limit.Count)
		}
		if n.true += 10_000_000; !n.acquire(d, 9999, 1) {
			t.Error("holders stay for longer than they have permits")
		}
	}
}

// I15: the holders of a key are bounded in bytes; the store grants beyond that.
func TestHoldersAreBounded(t *testing.T) {
	n := newWorld(t, 1).nodes[0]
	n.Table = lot.NewTable(64*8_000, n.Returns)
	d := n.decider(limited(t, 1000, 10*time.Second))
	for id := range int64(500) {
		if !n.acquire(d, id+1, 1) {
			t.Fatal("refused")
		}
	}
	s := stateOf(n.entry(d.limit))
	if got := int64(len(s.holders)) * holderBytes; got > 8_000 || got < 4_000 {
		t.Errorf("%d holders take %d bytes", len(s.holders), got)
	}
	for id := range int64(500) {
		n.release(d, id+1)
	}
	if n.left(d.limit) != 1000-n.held() {
		t.Errorf("%d left, %d held", n.left(d.limit), n.held())
	}
}

// A decision by what is held takes no memory.
func TestWarmDrawAllocatesNothing(t *testing.T) {
	n, d := busy(t, 1, 40)
	decide, o, h := lot.Decider(d), &weir.Op{Key: "k", Limit: d.limit, Cost: 1, ID: 99}, &lot.Hold{Parts: make([]lot.Lot, 0, 2)}
	back := &weir.Op{Key: "k", Limit: d.limit, Cost: 1, ID: 99, Verb: weir.Refund}
	before := n.Table.CountDrawn()
	if a := testing.AllocsPerRun(1000, func() {
		now := n.Clock.Now()
		if v, _ := decide.Draw(context.Background(), now, o, nil); v != lot.Charged || !decide.Refund(now, back) {
			t.Fatal("not warm")
		}
		decide.Draw(context.Background(), now, o, h)
		decide.Undo(now, h)
	}); a != 0 || n.Table.CountDrawn() < before+2000 {
		t.Errorf("%v allocations, %d decisions by what is held", a, n.Table.CountDrawn()-before)
	}
	if len(n.flying) > 0 {
		t.Error(fmt.Sprint(len(n.flying), " flights"))
	}
}

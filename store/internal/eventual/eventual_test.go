package eventual

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// warm returns a node that has slack of a limit of a thousand a minute.
func warm(t *testing.T, a weir.Algorithm, nodes int, change ...func(*weir.Limit)) (*node, *Decider) {
	w := newWorld(t, nodes)
	n := w.nodes[0]
	d := n.decider(limited(t, 1000, a, change...))
	if _, ok := n.spend(d, 1); !ok || slackOf(first(n.entry(d))).Fetched == 0 {
		t.Fatal("no slack")
	}
	n.pushAll()
	return n, d
}

func first(e *lot.Entry, _ *tally) *lot.Entry { return e }

func slowly(l *weir.Limit) { l.Consistency.SyncInterval = time.Second }

func TestColdDrawAsksOnce(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	d := n.decider(limited(t, 1000, algorithm.FixedWindow))
	v, f, _ := n.draw(d, 5)
	v2, f2, _ := n.draw(d, 3)
	if v != lot.Wait || v2 != lot.Wait || f == nil || f != f2 || len(w.flying) != 1 {
		t.Fatalf("%v, %v, %d flights", v, v2, len(w.flying))
	}
	n.land()
	v, _, o := n.draw(d, 5)
	if v != lot.Charged || !o.Charged || o.Decision.Guarantee().Source != weir.FromCounts || o.Decision.Remaining != 995 || o.Receipt() != epoch+60_000_000 {
		t.Errorf("%v %+v", v, o)
	}
	if w.calls != 1 || w.left(d.limit) != 1000 || w.left(d.slack) != 0 {
		t.Errorf("%d calls, %d left, %d of the slack", w.calls, w.left(d.limit), w.left(d.slack))
	}
}

func TestTallyIsPushedInItsInterval(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1, slowly)
	before := n.calls
	for range 5 {
		if v, _, _ := n.draw(d, 2); v != lot.Charged {
			t.Fatal(v)
		}
	}
	n.true += 900_000
	n.PushDue(n.Clock.Now())
	if n.land(); n.calls != before || n.left(d.limit) != 999 {
		t.Errorf("%d calls, %d left before the interval is over", n.calls-before, n.left(d.limit))
	}
	n.true += 200_000
	n.PushDue(n.Clock.Now())
	if n.land(); n.calls != before+1 || n.left(d.limit) != 989 {
		t.Errorf("%d calls, %d left", n.calls-before, n.left(d.limit))
	}
	if e, y := n.entry(d); e.Pinned || y.units() != 0 {
		t.Errorf("pinned %v, %d in the tally", e.Pinned, y.units())
	}
	n.true += 2_000_000
	n.PushDue(n.Clock.Now())
	if n.land(); n.calls != before+1 {
		t.Error("nothing is pushed again")
	}
}

// Half the slack is pushed at once, and near the end of the limit an eighth of it.
func TestTallyIsPushedWhenItIsNear(t *testing.T) {
	for _, used := range []int64{0, 800} {
		n, d := warm(t, algorithm.FixedWindow, 1)
		n.ask(d, used+1)
		want := int64(50)
		if used > 0 {
			want = 13
		}
		for i := int64(1); i <= want; i++ {
			n.draw(d, 1)
			if pushed := len(n.flying) > 0; pushed != (i >= want) {
				t.Fatalf("after %d of 1000: pushed %v after %d", used, pushed, i)
			}
		}
	}
}

// However often a push is lost, late or repeated, it is counted once, also of an entry that
// follows an earlier one of its key.
func TestPushIsCountedOnce(t *testing.T) {
	for _, a := range lenders {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 3))
			n, d := warm(t, a, 1, func(l *weir.Limit) { l.Period = 1000 * time.Hour })
			spent := int64(1)
			for step := range 150 {
				if v, _, o := n.draw(d, 1+r.Int64N(3)); v == lot.Charged {
					spent += o.Cost
				}
				n.true += r.Int64N(60_000)
				n.PushDue(n.Clock.Now())
				if len(n.flying) > 0 {
					x := n.flying[0]
					switch r.IntN(8) {
					case 0:
						x.loseCall = true
					case 1:
						x.loseAnswer = true
					case 2:
						x.isLate = true
					case 3:
						x.comesAgain = true
					}
					n.land()
				}
				if len(n.stray) > 0 && r.IntN(3) == 0 {
					n.arrive(r.IntN(len(n.stray)))
				}
				if e, y := n.entry(d); step%70 == 69 && y != nil && y.units() == 0 && !e.Pinned && e.Flight == nil {
					n.Table.ShardOfTag(n.Table.TagForKey("k", d.limit)).DropEntry(e)
					n.giveBack()
				}
			}
			for len(n.stray) > 0 {
				n.arrive(0)
			}
			n.pushAll()
			if left := n.left(d.limit); left != max(1000-spent, 0) || spent < 100 {
				t.Fatalf("%s, seed %d: %d left of 1000 of which %d were spent", a.Name(), seed, left, spent)
			}
		}
	}
}

// While its server is lost another has the key, and has marks of its own: no push is taken for
// counted that one of them has not counted.
func TestNoPushIsLostBetweenServers(t *testing.T) {
	for _, a := range lenders {
		drops := 0
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 4))
			n, d := warm(t, a, 1, func(l *weir.Limit) { l.Period = 1000 * time.Hour })
			n.isMoved = true
			before := n.left(d.limit)
			n.isMoved = false
			spent := int64(1)
			for range 100 {
				if v, _, o := n.draw(d, 1+r.Int64N(3)); v == lot.Charged {
					spent += o.Cost
				}
				n.true += r.Int64N(60_000)
				if r.IntN(8) == 0 {
					n.isMoved = !n.isMoved
				}
				n.PushDue(n.Clock.Now())
				for len(n.flying) > 0 {
					n.flying[0].loseCall, n.flying[0].loseAnswer = r.IntN(8) == 0, r.IntN(8) == 0
					n.resume(0)
				}
				if e, y := n.entry(d); r.IntN(4) == 0 && y != nil && y.units() == 0 && !e.Pinned && e.Flight == nil {
					n.Table.ShardOfTag(n.Table.TagForKey("k", d.limit)).DropEntry(e)
					n.giveBack()
					drops++
				}
			}
			for range 2 { // what a server refuses is pushed again
				n.pushAll()
			}
			counted := int64(0)
			for _, n.isMoved = range []bool{true, false} {
				counted += before - n.left(d.limit)
			}
			if counted < spent {
				t.Errorf("%s, seed %d: the servers have counted %d of %d that were spent", a.Name(), seed, counted, spent)
			}
		}
		if drops < 100 {
			t.Errorf("%s: %d entries were dropped", a.Name(), drops)
		}
	}
}

// A push of which nobody knows whether it was counted stays taken from the slack.
func TestUnsurePushIsGivenUp(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1, func(l *weir.Limit) { l.Period = time.Hour })
	n.draw(d, 30)
	_, y := n.entry(d)
	for i := range 240 {
		n.true += 400_000
		n.PushDue(n.Clock.Now())
		if len(n.flying) != 1 {
			t.Fatalf("attempt %d: %d flights", i, len(n.flying))
		}
		n.flying[0].loseCall = true
		if n.land(); y.push.units == 0 {
			break
		}
		if y.units() != 30 {
			t.Fatalf("%+v", y)
		}
	}
	e, _ := n.entry(d)
	if y.units() != 0 || slackOf(e).Fetched != 70 || slackOf(e).Free != 70 || y.push != (push{}) || n.true < 80_000_000 || n.true > 82_000_000 {
		t.Errorf("%+v, slack %+v at %d", y, slackOf(e), n.true)
	}
	if v, _, _ := n.draw(d, 71); v == lot.Charged {
		t.Error("more than the slack that is left")
	}
}

// A push that waits for the end of an outage is repeated for so long only as the store is sure to
// know whether it has counted it: however long the outage lasts, nothing is counted twice.
func TestPushIsCountedOnceAfterAnOutage(t *testing.T) {
	for _, answerIsLost := range []bool{false, true} {
		for _, seconds := range []int64{1, 19, 21, 59, 75, 89, 91, 120, 300} {
			n, d := warm(t, algorithm.FixedWindow, 1, func(l *weir.Limit) { l.Period = 1000 * time.Hour })
			n.draw(d, 10)
			n.pushAll() // with a mark
			n.draw(d, 20)
			n.PushDue(clock.Never - 1)
			n.flying[0].loseAnswer, n.flying[0].loseCall = answerIsLost, !answerIsLost
			n.land()
			n.draw(d, 5)
			n.closing = true // as while the breaker is open
			for range 10 * seconds {
				n.true += 100_000
				n.PushDue(n.Clock.Now())
			}
			n.closing = false
			n.pushAll()
			counted, want := 1000-n.left(d.limit), int64(36)
			if seconds > 80 && !answerIsLost {
				want = 16 // it was given up, as it may have been counted
			}
			if counted != want {
				t.Errorf("after %d s, answer lost %v: %d are counted, want %d", seconds, answerIsLost, counted, want)
			}
		}
	}
}

// B9: slack ends with its window, on the node before it does on the store.
func TestSlackEndsWithItsWindow(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1)
		n.true = 60_000_000 - 60_000_000/512 + 1000
		if v, _, _ := n.draw(d, 1); v == lot.Charged {
			t.Errorf("%s: admitted by slack whose window is over", a.Name())
		}
	}
}

// A push that was counted before brings no slack: the store has not charged any.
func TestRepeatedPushBringsNoSlack(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	n.draw(d, 10)
	n.true = 59_890_000
	n.PushDue(n.Clock.Now())
	n.flying[0].loseAnswer = true
	n.land()
	n.true += 120_000
	n.PushDue(n.Clock.Now())
	n.land()
	if e, y := n.entry(d); y.units() != 0 || len(e.Lots()) != 0 || n.left(d.slack) != 100 {
		t.Errorf("%+v, slack %+v, %d of it left", y, e.Lots(), n.left(d.slack))
	}
}

// B9: the store lends the slack: what nodes take their number to be does not change its sum.
func TestSlackIsLentByTheStore(t *testing.T) {
	for _, a := range lenders {
		w := newWorld(t, 4)
		l := limited(t, 1000, a)
		sum, none := int64(0), 0
		for _, n := range w.nodes {
			n.alone = true
			d := n.decider(l)
			n.draw(d, 1)
			n.land()
			e, _ := n.entry(d)
			if sum += slackOf(e).Fetched; slackOf(e).Fetched == 0 {
				none++
				if v, _, _ := n.draw(d, 1); v != lot.Ask || len(e.Lots()) != 1 {
					t.Errorf("%s: %v without slack, %d lots", a.Name(), v, len(e.Lots()))
				}
			}
		}
		most := int64(100)
		if a != algorithm.FixedWindow {
			most = 50
		}
		if sum != most || none != 3 {
			t.Errorf("%s: %d units of slack, %d without", a.Name(), sum, none)
		}
	}
}

// What is above the slack, above what remains, and what has no room, is the store's.
func TestStoreIsAskedWhereSlackDoesNotServe(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 2)
	if v, _, _ := n.draw(d, 51); v != lot.Ask {
		t.Errorf("a cost above the slack: %v", v)
	}
	n.ask(d, n.left(d.limit)-2)
	if v, _, _ := n.draw(d, 3); v != lot.Ask {
		t.Errorf("a cost above what remains: %v", v)
	}
	if v, _, _ := n.draw(d, 2); v != lot.Charged {
		t.Errorf("the rest: %v", v)
	}
	n.closing = true
	d = n.decider(limited(t, 100, algorithm.TokenBucket))
	if v, _, _ := n.draw(d, 1); v != lot.Ask {
		t.Errorf("the node is closing: %v", v)
	}
	n.closing = false
	n.Table = lot.NewTable(1, n.Returns)
	if v, _, _ := n.draw(d, 1); v != lot.Ask {
		t.Errorf("no room: %v", v)
	}
	first := limited(t, 100, algorithm.FixedWindow)
	first.Anchor = params.AnchorFirst
	one := limited(t, 1, algorithm.TokenBucket, func(l *weir.Limit) { l.Consistency.MaxOvershoot = 1 })
	for _, l := range []*weir.Limit{first, one} {
		if terms, err := NewTerms(l); terms != nil || err != nil {
			t.Errorf("%+v, %v", terms, err)
		}
	}
}

func TestRefusalIsAnsweredUntilItEnds(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.TokenBucket} {
		n, d := warm(t, a, 1, slowly)
		n.ask(d, n.left(d.limit))
		if o := n.ask(d, 1); o.Charged {
			t.Fatal("nothing was left")
		}
		v, _, o := n.draw(d, 1)
		if v != lot.Refused || o.Charged || o.Decision.RetryAfter <= 0 || o.Decision.Guarantee().Source != weir.FromCounts {
			t.Errorf("%s: %v %+v", a.Name(), v, o)
		}
		// A unit of the bucket is there after 60 ms, and waits for the interval.
		n.true += 500_000
		if v, _, _ := n.draw(d, 1); v != lot.Refused {
			t.Errorf("%s: half an interval later: %v", a.Name(), v)
		}
		n.true += 600_000
		if v, _, _ := n.draw(d, 1); v == lot.Refused {
			t.Errorf("%s: an interval later: %v", a.Name(), v)
		}
	}
}

func TestUndoAndRefundGoToTheTally(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1)
		now := n.Clock.Now()
		var h lot.Hold
		o := weir.Op{Key: "k", Limit: d.limit, Cost: 3}
		if v, _ := d.Draw(context.Background(), now, &o, &h); v != lot.Charged {
			t.Fatal(v)
		}
		e, y := n.entry(d)
		u := o.Undo(3)
		if y.units() != 3 || slackOf(e).Free != slackOf(e).Fetched-3 {
			t.Errorf("%s: %+v", a.Name(), y)
		}
		if !d.Refund(now, &u) || !u.Charged || y.units() != 0 || slackOf(e).Free != slackOf(e).Fetched {
			t.Errorf("%s: refund %+v, %+v", a.Name(), u, y)
		}
		u.ID = epoch
		if d.Refund(now, &u) {
			t.Errorf("%s: a refund of what no longer counts", a.Name())
		}
		if u.ID = o.Receipt() + 1; d.refiller == nil && d.Refund(now, &u) {
			t.Errorf("%s: a refund of another window", a.Name())
		}
		h.Parts = h.Parts[:0]
		d.Draw(context.Background(), now, &o, &h)
		d.Undo(now, &h)
		if y.units() != 0 || len(h.Parts) != 0 {
			t.Errorf("%s: %+v after undo", a.Name(), y)
		}
		if n.pushAll(); n.left(d.limit) != 999 {
			t.Errorf("%s: %d left of 1000 of which one is spent", a.Name(), n.left(d.limit))
		}
	}
}

// What the store has counted already and is given back is used first, and is the store's
// again in an interval. It is bounded by the slack.
func TestCredit(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1, func(l *weir.Limit) { l.Period = 24 * time.Hour })
		var spent []weir.Op
		for range 60 {
			o, ok := n.spend(d, 1)
			if !ok {
				t.Fatal("refused")
			}
			spent = append(spent, o)
			n.pushAll()
		}
		credited := 0
		for _, o := range spent {
			u := o.Undo(1)
			if !d.Refund(n.Clock.Now(), &u) {
				break
			}
			credited++
		}
		e, y := n.entry(d)
		if int64(credited) != min(slackOf(e).Fetched, 60) || y.open != int64(-credited) || slackOf(e).Free != slackOf(e).Fetched {
			t.Errorf("%s: %d are credited, %+v", a.Name(), credited, y)
		}
		for range 10 {
			n.draw(d, 1)
		}
		if n.pushAll(); y.open != 0 {
			t.Errorf("%s: %d is left of a credit", a.Name(), y.open)
		}
		if left, want := n.left(d.limit), 1000-1-60+int64(credited)-10; left > want || left < want-1 {
			t.Errorf("%s: %d left, want %d", a.Name(), left, want)
		}
	}
}

// A credit is of no use when its window is over, or its units have flowed back (F13).
func TestCreditEnds(t *testing.T) {
	for _, a := range lenders {
		n, d := warm(t, a, 1, func(l *weir.Limit) { l.Consistency.SyncInterval = 10 * time.Minute })
		o, _ := n.spend(d, 40)
		n.pushAll()
		u := o.Undo(40)
		if !d.Refund(n.Clock.Now(), &u) {
			t.Fatalf("%s: not taken", a.Name())
		}
		e, y := n.entry(d)
		wall := epoch + n.true
		if y.expireSlack(e, n.Clock.Now(), min(u.ID, lot.DrawableUntil(d.limit, y.receipt))-1); y.open != -40 {
			t.Errorf("%s: over before its time", a.Name())
		}
		n.true += min(u.ID, lot.DrawableUntil(d.limit, y.receipt)) - wall + 1000
		n.draw(d, 1)
		if y.open < 0 {
			t.Errorf("%s: %d after its end", a.Name(), y.open)
		}
	}
}

// What was admitted under another version of the limit is pushed by that one first.
func TestReloadSettlesTheTallyFirst(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	n.draw(d, 20)
	n.true += 200_000
	n.PushDue(n.Clock.Now())
	raised := n.decider(limited(t, 3000, algorithm.FixedWindow))
	if v, _, _ := n.draw(raised, 1); v != lot.Ask {
		t.Errorf("%v while a push is under way", v)
	}
	n.flying[0].loseCall = true
	n.land()
	if v, _, _ := n.draw(raised, 1); v != lot.Ask {
		t.Errorf("%v before the push is counted", v)
	}
	n.pushAll()
	if _, ok := n.spend(raised, 1); !ok {
		t.Error("refused")
	}
	n.giveBack() // the slack of before
	n.true += 1_100_000
	if _, ok := n.spend(raised, 1); !ok {
		t.Error("refused")
	}
	e, y := n.entry(raised)
	if e == nil || e.Limit != raised.limit || slackOf(e).Fetched != 300 || y.units() != 1 || n.left(raised.limit) != 3000-22 {
		t.Errorf("%+v %+v, %d left", e, y, n.left(raised.limit))
	}
	// An entry of another decider is settled the same way.
	other := n.decider(limited(t, 500, algorithm.TokenBucket))
	tag := n.Table.TagForKey("k", other.limit)
	x := n.Table.ShardOfTag(tag).AddEntry(tag, "k", other.limit, 0, n.Clock.Now())
	x.State, x.Pinned = "units", true
	if v, _, _ := n.draw(other, 1); v != lot.Ask || x.State != "units" {
		t.Errorf("%v", v)
	}
	x.Pinned = false
	if v, _, _ := n.draw(other, 1); v != lot.Wait {
		t.Errorf("%v", v)
	}
}

// B10: a node that was started again pushes under a name of its own: what its predecessor
// has pushed is not taken for its own.
func TestRestartedNodeHasNamesOfItsOwn(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 2)
	for range 5 {
		n.draw(d, 1)
		n.pushAll()
	}
	n.crash(0)
	n = n.nodes[0]
	again := n.decider(d.limit)
	for range 3 {
		if _, ok := n.spend(again, 1); !ok {
			t.Fatal("refused")
		}
		n.pushAll()
	}
	if left := n.left(d.limit); left != 1000-1-5-3 {
		t.Errorf("%d left of 1000 of which 9 were spent", left)
	}
}

func TestOptimisticColdDraw(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	d := n.decider(limited(t, 1000, algorithm.FixedWindow, func(l *weir.Limit) { l.Consistency.Optimistic = true }))
	n.draw(d, 1) // makes the entry
	for i := range 99 {
		if v, _, _ := n.draw(d, 1); v != lot.Charged {
			t.Fatalf("%d: %v", i, v)
		}
	}
	if v, _, _ := n.draw(d, 2); v != lot.Wait {
		t.Errorf("above its share: %v", v)
	}
	if n.pushAll(); n.left(d.limit) != 900 {
		t.Errorf("%d left", n.left(d.limit))
	}
}

// A key that the store was told to forget has nothing to push.
func TestForgottenTallyIsNotPushed(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	n.draw(d, 20)
	if held, f := n.Table.ForgetKey("k", d.limit); !held || f != nil {
		t.Errorf("held %v", held)
	}
	calls := n.calls
	n.pushAll()
	if n.calls != calls || n.left(d.limit) != 999 {
		t.Errorf("%d calls, %d left", n.calls-calls, n.left(d.limit))
	}
	// Its slack is the store's again, but for what was in the tally.
	if left := n.left(d.slack); left != 80 {
		t.Errorf("%d of the slack", left)
	}
}

// An idle entry leaves with its slack, one that has something to push does not.
func TestIdleEntryLeaves(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	n.draw(d, 1)
	n.true += 1_500_000
	n.Table.SweepIdle(n.Clock.Now())
	if e, _ := n.entry(d); e == nil {
		t.Fatal("it has left with a tally")
	}
	if _, units, _ := n.Table.CountHeld(); units != 0 {
		t.Errorf("%d units held", units)
	}
	n.pushAll()
	n.Table.SweepIdle(n.Clock.Now())
	if e, _ := n.entry(d); e != nil {
		t.Fatal("it is idle, and still there")
	}
	n.giveBack()
	if left := n.left(d.slack); left != 100 {
		t.Errorf("%d of the slack", left)
	}
}

func TestOvershootIsSeen(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	n.ask(d, n.left(d.limit)-100)
	n.draw(d, 60)
	n.take([]weir.Op{{Key: "k", Limit: d.limit, Cost: 90}})
	n.pushAll()
	if over := n.Overshot.Load(); over != 50 {
		t.Errorf("overshot by %d seen", over)
	}
}

func TestPeekTakesNothing(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1)
	peek := func(cost int64) (lot.Verdict, weir.Op) {
		o := weir.Op{Key: "k", Limit: d.limit, Cost: cost, Verb: weir.Peek}
		v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, nil)
		return v, o
	}
	if v, o := peek(100); v != lot.Charged || o.Charged || !o.Decision.Allowed() || o.Decision.Remaining != 999 {
		t.Errorf("%v %+v", v, o)
	}
	if v, _ := peek(101); v != lot.Ask || len(n.flying) != 0 {
		t.Errorf("%v, %d flights", v, len(n.flying))
	}
	if _, y := n.entry(d); y.units() != 0 {
		t.Error("it took something")
	}
}

// The bound: whatever is lost, late, repeated, suspended, killed, reloaded and refunded,
// nodes admit no more than what conforms to the limit with its overshoot, by the true time.
func TestNodesKeepTheBound(t *testing.T) {
	seeds := uint64(90)
	if testing.Short() {
		seeds = 36
	}
	for seed := range seeds {
		a := lenders[seed%uint64(len(lenders))]
		t.Run(fmt.Sprint(a.Name(), " ", seed), func(t *testing.T) { runFleet(t, a, rand.New(rand.NewPCG(seed, 9))) })
	}
}

// An admitted request of a history.
type admitted struct {
	at, cost int64
	op       weir.Op
	d        *Decider
	n        *node
}

func runFleet(t *testing.T, a weir.Algorithm, r *rand.Rand) {
	w := newWorld(t, 3)
	count := 100 + r.Int64N(200)
	newLimit := func() *weir.Limit {
		return limited(t, count, a, func(l *weir.Limit) {
			l.Period, l.Consistency.MaxOvershoot = 4*time.Second, 20+count/10
			l.Consistency.SyncInterval = time.Duration(20+r.IntN(300)) * time.Millisecond
		})
	}
	limit := newLimit()
	deciders := make([]*Decider, 3)
	for i, n := range w.nodes {
		n.drift = r.Int64N(1001) - 500
		n.alone = r.IntN(3) == 0
		deciders[i] = n.decider(limit)
	}
	var log []admitted
	admit := func(n *node, d *Decider, o weir.Op) { log = append(log, admitted{epoch + w.true, o.Cost, o, d, n}) }
	for range 30_000 {
		i := r.IntN(3)
		n, d := w.nodes[i], deciders[i]
		switch x := r.IntN(200); {
		case x < 90:
			switch v, _, o := n.draw(d, 1+r.Int64N(3)); v {
			case lot.Charged:
				admit(n, d, o)
			case lot.Ask:
				if o = n.ask(d, o.Cost); o.Charged {
					admit(n, d, o)
				}
			}
		case x < 95:
			var h lot.Hold
			o := weir.Op{Key: "k", Limit: d.limit, Cost: 1 + r.Int64N(5)}
			if v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, &h); v == lot.Charged {
				w.true += r.Int64N(2000)
				d.Undo(n.Clock.Now(), &h)
			}
		case x < 102:
			if len(log) == 0 {
				break
			}
			b := &log[max(len(log)-1-r.IntN(20), 0)]
			u := b.op.Undo(b.cost)
			if b.cost > 0 && b.d.Refund(b.n.Clock.Now(), &u) {
				b.cost = 0
			}
		case x < 150:
			if len(w.flying) > 0 {
				f := w.flying[r.IntN(len(w.flying))]
				switch r.IntN(60) {
				case 0:
					f.loseCall = true
				case 1:
					f.isLate = true
				case 2:
					f.comesAgain = true
				case 3:
					f.loseAnswer = true
				}
				w.resume(r.IntN(len(w.flying)))
			}
		case x < 165:
			n.PushDue(n.Clock.Now())
		case x < 170:
			if len(w.stray) > 0 {
				w.arrive(r.IntN(len(w.stray)))
			}
		case x < 172:
			n.Table.SweepIdle(n.Clock.Now())
		case x < 174:
			n.giveBack()
		case x < 175:
			switch r.IntN(60) {
			case 0:
				w.crash(i)
				deciders[i] = w.nodes[i].decider(limit)
			case 1:
				us := 200_000 + r.Int64N(5_000_000)
				w.true, n.slept = w.true+us, n.slept+us
				w.true += 1000
			case 2:
				limit = newLimit()
			case 3:
				deciders[i] = n.decider(limit)
			case 4:
				w.true += r.Int64N(25_000_000) // longer than a push is repeated
			}
		case x < 177:
			w.true += r.Int64N(400_000)
		default:
			w.true += r.Int64N(12_000)
		}
	}
	check(t, limit, log)
}

// check has an oracle decide what was admitted and not given back.
func check(t *testing.T, limit *weir.Limit, log []admitted) {
	bound := &weir.Limit{Name: "bound", Algorithm: limit.Algorithm, Count: limit.Count, Period: limit.Period, Params: limit.Params}
	if _, flows := limit.Algorithm.(weir.Refiller); flows {
		bound.Burst = limit.Burst + limit.Overshoot()
	} else {
		bound.Count += limit.Overshoot()
	}
	if bound.Algorithm == algorithm.SlidingWindow {
		bound.Algorithm, bound.MaxLog = algorithm.SlidingLog, 1<<20-1
	}
	if err := bound.Compile(); err != nil {
		t.Fatal(err)
	}
	sum, oracle := int64(0), oracleOf(t, bound)
	for _, x := range log {
		if x.cost == 0 {
			continue
		}
		if left, ok := oracle(x.at, x.cost); !ok {
			t.Fatalf("after %d: %d more at %d, when %d are left", sum, x.cost, x.at-epoch, left)
		}
		sum += x.cost
	}
	if sum < 10*limit.Count {
		t.Errorf("only %d were admitted of %d in 4 s", sum, limit.Count)
	}
}

// A decision by the tally takes no memory.
func TestWarmDrawAllocatesNothing(t *testing.T) {
	n, d := warm(t, algorithm.FixedWindow, 1, func(l *weir.Limit) { l.Count, l.Consistency.MaxOvershoot = 1<<40, 1<<39 })
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
		t.Errorf("%v allocations, %d decisions by the tally", a, n.Table.CountDrawn()-before)
	}
}

// A cost that no node may admit ahead is decided strictly: a refusal is remembered until the
// instant that the store named, and no longer, whatever the interval of pushes.
func TestStrictRefusalEndsWhenTheStoreSays(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.SlidingCounter} {
		n := newWorld(t, 10).nodes[0]
		d := n.decider(limited(t, 3000, a, func(l *weir.Limit) { l.Consistency.MaxOvershoot = 300 }))
		const cost = 200 // a node's share is 15 at most
		for n.ask(d, cost).Charged {
		}
		_, _, o := n.draw(d, cost)
		v, _, again := n.draw(d, cost)
		retry := o.Decision.RetryAfter.Microseconds()
		if v != lot.Refused || retry == 0 || again.Decision.RetryAfter != o.Decision.RetryAfter {
			t.Fatalf("%s: a remembered refusal is %d, %+v", a.Name(), v, again)
		}
		// Just before the refusal ends, and after.
		n.true += retry - 20_000
		refused := n.ask(d, cost)
		if refused.Charged {
			t.Fatalf("%s: allowed %v early", a.Name(), refused.Decision.RetryAfter)
		}
		n.true += refused.Decision.RetryAfter.Microseconds()
		if v, _, _ := n.draw(d, cost); v != lot.Ask || !n.ask(d, cost).Charged {
			t.Errorf("%s: still refused when the store would allow: %d", a.Name(), v)
		}
	}
}

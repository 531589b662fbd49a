package lot

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
)

func compiled(t testing.TB, l *weir.Limit) *weir.Limit {
	t.Helper()
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

func named(t testing.TB, name string, count int64, a weir.Algorithm) *weir.Limit {
	return compiled(t, &weir.Limit{Name: name, Algorithm: a, Count: count, Period: time.Minute})
}

// A bench is a table with one entry, and what was surrendered.
type bench struct {
	*testing.T
	*Table
	*Entry
	back  *Returns
	limit *weir.Limit
	full  int
}

func newBench(t *testing.T, a weir.Algorithm) *bench {
	b := &bench{T: t, limit: named(t, "limit", 10_000, a)}
	b.back = NewReturns(1<<20, func() { b.full++ })
	b.Table = NewTable(1<<20, b.back)
	b.Entry = b.add("key", 0)
	return b
}

func (b *bench) add(key string, now clock.Node) *Entry {
	tag := b.TagForKey(key, b.limit)
	return b.ShardOfTag(tag).AddEntry(tag, key, b.limit, 0, now)
}

func (b *bench) lot(id, units int64, expiry clock.Node) Lot {
	return Lot{ID: id, Limit: b.limit, Fetched: units, Free: units, Charged: clock.Store(id - 10), Expiry: expiry}
}

// took checks what has been surrendered since.
func (b *bench) took(want ...Lot) {
	b.Helper()
	got := b.back.TakeDue(0, 0)
	b.back.FinishCall(got, 0, Accepted)
	if len(got) != len(want) {
		b.Fatalf("%d returns, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if g := got[i]; g.Key != "key" || g.ID != w.ID || g.Free != w.Free || g.Limit != w.Limit || g.Charged != w.Charged {
			b.Errorf("return %d is %+v, want %+v", i, g, w)
		}
	}
}

// draws reports whether units are drawn, and checks what is said to be left.
func (b *bench) draws(cost int64, now clock.Node, h *Hold) bool {
	b.Helper()
	left, ok := b.DrawUnits(cost, now, h)
	if ok && left != b.FreeUnits() {
		b.Errorf("%d units are left after a draw of %d, and %d are free", left, cost, b.FreeUnits())
	}
	return ok
}

func (b *bench) free(want int64) {
	b.Helper()
	if n := b.FreeUnits(); n != want {
		b.Errorf("%d units are free, want %d", n, want)
	}
}

// I2: a lot is drawn from before its expiry and not at it; then it is surrendered, and
// what was used of it is the pace.
func TestLotIsDrawnBeforeItsExpiry(t *testing.T) {
	b := newBench(t, algorithm.FixedWindow)
	b.AdoptLot(b.lot(100, 10, 1000), 2)
	b.AdoptLot(b.lot(100, 10, 2000), 2)
	if !b.draws(3, 999, nil) {
		t.Error("nothing was drawn before the expiry")
	}
	b.took()
	b.free(17)
	if b.draws(11, 1000, nil) {
		t.Error("a lot was drawn from at its expiry")
	}
	if b.Pace != 3 {
		t.Errorf("the pace is %d, want 3", b.Pace)
	}
	rest := b.lot(100, 7, 0)
	b.took(rest)
	if !b.draws(10, 1999, nil) || b.draws(1, 1999, nil) || b.draws(1, 2000, nil) {
		t.Error("the second lot was not drawn from until it was empty")
	}
	b.took()
	if len(b.Lots()) != 0 || b.Pace != 3 {
		t.Errorf("%d lots are left, and the pace is %d", len(b.Lots()), b.Pace)
	}
}

// A draw takes all of its units or none, the oldest first, and notes what it took.
func TestDrawTakesAllOrNothing(t *testing.T) {
	b := newBench(t, algorithm.FixedWindow)
	b.AdoptLot(b.lot(100, 4, 1000), 3)
	b.AdoptLot(Lot{ID: 101, Limit: b.limit, Fetched: 50, Free: 50, Expiry: 1000, Lost: true}, 3)
	b.AdoptLot(b.lot(102, 4, 1000), 3)
	var h Hold
	if b.draws(9, 0, &h) || len(h.Parts) != 0 {
		t.Errorf("9 units of 8 were drawn: %+v", h)
	}
	b.free(8)
	if !b.draws(6, 0, &h) || len(h.Parts) != 2 || h.Parts[0].ID != 100 || h.Parts[0].Free != 4 || h.Parts[1].ID != 102 || h.Parts[1].Free != 2 {
		t.Errorf("6 units were drawn from %+v", h.Parts)
	}
	b.free(2)
}

// A lost lot is not drawn from, takes nothing back and is not returned.
func TestLostLotIsNeverReturned(t *testing.T) {
	b := newBench(t, algorithm.Concurrency)
	t1 := b.lot(100, 4, 1000)
	t1.Free, t1.Lost = 3, true
	b.AdoptLot(t1, 16)
	if b.draws(1, 0, nil) || b.Entry.PutBack(b.limit, 1, 100, 0) {
		t.Error("a lost lot was used")
	}
	b.ExpireLots(1000)
	b.took()
}

// I3: undone is what was drawn: to the lot if it is held, else to the store, once.
func TestUndoGivesBackWhatWasDrawn(t *testing.T) {
	b := newBench(t, algorithm.FixedWindow)
	b.AdoptLot(b.lot(100, 4, 1000), 2)
	var h Hold
	b.DrawUnits(3, 0, &h)
	b.UndoDraw(&h, 999)
	b.free(4)
	b.UndoDraw(&h, 999)
	b.free(4)
	b.took()

	b.DrawUnits(3, 0, &h)
	b.ExpireLots(1000)
	b.UndoDraw(&h, 1000)
	used := b.lot(100, 3, 0)
	b.took(b.lot(100, 1, 0), used)

	b.AdoptLot(b.lot(200, 4, 5000), 2)
	b.DrawUnits(3, 1000, &h)
	b.ShardOfTag(b.tag).DropEntry(b.Entry)
	b.UndoDraw(&h, 1000)
	b.UndoDraw(&h, 1000)
	b.took(b.lot(200, 1, 0), b.lot(200, 3, 0))
}

// A lot takes back no more than was drawn from it, of its receipt or, of a bucket, of
// an earlier one, and nothing once it has expired.
func TestRefundGoesToTheLotItCameFrom(t *testing.T) {
	for _, x := range []struct {
		algorithm     weir.Algorithm
		receipt, cost int64
		now           clock.Node
		want          bool
	}{
		{algorithm.FixedWindow, 100, 3, 0, true},
		{algorithm.FixedWindow, 100, 4, 0, false},
		{algorithm.FixedWindow, 100, 3, 1000, false},
		{algorithm.FixedWindow, 101, 1, 0, false},
		{algorithm.FixedWindow, 0, 1, 0, false},
		{algorithm.TokenBucket, 100, 3, 0, true},
		{algorithm.TokenBucket, 101, 3, 0, true},
		{algorithm.TokenBucket, 0, 3, 0, true},
		{algorithm.TokenBucket, 99, 1, 0, false},
		{algorithm.TokenBucket, 100, 4, 0, false},
		{algorithm.TokenBucket, 100, 1, 1000, false},
	} {
		b := newBench(t, x.algorithm)
		b.AdoptLot(b.lot(100, 10, 1000), 2)
		b.DrawUnits(3, 0, nil)
		if got := b.Entry.PutBack(b.limit, x.cost, x.receipt, x.now); got != x.want {
			t.Errorf("%s: %d units with receipt %d at %d: %v", x.algorithm.Name(), x.cost, x.receipt, x.now, got)
		}
	}
}

// F3: what outlives a reload keeps the limit that it was counted by, and a bucket's unit
// of one price is not put to those of another.
// Where the mode of a limit changed, the entry of a key has lots of other counters that
// end at the same instant, such as slack. They take nothing back.
func TestRefundOfOtherCounters(t *testing.T) {
	b := newBench(t, algorithm.FixedWindow)
	b.AdoptLot(b.lot(100, 10, 1000), 2)
	b.DrawUnits(3, 0, nil)
	other := named(t, "other", 100, algorithm.FixedWindow)
	if b.CanPutBack(other, 1, 100, 0) || b.Entry.PutBack(other, 1, 100, 0) || !b.CanPutBack(b.limit, 1, 100, 0) {
		t.Error("a lot takes back units of another limit")
	}
}

func TestReloadKeepsTheLimitOfLots(t *testing.T) {
	b := newBench(t, algorithm.TokenBucket)
	b.AdoptLot(b.lot(100, 10, 1_000_000), 2)
	var h Hold
	b.DrawUnits(4, 0, &h)
	old, dear := b.limit, named(t, "limit", 10, algorithm.TokenBucket)
	b.Limit = dear
	b.ExpireBy(500)
	b.limit = dear
	b.AdoptLot(b.lot(120, 3, 2_000_000), 2)
	b.DrawUnits(8, 499, nil)
	if b.Entry.PutBack(dear, 1, 110, 499) {
		t.Error("a unit of the new price went to a lot of the old one")
	}
	b.DrawUnits(0, 500, nil)
	b.took()
	b.UndoDraw(&h, 500)
	b.took(Lot{ID: 100, Limit: old, Free: 4, Charged: 90})
	b.free(1)
	if !b.Entry.PutBack(dear, 2, 120, 500) || b.Entry.PutBack(old, 1, 130, 500) {
		t.Error("the new lot took the units of another, or not its own")
	}
	b.ShardOfTag(b.tag).DropEntry(b.Entry)
	b.took(b.lot(120, 3, 0))
}

// Beyond its most lots an entry gives up one that is spent, makes two of one limit one,
// which is as old as the older, and keeps lots of two limits apart.
func TestAddKeepsToItsMostLots(t *testing.T) {
	b := newBench(t, algorithm.SlidingWindow)
	b.AdoptLot(b.lot(100, 5, 1000), 2)
	b.DrawUnits(5, 0, nil)
	b.AdoptLot(b.lot(200, 5, 2000), 2)
	b.AdoptLot(b.lot(300, 5, 3000), 2)
	if l := b.Lots(); len(l) != 2 || l[0].ID != 200 || l[1].ID != 300 {
		t.Fatalf("%+v", l)
	}
	b.DrawUnits(1, 0, nil)
	b.AdoptLot(b.lot(250, 7, 2500), 2)
	if l := b.Lots(); len(l) != 2 || l[1] != (Lot{ID: 250, Limit: b.limit, Fetched: 12, Free: 12, Charged: 240, Expiry: 2500}) {
		t.Fatalf("%+v", l)
	}
	b.free(16)
	b.took()
	oldest := b.lot(200, 4, 0)
	b.limit = named(t, "limit", 9999, algorithm.SlidingWindow)
	b.AdoptLot(b.lot(400, 7, 2500), 2)
	b.free(19)
	b.took(oldest)
}

// A few units of a sliding window are not worth a return.
func TestFewGrainedUnitsAreLetGo(t *testing.T) {
	b := newBench(t, algorithm.SlidingWindow)
	b.limit = compiled(t, &weir.Limit{Name: "grained", Algorithm: algorithm.SlidingWindow, Count: 6400, Period: time.Minute, Params: params.Params{Grain: 2}})
	b.AdoptLot(b.lot(100, 9, 1000), 2)
	b.AdoptLot(b.lot(200, 10, 1000), 2)
	b.ExpireLots(1000)
	b.took(b.lot(200, 10, 0))
}

// Of answers that may have crossed the lower holds; one that was asked for after another
// was heard replaces it.
func TestKnownTakesTheLowerOfCrossedAnswers(t *testing.T) {
	var k Known
	answer := func(left int64, sent, now clock.Node, want int64) {
		t.Helper()
		if k.Update(weir.Decision{Remaining: left, ResetAfter: time.Millisecond}, sent, now); k.Remaining != want || k.Sent != sent || k.Received != now || k.Reset != sent+1000 {
			t.Errorf("%+v, want %d", k, want)
		}
	}
	answer(50, 0, 10, 50)
	answer(60, 10, 20, 50)
	answer(40, 15, 25, 40)
	answer(70, 26, 30, 70)
}

// I1 and I3: whatever is drawn, undone, refunded, added, expired and dropped, units are
// admitted, held, waiting, back or stranded, and each is that once.
func TestUnitsAreConserved(t *testing.T) {
	algorithms := []weir.Algorithm{algorithm.FixedWindow, algorithm.TokenBucket, algorithm.SlidingWindow}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t, algorithms[seed%3])
		b.back.max = []int64{300, 2000, 1 << 20}[seed/3%3]
		limits := []*weir.Limit{b.limit, named(t, "limit", 5000, b.limit.Algorithm)}
		now := clock.Node(0)
		type drawn struct {
			limit         *weir.Limit
			receipt, cost int64
		}
		var admitted []drawn
		var taken []Return
		var fetched, spent, back int64
		for range 500 {
			now += clock.Node(r.Int64N(50))
			e := b.add("key", now)
			switch r.IntN(9) {
			case 0:
				units := 1 + r.Int64N(20)
				fetched += units
				limit := limits[r.IntN(2)]
				e.AdoptLot(Lot{ID: 1_000_000 + int64(now)/(1+r.Int64N(200)), Limit: limit, Fetched: units, Free: units, Expiry: now + clock.Node(r.Int64N(500))}, 1+r.IntN(3))
			case 1, 2, 3, 4:
				var h Hold
				before, cost := e.FreeUnits(), r.Int64N(12)
				if left, ok := e.DrawUnits(cost, now, &h); ok && left != e.FreeUnits() || ok != (before-cost >= e.FreeUnits() && len(h.Parts) > 0 || cost == 0) {
					t.Fatalf("seed %d: %d of %d were drawn: %+v", seed, cost, before, h)
				}
				sum := int64(0)
				for _, p := range h.Parts {
					sum += p.Free
				}
				if len(h.Parts) > 0 && sum != cost {
					t.Fatalf("seed %d: %d were noted of %d", seed, sum, cost)
				}
				if r.IntN(3) == 0 {
					b.UndoDraw(&h, now)
					continue
				}
				for _, p := range h.Parts {
					admitted = append(admitted, drawn{p.Limit, p.ID, p.Free})
				}
				spent += sum
			case 5:
				if len(admitted) > 0 {
					i := r.IntN(len(admitted))
					a := admitted[i]
					if e.PutBack(a.limit, a.cost, a.receipt, now) {
						spent -= a.cost
						admitted = append(admitted[:i], admitted[i+1:]...)
					}
				}
			case 6:
				if r.IntN(4) == 0 {
					b.ShardOfTag(e.tag).DropEntry(e)
				} else {
					e.ExpireBy(now + clock.Node(r.Int64N(100)))
				}
			case 7:
				taken = append(taken, b.back.TakeDue(0, 0)...)
			case 8:
				end := Outcome(r.IntN(3))
				for _, x := range taken {
					if back += x.Free; end != Accepted {
						back -= x.Free
					}
				}
				b.back.FinishCall(taken, now, end)
				taken = nil
				b.back.Resume()
			}
			held, waiting := int64(0), int64(0)
			if e := b.ShardOfTag(b.tag).GetEntry(b.tag, "key"); e != nil {
				for _, l := range e.lots {
					if l.Free < 0 || l.Free > l.Fetched {
						t.Fatalf("seed %d: %+v", seed, l)
					}
					held += l.Free
				}
			}
			bytes := int64(0)
			for _, x := range append(b.back.waiting, b.back.later...) {
				waiting += x.Free
				bytes += x.size()
			}
			if bytes != b.back.bytes || bytes > b.back.max {
				t.Fatalf("seed %d: returns take %d bytes, counted as %d of %d", seed, bytes, b.back.bytes, b.back.max)
			}
			for _, x := range taken {
				waiting += x.Free
			}
			stranded := int64(b.back.Stranded.Load())
			if int64(b.back.Returned.Load()) != back || fetched != spent+held+waiting+back+stranded {
				t.Fatalf("seed %d: %d fetched, but %d spent, %d held, %d waiting, %d back (%d), %d stranded",
					seed, fetched, spent, held, waiting, back, b.back.Returned.Load(), stranded)
			}
		}
	}
}

package lot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

func units(l *weir.Limit, id, free int64) Return {
	return Return{Key: "key", Lot: Lot{ID: id, Limit: l, Free: free}}
}

// Each arrow of the picture in the package's comment, for units.
func TestUnitsAreGivenBackOnce(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	r := NewReturns(1<<20, func() {})
	check := func(returned, stranded uint64, waiting int) {
		t.Helper()
		if r.Returned.Load() != returned || r.Stranded.Load() != stranded || len(r.waiting)+len(r.later) != waiting {
			t.Errorf("%d returned, %d stranded, %d wait", r.Returned.Load(), r.Stranded.Load(), len(r.waiting)+len(r.later))
		}
	}
	r.AddReturn(units(l, 100, 1))
	r.FinishCall(r.TakeDue(0, 0), 0, Accepted)
	check(1, 0, 0)
	r.AddReturn(units(l, 100, 2))
	r.FinishCall(r.TakeDue(0, 0), 0, Unknown)
	check(1, 2, 0)
	r.Resume()
	if some := r.TakeDue(0, 0); some != nil {
		t.Errorf("offered again: %+v", some)
	}
	r.AddReturn(units(l, 100, 4))
	r.FinishCall(r.TakeDue(0, 0), 0, Unsent)
	check(1, 2, 1)
	if some := r.TakeDue(0, 0); some != nil {
		t.Errorf("offered again at once: %+v", some)
	}
	r.Resume()
	r.FinishCall(r.TakeDue(0, 0), 0, Accepted)
	check(5, 2, 0)
	// After their receipt units have come back already.
	r.AddReturn(units(l, 100, 8))
	r.AddReturn(units(l, 101, 16))
	r.AddReturn(units(l, 0, 32))
	some := r.TakeDue(0, 100)
	if len(some) != 2 || some[0].ID != 101 || some[1].ID != 0 {
		t.Errorf("%+v", some)
	}
	r.FinishCall(some, 0, Accepted)
	check(5+16+32, 2, 0)
	if r.bytes != 0 {
		t.Errorf("%d bytes are taken by nothing", r.bytes)
	}
}

// Permits are named, and offered again until they end, after an answer once more if asked.
func TestPermitsAreGivenBackUntilTheyEnd(t *testing.T) {
	l := named(t, "limit", 100, algorithm.Concurrency)
	for _, x := range []struct {
		again bool
		end   Outcome
		now   int64
		want  string // Again of those that wait, returned, stranded
	}{
		{false, Accepted, 99, "[] 3 0"},
		{true, Accepted, 99, "[false] 0 0"},
		{true, Accepted, 100, "[] 3 0"},
		{false, Unknown, 99, "[false] 0 0"},
		{true, Unknown, 99, "[true] 0 0"},
		{true, Unknown, 100, "[] 0 3"},
		{true, Unsent, 100, "[true] 0 0"},
	} {
		r := NewReturns(1<<20, func() {})
		r.AddReturn(Return{Key: "key", Lot: Lot{ID: 7, Limit: l, Free: 3, Expiry: 100}, Again: x.again})
		r.FinishCall(r.TakeDue(0, 1000), clockNode(x.now), x.end)
		r.Resume()
		again := []bool{}
		for _, b := range r.waiting {
			again = append(again, b.Again)
		}
		if got := fmt.Sprint(again, r.Returned.Load(), r.Stranded.Load()); got != x.want {
			t.Errorf("%+v: %s", x, got)
		}
	}
}

func TestReturnsAskForARefundOrARest(t *testing.T) {
	l := named(t, "limit", 100, algorithm.Concurrency)
	b := Return{Key: "key", Lot: Lot{ID: 7, Limit: l, Fetched: 9, Free: 3, Charged: 5}}
	if o := b.BuildOp(); o != (weir.Op{Key: "key", Limit: l, Cost: 3, ID: 7, FlowsFrom: 5, Role: weir.Always, Verb: weir.Refund}) {
		t.Errorf("%+v", o)
	}
	b.Rest = 6
	if o := b.BuildOp(); o.Cost != 6 || o.Verb != weir.Spend {
		t.Errorf("%+v", o)
	}
}

// What is to be kept of permits is told before that fewer are kept, and neither after that
// nor after they have ended: it would be taken anew, and nobody has it.
func TestRestIsNotTakenAnew(t *testing.T) {
	l := named(t, "limit", 100, algorithm.Concurrency)
	part, all := Return{Key: "key", Rest: 6, Lot: Lot{ID: 7, Limit: l, Free: 3, Expiry: 100}}, Return{Key: "key", Lot: Lot{ID: 7, Limit: l, Free: 6, Expiry: 100}}
	fail := func() *Returns {
		r := NewReturns(1<<20, func() {})
		r.AddReturn(part)
		r.FinishCall(r.TakeDue(0, 0), 0, Unsent)
		return r
	}
	r := fail()
	r.AddReturn(all)
	r.Resume()
	if some := r.TakeDue(0, 0); len(some) != 2 || some[0].Rest != 6 || some[1].Rest != 0 {
		t.Errorf("in the order %+v", some)
	}
	r = fail()
	r.AddReturn(all)
	r.FinishCall(r.TakeDue(0, 0), 0, Accepted)
	r.Resume()
	if some := r.TakeDue(0, 0); some != nil || r.bytes != 0 {
		t.Errorf("after all: %+v, %d bytes", some, r.bytes)
	}
	r = fail()
	r.Resume()
	if some := r.TakeDue(100, 0); some != nil || r.bytes != 0 {
		t.Errorf("after their end: %+v, %d bytes", some, r.bytes)
	}
}

// I15: however long the keys, what waits takes no more than its bytes; the rest is
// stranded, and counted. A call is asked for as soon as it is worth it.
func TestReturnsAreBounded(t *testing.T) {
	l, full := named(t, "limit", 100, algorithm.FixedWindow), 0
	r := NewReturns(10_000, func() { full++ })
	for i := range 1000 {
		b := units(l, 100, 1)
		b.Key = strings.Repeat("k", i)
		r.AddReturn(b)
	}
	sum := int64(0)
	for i := range r.waiting {
		sum += r.waiting[i].size()
	}
	if sum > 10_000 || sum < 8_000 || sum != r.bytes || int(r.Stranded.Load()) != 1000-len(r.waiting) {
		t.Errorf("%d returns take %d bytes, %d are stranded", len(r.waiting), sum, r.Stranded.Load())
	}
	if want := 1000 - AtOnce + 1; full != want {
		t.Errorf("a call was asked for %d times, want %d", full, want)
	}
	if r.HasRoom(1, strings.Repeat("k", 10_000)) || !r.HasRoom(0, "") {
		t.Error("there is room where there is none, or none where there is")
	}
	calls := 0
	for some := r.TakeDue(0, 0); some != nil; some = r.TakeDue(0, 0) {
		if calls++; len(some) > AtOnce {
			t.Errorf("%d in one call", len(some))
		}
		r.FinishCall(some, 0, Unsent)
	}
	if calls < 3 {
		t.Errorf("%d calls", calls)
	}
}

// What leaves of a lot of permits keeps what holders have under its name.
func TestPermitsKeepTheRestOfTheirName(t *testing.T) {
	l := named(t, "limit", 100, algorithm.Concurrency)
	r := NewReturns(1<<20, func() {})
	tb := NewTable(64<<20, r)
	tag := tb.TagForKey("key", l)
	g := tb.ShardOfTag(tag)
	e := g.AddEntry(tag, "key", l, 0, 0)
	e.AdoptLot(Lot{ID: 7, Limit: l, Fetched: 9, Free: 5, Expiry: 100}, 2)
	e.AdoptLot(Lot{ID: 8, Limit: l, Fetched: 2, Free: 2, Expiry: 100}, 2)
	e.CutPermits(1, 2)
	e.CutPermits(0, 2)
	if len(e.Lots()) != 1 || e.Lots()[0].Fetched != 7 || e.FreeUnits() != 3 {
		t.Errorf("%+v", e.Lots())
	}
	e.Lots()[0].Closed = true
	if left, ok := e.DrawUnits(1, 0, nil); left != -1 || ok {
		t.Error("drawn from a lot that is closed")
	}
	g.DropEntry(e)
	got := ""
	for _, b := range r.TakeDue(0, 0) {
		got += fmt.Sprintln(b.ID, b.Free, b.Rest, b.BuildOp().Verb)
	}
	if want := "8 2 0 refund\n7 2 7 spend\n7 3 4 spend\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

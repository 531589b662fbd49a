package event

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
)

func compiled(t *testing.T) *weir.Limit {
	t.Helper()
	l := weir.PerMinute(1, algorithm.TokenBucket)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

func named(s *sighting) string { return fmt.Sprint(s.hash) }

func TestArrivals(t *testing.T) {
	l := compiled(t)
	m := newMerger(2)
	at := func(hash uint64, now int64, sampled bool) *record {
		return m.addSighting(&sighting{limit: l, hash: hash, now: now, cost: now % 7}, named, sampled)
	}
	tell := func(r *record) *Record { return r.buildRecord(words{}, newKeyHasher(nil, true), 1) }
	// Out of order, as they come from several goroutines.
	var r *record
	for i := range int64(MaxArrivals) {
		r = at(1, 1000+i^3, true)
	}
	if r.arrivalsCut {
		t.Error("cut before there are too many")
	}
	out := tell(r)
	for i, a := range out.Arrivals {
		if a != (Arrival{int64(i), int64(1000+i) % 7}) {
			t.Fatalf("arrival %d is %+v", i, a)
		}
	}
	if at(1, 2000, true); len(r.arrivals) != MaxArrivals || !r.arrivalsCut || !tell(r).ArrivalsCut {
		t.Errorf("%d arrivals, cut %v", len(r.arrivals), r.arrivalsCut)
	}
	if out = tell(at(2, 1, false)); out.Arrivals != nil || out.ArrivalsCut {
		t.Error("arrivals of a key that is not in the sample")
	}
	if out = tell(at(3, 1, true)); !out.Merged || out.Arrivals != nil || out.ArrivalsCut {
		t.Errorf("arrivals of many clients together: %+v", out)
	}
	m = newMerger(1 << 20)
	m.arrivals = 2
	for range 3 {
		r = at(1, 1, true)
	}
	if len(r.arrivals) != 2 || !r.arrivalsCut {
		t.Errorf("%d arrivals of 2 that all records may have, cut %v", len(r.arrivals), r.arrivalsCut)
	}
	if m.takeRecords(); m.arrivals != maxArrivals {
		t.Error("the next records may have none")
	}
}

// An answer that came before the first decision of a record is not taken for one.
func TestAnswerBeforeDecision(t *testing.T) {
	m := newMerger(10)
	l := compiled(t)
	r := m.addSighting(&sighting{limit: l, now: 10, isResponse: true, status: 200}, named, false)
	if r.count != 0 || r.first != 10 || r.last != 10 {
		t.Errorf("%+v", r)
	}
	m.addSighting(&sighting{limit: l, now: 20, remaining: 5}, named, false)
	m.addSighting(&sighting{limit: l, now: 30, isResponse: true, status: 200}, named, false)
	if r.count != 1 || r.first != 20 || r.last != 20 || r.least != 5 || r.answers.buildAnswers().Count != 2 {
		t.Errorf("%+v", r)
	}
}

// What hot decisions have in common is not what is told of one of them.
func TestHotRecordTellsNothingOld(t *testing.T) {
	m, l := newMerger(10), compiled(t)
	s := &sighting{limit: l, now: 10, facts: facts{known: true}}
	r := m.addSighting(s, named, true)
	m.addSighting(&sighting{limit: l, now: 10, isResponse: true}, named, true)
	var h fastCounters
	h.install(r, 0)
	m.takeRecords()
	found := 0
	for _, c := range h.cells {
		if c != nil {
			m.addFast(c, 300, 20)
			found++
		}
	}
	for _, r := range m.takeRecords() {
		if r.count != 300 || r.about != nil || r.answers != nil || r.arrivals != nil || !r.arrivalsCut {
			t.Errorf("%+v", r)
		}
	}
	if found != 1 {
		t.Errorf("%d cells", found)
	}
}

func TestRoomy(t *testing.T) {
	r := newRing(8)
	for lap := range 5 {
		for i := range 7 {
			if got, want := r.isHalfFree(), i < 4; got != want {
				t.Errorf("lap %d, %d of 8 taken: roomy %v", lap, i, got)
			}
			s, at := r.claimSlot()
			s.commit(at)
		}
		for r.nextSighting() != nil {
			r.freeSlot()
		}
	}
}

// Decisions that found no room, and a queue that lags behind, cut arrivals.
func TestLossCutsArrivals(t *testing.T) {
	l := compiled(t)
	o, err := New(Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return nil }, Sample: 1, Ring: 64, MaxBacklog: 160})
	if err != nil {
		t.Fatal(err)
	}
	told := func(n int) *Record {
		t.Helper()
		var r weir.Request
		for range n {
			op := weir.Op{Key: "k", Limit: l, Cost: 1, Outcome: weir.Allowed, Answer: weir.Answer{Now: 1, Charged: true}}
			op.Decision.Limit = l
			o.observeDecision(&r, &op, 7, true)
		}
		o.drainRing()
		events := o.reportRecords()
		if len(events) != 1 {
			t.Fatalf("%d events", len(events))
		}
		return events[0].Record
	}
	if r := told(64); len(r.Arrivals) != 64 || r.ArrivalsCut {
		t.Errorf("%d arrivals, cut %v", len(r.Arrivals), r.ArrivalsCut)
	}
	if r := told(65); len(r.Arrivals) != 64 || !r.ArrivalsCut {
		t.Errorf("with one dropped %d arrivals, cut %v", len(r.Arrivals), r.ArrivalsCut)
	}
	if r := told(3); len(r.Arrivals) != 3 || r.ArrivalsCut {
		t.Errorf("with none dropped %d arrivals, cut %v", len(r.Arrivals), r.ArrivalsCut)
	}
	o.outbox.addEvents(make([]Event, 11))
	if r := told(3); r.Arrivals != nil || !r.ArrivalsCut {
		t.Errorf("with a queue that lags behind %d arrivals, cut %v", len(r.Arrivals), r.ArrivalsCut)
	}
}

// While records are put into words the ring is emptied too, into the next ones.
func TestTellingLooksAfterTheRing(t *testing.T) {
	l := compiled(t)
	o, err := New(Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return nil }, Ring: 64})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2 * drainAfter) {
		o.merge.addSighting(&sighting{limit: l, hash: i}, named, false)
	}
	s, at := o.ring.claimSlot()
	s.limit, s.now, s.hash = l, 1, 7
	s.commit(at)
	events := o.reportRecords()
	if len(events) != 2*drainAfter {
		t.Errorf("%d records", len(events))
	}
	if o.ring.nextSighting() != nil {
		t.Error("the ring was left alone")
	}
	if next := o.merge.takeRecords(); len(next) != 1 {
		t.Errorf("%d records next, want the one that came meanwhile", len(next))
	}
}

package shared

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// successor is a server of a ring that has the keys of another.
type successor struct{ weir.Store }

func (s successor) Take(ctx context.Context, ops []weir.Op) error {
	err := s.Store.Take(ctx, ops)
	for i := range ops {
		ops[i].Decision.Limit = ops[i].Limit.From(weir.FromSuccessor)
	}
	return err
}

// Units that were fetched from another server stay with the node when a request is refused.
func TestRefusedRequestKeepsUnitsOfASuccessor(t *testing.T) {
	shared, local := memory.New(memory.Options{}), memory.New(memory.Options{})
	s, err := New(successor{shared}, Options{Local: local, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, c := range []weir.Store{s, local, shared} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	limit := func(count int64, m params.ConsistencyMode) *weir.Limit {
		l := weir.PerDay(count, algorithm.FixedWindow)
		l.Consistency.Mode = m
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	many, none := limit(100_000, params.ConsistencyLeased), limit(1, params.ConsistencyStrict)
	for range 200 { // each decision is labeled
		if d, err := s.TakeOne(t.Context(), "k", many, 1); err != nil || !d.Allowed() || !d.Degraded() {
			t.Fatal(d, err)
		}
	}
	if _, err := s.TakeOne(t.Context(), "k", none, 1); err != nil {
		t.Fatal(err)
	}
	s.queue.Wait()
	before := s.Stats()
	for range 10 {
		ops := []weir.Op{{Key: "k", Limit: many, Cost: 1}, {Key: "k", Limit: none, Cost: 1}}
		if err := s.Take(t.Context(), ops); err != nil || weir.Fold(ops).Allowed() {
			t.Fatal(ops, err)
		}
	}
	s.queue.Wait()
	if st := s.Stats(); before.LeaseUnits == 0 || st.LeaseUnits != before.LeaseUnits || st.Returned != before.Returned {
		t.Errorf("%d units are held of %d, %d were returned", st.LeaseUnits, before.LeaseUnits, st.Returned-before.Returned)
	}
}

// Whatever a node decides by what another server has lent or counted says so.
func TestSuccessorIsLabeledInEachMode(t *testing.T) {
	shared, local := memory.New(memory.Options{}), memory.New(memory.Options{})
	s, err := New(successor{shared}, Options{Local: local, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, c := range []weir.Store{s, local, shared} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, l := range []*weir.Limit{
		{Algorithm: algorithm.FixedWindow, Count: 10_000, Consistency: params.Consistency{Mode: params.ConsistencyStrict}},
		{Algorithm: algorithm.FixedWindow, Count: 10_000, Consistency: params.Consistency{Mode: params.ConsistencyLeased}},
		{Algorithm: algorithm.TokenBucket, Count: 10_000, Consistency: params.Consistency{Mode: params.ConsistencyLeased}},
		{Algorithm: algorithm.FixedWindow, Count: 10_000, Consistency: params.Consistency{Mode: params.ConsistencyEventual}},
		{Algorithm: algorithm.Concurrency, Count: 1000, Consistency: params.Consistency{Mode: params.ConsistencyLeased}},
	} {
		l.Period = time.Hour
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		for i := range int64(200) {
			ops := []weir.Op{{Key: "k", Limit: l, Cost: 1}}
			if l.Traits()&weir.Leases != 0 {
				ops[0].ID = i + 1
			}
			if err := s.Take(t.Context(), ops); err != nil || !ops[0].Charged || !ops[0].Decision.Degraded() {
				t.Fatalf("%s, %s, %d: %v, %v from %s", l.Algorithm.Name(), l.Consistency.Mode, i, ops[0].Decision, err, ops[0].Decision.Guarantee().Source)
			}
		}
	}
}

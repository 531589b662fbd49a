package reserve_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// onlyKeys are rules that limit descriptors of "key" alone.
type onlyKeys struct{ limit *weir.Limit }

// Match implements weir.Rules.
func (k onlyKeys) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	for _, d := range r.Descriptors {
		if e := d.Entries[0]; e.Key == "key" {
			dst = k.limit.Append(dst, e.Value, max(r.Cost, 1), r)
		}
	}
	return dst
}

// While the store that nodes share does not answer, nobody knows whether a
// reservation was settled, and nobody is told that it was.
func TestSettleWhileTheStoreIsAway(t *testing.T) {
	for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
		for _, policy := range []params.StoreErrorPolicy{params.OnErrorLocal, params.OnErrorAllow, params.OnErrorDeny} {
			store := clocked.NewFailing(t)
			local := memory.New(memory.Options{})
			node, err := shared.New(store, shared.Options{Local: local, Timeout: 10 * time.Second, ProbeEvery: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			l := weir.PerHour(1000, algorithm.FixedWindow)
			l.Consistency = params.Consistency{Mode: mode, OnStoreError: policy}
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			lim, err := weir.New(node, onlyKeys{l}, weir.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := reserve.New(lim, reserve.Options{})
			if err != nil {
				t.Fatal(err)
			}
			of := func(key string) *weir.Request {
				r := request(100)
				r.Descriptors = []weir.Descriptor{{Entries: []weir.Entry{{Key: key, Value: "ann"}}}}
				return r
			}
			ask := func(key string) string {
				t.Helper()
				res, err := s.Reserve(context.Background(), of(key))
				if err != nil || res.Handle == "" {
					t.Fatalf("%s, %s: %+v, %v", mode, policy, res, err)
				}
				return res.Handle
			}
			handles := []string{ask("key"), ask("key"), ask("nobody limits")}
			store.Down.Store(true)
			for range 2 {
				for _, h := range handles {
					if _, err := s.Commit(context.Background(), h, 10); !errors.Is(err, reserve.ErrUnavailable) {
						t.Errorf("%s, %s: commit while the store is away: %v", mode, policy, err)
					}
				}
			}
			if _, err := s.Reserve(context.Background(), of("nobody limits")); !errors.Is(err, reserve.ErrUnavailable) {
				t.Errorf("%s, %s: a reservation that meets no limit: %v", mode, policy, err)
			}
			store.Down.Store(false)
			for _, h := range handles {
				deadline := time.Now().Add(time.Minute)
				_, err := s.Commit(context.Background(), h, 10)
				for errors.Is(err, reserve.ErrUnavailable) && time.Now().Before(deadline) {
					time.Sleep(time.Millisecond) // until the node has found the store again
					_, err = s.Commit(context.Background(), h, 10)
				}
				if err != nil {
					t.Errorf("%s, %s: commit when the store is back: %v", mode, policy, err)
				}
				if _, err := s.Cancel(context.Background(), h); !errors.Is(err, reserve.ErrSettled) {
					t.Errorf("%s, %s: settled before: %v", mode, policy, err)
				}
			}
			if err := errors.Join(node.Close(), local.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A caller that does not come again leaves nothing half settled: the node goes on until the
// store has answered.
func TestSettledInTheBackground(t *testing.T) {
	store := clocked.NewFailing(t)
	l := weir.PerHour(1000, algorithm.FixedWindow)
	l.Consistency = params.Consistency{Mode: params.ConsistencyStrict, OnStoreError: params.OnErrorDeny}
	lim, err := weir.New(store, weir.Limits{l}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := reserve.New(lim, reserve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Reserve(t.Context(), request(100, "ann"))
	if err != nil {
		t.Fatal(err)
	}
	store.Down.Store(true)
	for range 2 {
		if _, err := s.Commit(t.Context(), res.Handle, 250); err == nil {
			t.Fatal("settled without a store")
		}
	}
	store.Down.Store(false)
	servertest.Await(t, "the commit to be made", func() bool {
		r := request(1, "ann")
		r.Verb = weir.Peek
		d, err := lim.Decide(t.Context(), r)
		return err == nil && d.Remaining == 750
	})
	if got, err := s.Commit(t.Context(), res.Handle, 10); !errors.Is(err, reserve.ErrSettled) || got.Actual != 250 {
		t.Errorf("another cost: %+v, %v", got, err)
	}
	store.Down.Store(true)
	if _, err := s.Cancel(t.Context(), res.Handle); err == nil {
		t.Error("settled without a store")
	}
	s.Close() // though the store is still away
}

// Regions have a store each, and share the secret: a reservation is settled where it
// was made, whatever a client tries.
func TestReservationsOfRegions(t *testing.T) {
	desks := map[string]*desk{}
	for _, name := range []string{"eu", "us"} {
		desks[name] = newDesk(t, clocked.New(t), weir.Limits{weir.PerHour(1000, algorithm.FixedWindow)}, reserve.Options{Secret: secret, Region: name})
	}
	unnamed := newDesk(t, clocked.New(t), weir.Limits{weir.PerHour(1000, algorithm.FixedWindow)}, reserve.Options{Secret: secret})
	for home, away := range map[string]string{"eu": "us", "us": "eu"} {
		desks[away].reserve(500, "ann")
		h := desks[home].reserve(300, "ann")
		for range 2 {
			desks[away].settled(h, reserve.ErrRegion)
			unnamed.settled(h, reserve.ErrRegion)
		}
		if _, err := desks[home].Cancel(context.Background(), h); err != nil {
			t.Errorf("where it was made: %v", err)
		}
		desks[away].settled(h, reserve.ErrRegion)
		desks[home].settled(h, reserve.ErrSettled)
	}
	desks["eu"].left(500, "ann")
	desks["us"].left(500, "ann")
	desks["us"].settled(unnamed.reserve(10, "ann"), reserve.ErrRegion)
	unnamed.settled("x"+unnamed.reserve(10, "ann"), reserve.ErrHandle)
}

// Units that were charged at another rate are given back as they are, less those that
// have flowed in since at the higher of both rates.
func TestSettleUnitsOfAnotherRate(t *testing.T) {
	for _, c := range []struct {
		before, after int64
		later         time.Duration
		back          int64 // of 1000 units
	}{
		{10_000, 5000, 0, 1000}, {10_000, 100, 0, 1000}, {100, 10_000, 0, 1000}, {7, 7, 0, 1000}, {3, 7, 0, 1000},
		{10_000, 100, 3 * time.Minute, 500}, {100, 10_000, 3 * time.Minute, 500}, {10_000, 100, 6 * time.Minute, 0},
	} {
		store := clocked.New(t)
		limit := func(n int64) *weir.Limit {
			l := &weir.Limit{Name: "tokens", Algorithm: algorithm.TokenBucket, Count: n, Period: time.Hour, Burst: 200_000}
			return l
		}
		before := newDesk(t, store, weir.Limits{limit(c.before)}, reserve.Options{Secret: secret})
		after := newDesk(t, store, weir.Limits{limit(c.after)}, reserve.Options{Secret: secret})
		before.reserve(100_000, "ann") // so that it is not full again
		h := before.reserve(1000, "ann")
		store.Advance(c.later)
		left := func() int64 {
			r := request(1, "ann")
			r.Verb = weir.Peek
			d, err := after.lim.Decide(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			return d.Remaining
		}
		was := left()
		if _, err := after.Cancel(context.Background(), h); err != nil {
			t.Fatal(err)
		}
		if got := left() - was; got < c.back-1 || got > c.back {
			t.Errorf("1000 units charged at %d an hour gave back %d at %d an hour after %s, want %d", c.before, got, c.after, c.later, c.back)
		}
	}
}

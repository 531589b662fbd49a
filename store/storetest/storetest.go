// Package storetest checks that an implementation of [weir.Store] keeps its contract, as
// package testing/fstest does for file systems.
//
// [Run] asks a store random and chosen questions of every algorithm and compares each
// answer with that of the obvious store, a map of rows. It checks that a request is
// charged to all of its limits or to none, that a refusal changes nothing, that no units
// are lost or spent twice when many goroutines ask at once, what each verb and role does,
// when a key is as if never seen, and what errors there are. It replays the readable
// histories of the project. [RunBound] attacks each limit and checks that no span of a
// period admits more than the limit states.
//
// A store that cannot keep every limit has a method
//
//	Check(*weir.Limit) error
//
// which says which limits it refuses. These are not asked for.
//
// Run the suite with -race too. With WEIR_SOAK=1 in the environment it asks more.
package storetest

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/history"
)

// Open returns an empty store. Its time is what now returns, in microseconds since the
// Unix epoch, or that of a clock of its own if now is nil. Open registers the store's
// Close with t.Cleanup. The suite closes some stores before, so that Close runs twice.
type Open func(t *testing.T, now func() int64) weir.Store

// Options says how a store differs. The zero value fits one that decides a request in
// one step and takes its time from now.
type Options struct {
	// Live stores have a clock of their own: now is nil. Time passes as it does, so that
	// less of what depends on it is met, and no histories are replayed.
	Live bool
	// RefundsLast says that a request's refunds are charged after all its other ops, as
	// where its keys are on several servers.
	RefundsLast bool
	// Brief asks fewer random questions of fewer keys, unless WEIR_SOAK=1 is in the
	// environment: for a further way to reach a store that is tested in full elsewhere.
	Brief bool
}

// Run checks stores that open returns, one for each subtest.
func Run(t *testing.T, open Open, opt Options) {
	opt.Brief = opt.Live || opt.Brief && os.Getenv("WEIR_SOAK") != "1"
	run(t, open, opt)
	if !opt.Live {
		t.Run("histories", func(t *testing.T) { replay(t, open) })
	}
}

// replay replays the readable histories of the project, those of approximate
// limits where the store has them.
func replay(t *testing.T, open Open) {
	runHistories := history.RunStore
	probe := suite{T: t, store: open(t, func() int64 { return start })}
	if !probe.serves(compiled(t, perHour("probe", algorithm.Approximate.Name(), 5))) {
		runHistories = history.Run
	}
	runHistories(t, func(t *testing.T) history.Decide {
		var clock atomic.Int64
		s := open(t, clock.Load)
		return func(now int64, op *weir.Op) error {
			clock.Store(now)
			ops := []weir.Op{*op}
			err := s.Take(context.Background(), ops)
			*op = ops[0]
			return err
		}
	})
}

func run(t *testing.T, open Open, opt Options) {
	for _, test := range []struct {
		name string
		f    func(*suite)
	}{
		{"history", (*suite).history},
		{"all or nothing", (*suite).allOrNothing},
		{"same key twice", (*suite).sameKeyTwice},
		{"roles", (*suite).roles},
		{"verbs", (*suite).verbs},
		{"take one", (*suite).takeOne},
		{"expiry", (*suite).expiry},
		{"contention", (*suite).contention},
		{"contention over several limits", (*suite).contentionOverThree},
		{"releases", (*suite).releases},
		{"approximate", (*suite).approximate},
		{"wrong asks", (*suite).wrongAsks},
		{"closed", (*suite).closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &suite{T: t, Options: opt, ctx: context.Background()}
			var now func() int64
			if !s.Live {
				s.clock.Store(start)
				now = s.clock.Load
			}
			s.store = open(t, now)
			test.f(s)
		})
	}
}

// start is an instant on no boundary of anything: 2026-03-14 15:09:26.535897.
const start = 1_773_500_966_535_897

// A suite is one test of one store.
type suite struct {
	*testing.T
	store weir.Store
	Options
	clock atomic.Int64
	ctx   context.Context
}

// pass lets d go by. A store with its own clock is not waited for: its limits
// are met as they are.
func (s *suite) pass(d time.Duration) {
	if !s.Live {
		s.clock.Add(d.Microseconds())
	}
}

func (s *suite) take(ops ...weir.Op) []weir.Op {
	s.Helper()
	if err := s.store.Take(s.ctx, ops); err != nil {
		s.Fatalf("Take: %v", err)
	}
	return ops
}

// peek returns what a Peek of cost says.
func (s *suite) peek(key string, l *weir.Limit, cost int64) weir.Decision {
	s.Helper()
	return s.take(weir.Op{Key: key, Limit: l, Cost: cost, ID: 99, Verb: weir.Peek})[0].Decision
}

// spend takes cost and returns whether it was charged.
func (s *suite) spend(key string, l *weir.Limit, cost int64) bool {
	s.Helper()
	return s.take(weir.Op{Key: key, Limit: l, Cost: cost, ID: 1})[0].Charged
}

// left asserts how many units of key remain.
func (s *suite) left(key string, l *weir.Limit, want int64) {
	s.Helper()
	if got := s.peek(key, l, 1).Remaining; got != want {
		s.Errorf("%s: %d of %q remain, want %d", key, got, l.Name, want)
	}
}

func compiled(t testing.TB, l *weir.Limit) *weir.Limit {
	t.Helper()
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *suite) wrongAsks() {
	bucket := compiled(s, perHour("bucket", bucketName, 10))
	for _, cost := range []int64{-1, weir.MaxCost + 1, -1 << 63} {
		if _, err := s.store.TakeOne(s.ctx, "k", bucket, cost); !errors.Is(err, weir.ErrCost) {
			s.Errorf("TakeOne of cost %d: error %v, want ErrCost", cost, err)
		}
		alone := []weir.Op{{Key: "k", Limit: bucket, Cost: cost}}
		if err := s.store.Take(s.ctx, alone); !errors.Is(err, weir.ErrCost) {
			s.Errorf("Take of cost %d alone: error %v, want ErrCost", cost, err)
		}
		ops := []weir.Op{{Key: "other", Limit: bucket, Cost: 1}, {Key: "k", Limit: bucket, Cost: cost}}
		if err := s.store.Take(s.ctx, ops); !errors.Is(err, weir.ErrCost) {
			s.Errorf("Take of cost %d: error %v, want ErrCost", cost, err)
		}
	}
	s.left("other", bucket, 10)
	for _, l := range limits(s) {
		if l.Traits()&weir.Leases == 0 {
			continue
		}
		ops := []weir.Op{{Key: "k", Limit: bucket, Cost: 1}, {Key: "k", Limit: l, Cost: 1}}
		if err := s.store.Take(s.ctx, ops); !errors.Is(err, weir.ErrNoLease) {
			s.Errorf("Take of %s without a lease: error %v, want ErrNoLease", l.Name, err)
		}
		s.left("k", bucket, 10)
		// Nobody needs a lease to look.
		for i := range ops {
			ops[i].Verb = weir.Peek
		}
		if err := s.store.Take(s.ctx, ops); err != nil || !ops[1].Decision.Allowed() || ops[1].Decision.Remaining != l.Count {
			s.Errorf("a look at %s without a lease: %+v, error %v", l.Name, ops[1].Decision, err)
		}
	}
}

func (s *suite) closed() {
	l := compiled(s, perHour("bucket", bucketName, 10))
	s.spend("k", l, 1)
	for range 2 {
		if err := s.store.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
	if _, err := s.store.TakeOne(s.ctx, "k", l, 1); !errors.Is(err, weir.ErrClosed) {
		s.Errorf("TakeOne after Close: error %v, want ErrClosed", err)
	}
	for n := 1; n <= 2; n++ {
		ops := make([]weir.Op, n)
		for i := range ops {
			ops[i] = weir.Op{Key: "k", Limit: l, Cost: 1}
		}
		if err := s.store.Take(s.ctx, ops); !errors.Is(err, weir.ErrClosed) {
			s.Errorf("Take of %d ops after Close: error %v, want ErrClosed", n, err)
		}
	}
}

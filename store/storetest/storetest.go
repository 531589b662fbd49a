// Package storetest is the conformance suite of stores: whatever keeps the cells
// of keys must decide as the algorithms do, on all limits of a request or on
// none, whoever else is deciding.
//
// A store's own test calls [Run] if it can be told the time, and [RunLive] if it
// has a clock of its own.
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

// Open returns an empty store that tells the time by now, or by its own clock
// if now is nil. It registers the store's Close with t.Cleanup; a store is
// closed more than once.
type Open func(t *testing.T, now func() int64) weir.Store

// Run tests stores on a virtual clock.
func Run(t *testing.T, open Open) { onClock(t, open, false) }

// RunBriefly is Run with fewer random questions and fewer keys, for a store that
// was tested by Run in another form. With WEIR_SOAK=1 in the environment it is
// Run.
func RunBriefly(t *testing.T, open Open) { onClock(t, open, os.Getenv("WEIR_SOAK") != "1") }

// RunApart is RunBriefly for a store whose keys are in several places: there the
// refunds of a request come after all that is charged.
func RunApart(t *testing.T, open Open) {
	inForm(t, open, form{brief: os.Getenv("WEIR_SOAK") != "1", apart: true})
}

func onClock(t *testing.T, open Open, brief bool) { inForm(t, open, form{brief: brief}) }

func inForm(t *testing.T, open Open, form form) {
	run(t, open, form)
	t.Run("histories", func(t *testing.T) { replay(t, open) })
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

// RunLive tests stores that have a clock of their own. Time passes as it does,
// so less of what depends on it is met.
func RunLive(t *testing.T, open Open) { run(t, open, form{live: true, brief: true}) }

// A form of the suite.
type form struct {
	live  bool // the store has a clock of its own
	brief bool // fewer questions and keys
	apart bool // refunds come last
}

func run(t *testing.T, open Open, form form) {
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
		{"contention over several limits", (*suite).contentionOverSeveral},
		{"approximate", (*suite).approximate},
		{"wrong asks", (*suite).wrongAsks},
		{"closed", (*suite).closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &suite{T: t, form: form, ctx: context.Background()}
			var now func() int64
			if !s.live {
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
	form
	clock atomic.Int64
	ctx   context.Context
}

// pass lets d go by. A store with its own clock is not waited for: its limits
// are met as they are.
func (s *suite) pass(d time.Duration) {
	if !s.live {
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

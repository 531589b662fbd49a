package outage

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/memory"
)

// epoch is the beginning of a day.
const epoch = 1_700_006_400_000_000

var (
	errOpen = &transport.Result{Outcome: transport.Open, Err: transport.ErrOpen}
	errLate = &transport.Result{Outcome: transport.Late, MayRun: true, Err: transport.ErrLate}
	errFail = &transport.Result{Outcome: transport.Failed, Err: errors.New("connection refused")}
	errGone = &transport.Result{Outcome: transport.CallerGone, Err: context.Canceled}
)

// A fate is what becomes of a payment.
type fate uint8

const (
	answered fate = iota
	refused       // it fails at once
	dropped       // it is late, and was not carried out
	unheard       // it is late, and was carried out
)

// A world is a node, and a store whose shards hold the keys that begin with their letter.
type world struct {
	unanswered uint64
	*testing.T
	*Outage
	now    atomic.Int64 // microseconds
	shared *memory.Store
	// down are the shards that do not answer, slow those whose breaker is still closed.
	down, slow map[byte]bool
	fate       func() fate
	// ahead is called before the node's store is, once, but for the setup of a share.
	ahead func()
	after bool // not before it, but after
	// charged is by key what payments charged; calls is how many there were.
	charged map[string]int64
	calls   int
	parts   int64
	terms   map[*weir.Limit]*Terms
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, down: map[byte]bool{}, slow: map[byte]bool{}, fate: func() fate { return answered }, charged: map[string]int64{}, parts: 1, terms: map[*weir.Limit]*Terms{}}
	open := func() *memory.Store {
		m := memory.New(memory.Options{MaxBytes: 1 << 20, Now: func() int64 { return epoch + w.now.Load() }})
		t.Cleanup(func() { m.Close() })
		return m
	}
	w.shared = open()
	w.Outage = New(&Env{
		Env: lot.Env{
			Clock:    clock.New(func() clock.Node { return clock.Node(w.now.Load()) }, nil),
			Refusals: lot.NewRefusals(1<<16, 1_000_000), Returns: lot.NewReturns(1<<20, func() {}), Table: lot.NewTable(1<<20, nil),
			Nodes: func() int64 { return w.parts },
		},
		Local:  &own{open(), w},
		Terms:  w.termsOf,
		IsOpen: func(key string) bool { return w.down[key[0]] && !w.slow[key[0]] },
		Failed: func(error) { w.unanswered++ },
		Once:   w.once,
	}, 1<<16)
	t.Cleanup(func() {
		if n := w.Degraded.Load(); n != w.unanswered {
			t.Errorf("%d decisions were made without the store, and %d noted", n, w.unanswered)
		}
	})
	return w
}

func (w *world) termsOf(l *weir.Limit) (*Terms, error) {
	if w.terms[l] == nil {
		w.terms[l] = NewTerms(l, 1)
	}
	return w.terms[l], nil
}

// own is the node's store.
type own struct {
	weir.Store
	w *world
}

func (s *own) Take(ctx context.Context, ops []weir.Op) error {
	if f := s.w.ahead; f != nil && ops[0].Verb != weir.Force { // others wait while a share is set up
		s.w.ahead = nil
		if s.w.after {
			err := s.Store.Take(ctx, ops)
			f()
			return err
		}
		f()
	}
	return s.Store.Take(ctx, ops)
}

func (w *world) take(ops ...weir.Op) []weir.Op {
	w.Helper()
	if err := w.shared.Take(context.Background(), ops); err != nil {
		w.Fatal(err)
	}
	return ops
}

func (w *world) once(calls [][]weir.Op, end func(i int, sent clock.Node, err error)) {
	for i := range calls {
		w.calls++
		o, f := &calls[i][0], w.fate()
		if w.down[o.Key[0]] {
			f = refused
		}
		if f == answered || f == unheard {
			*o = w.take(*o)[0]
			w.charged[o.Key] += o.Cost
		}
		var err error
		switch f {
		case refused:
			err = errFail
		case dropped, unheard:
			err = errLate
		}
		end(i, clock.Node(w.now.Load()), err)
	}
}

// spend decides a cost of a key as the node does.
func (w *world) spend(key string, l *weir.Limit, cost int64) weir.Op {
	w.Helper()
	ops := []weir.Op{{Key: key, Limit: l, Cost: cost}}
	if !w.down[key[0]] {
		w.take(ops...)
		w.Refusals.LearnAnswer(w.Table.TagForKey(key, l), l, cost, clock.Node(w.now.Load()), ops[0].Decision, 0)
	} else if err := w.DecideOps(context.Background(), ops, errOpen); err != nil {
		w.Fatal(err)
	}
	w.now.Add(1)
	return ops[0]
}

// pay waits until all that can be is paid.
func (w *world) pay() {
	w.Helper()
	w.now.Add(2 * retryAfter)
	if _, err := w.PayDebts(); err != nil {
		w.Fatal(err)
	}
}

// returned sends what waits to be given back, and returns the units.
func (w *world) returned() (n int64) {
	for some := w.Returns.TakeDue(0, 0); some != nil; some = w.Returns.TakeDue(0, 0) {
		for i := range some {
			n += some[i].Free
			w.take(some[i].BuildOp())
		}
		w.Returns.FinishCall(some, w.Clock.Now(), lot.Accepted)
	}
	return n
}

// counted is what the store has counted of a key, and used what the node's share has.
func (w *world) counted(key string, l *weir.Limit) int64 {
	return l.Burst - w.take(weir.Op{Key: key, Limit: l, Cost: 1, Verb: weir.Peek})[0].Decision.Remaining
}

func (w *world) used(key string, l *weir.Limit) int64 {
	w.Helper()
	t, _ := w.termsOf(l)
	share, err := t.shareOfParts(w.parts)
	ops := []weir.Op{{Key: key, Limit: share, Cost: 1, Verb: weir.Peek}}
	if err = errors.Join(err, w.Local.Take(context.Background(), ops)); err != nil {
		w.Fatal(err)
	}
	return share.Burst - ops[0].Decision.Remaining
}

func daily(t *testing.T, count int64, p params.StoreErrorPolicy) *weir.Limit {
	t.Helper()
	l := &weir.Limit{Name: "limit", Algorithm: algorithm.FixedWindow, Count: count, Period: 24 * time.Hour}
	l.Consistency.OnStoreError = p
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

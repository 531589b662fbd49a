package sharedtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/background"
	"github.com/weirlimit/weir/store/memory"
)

var errDown, errCut = errors.New("connection refused"), errors.New("connection reset")

// fault is what is wrong with a store.
type fault int32

const (
	none     fault = iota
	down           // refuses every call at once
	stall          // answers nothing until the call's context ends
	lost           // carries the call out, and its answer is lost
	tenth          // refuses one call in ten
	third          // carries all out, and loses one answer in three
	wedged         // answers nothing, and does not look at the context, until mended
	partly         // refuses calls for keys that begin with "gone", and says that others are decided
	partDown       // refuses them at once
	counts         // keeps no concurrency limits, as Memcached
	rejects        // answers for keys that begin with "bad" that it cannot decide them
)

// partError is the error of a store of which a shard is out.
type partError struct{}

func (partError) Error() string { return "a part is away" }

func (partError) Partial() bool { return true }

// rejection is what a store says that answers, and cannot decide one call.
type rejection struct{}

func (rejection) Error() string { return "this key holds something else" }

func (rejection) Rejected() bool { return true }

// faulty is a real store with a fault that can be changed.
type faulty struct {
	weir.Store
	fault  atomic.Int32
	delay  atomic.Int64 // before each answer, nanoseconds
	limit  atomic.Int64 // its own timeout, if it is prompt, nanoseconds
	calls  atomic.Int64
	gone   atomic.Int64 // of them, that a server has refused which is down
	mended chan struct{}
	// gate, if not nil, is read from before each call.
	gate atomic.Pointer[chan struct{}]
}

// newFaulty returns a store without a fault, on the time now.
func newFaulty(t testing.TB, now func() int64) *faulty {
	m := memory.New(memory.Options{MaxBytes: 16 << 20, Now: now})
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &faulty{Store: m, mended: make(chan struct{})}
}

// mend ends what is wedged.
func (f *faulty) mend() {
	f.set(none)
	select {
	case <-f.mended:
	default:
		close(f.mended)
	}
}

func (f *faulty) set(x fault) { f.fault.Store(int32(x)) }

func (f *faulty) Take(ctx context.Context, ops []weir.Op) error {
	n := f.calls.Add(1)
	if d := f.limit.Load(); d > 0 {
		if b := background.Of(ctx); b != nil {
			d = int64(b.Timeout)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(d))
		defer cancel()
	}
	if gate := f.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if d := f.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	switch fault(f.fault.Load()) {
	case down:
		return errDown
	case tenth:
		if n%10 == 0 {
			return errDown
		}
	case third:
		if err := f.Store.Take(ctx, ops); err != nil || n%3 > 0 {
			return err
		}
		return errCut
	case stall:
		<-ctx.Done()
		return ctx.Err()
	case lost:
		if err := f.Store.Take(ctx, ops); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	case wedged:
		<-f.mended
	case counts:
		for i := range ops {
			if ops[i].Limit.Algorithm == algorithm.Concurrency {
				return fmt.Errorf("store: it can only count: %w", rejection{}) // as Memcached says it
			}
		}
	case rejects:
		for i := range ops {
			if strings.HasPrefix(ops[i].Key, "bad") {
				return fmt.Errorf("store: %w", rejection{})
			}
		}
	case partDown:
		if strings.HasPrefix(ops[0].Key, "gone") {
			f.gone.Add(1)
			return errDown
		}
	case partly:
		for i := range ops {
			if strings.HasPrefix(ops[i].Key, "gone") {
				return fmt.Errorf("store: %w", partError{})
			}
		}
	}
	return f.Store.Take(ctx, ops)
}

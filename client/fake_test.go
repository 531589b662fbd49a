package client

import (
	"context"
	"sync"
	"time"
)

// wire is a service in this process: what it is asked is answered by functions.
type wire struct {
	mu      sync.Mutex // held while decide and asked are used by calls
	decide  func(ctx context.Context, ks []Check, peek bool) ([]Decision, error)
	asked   int // calls of decide
	reserve func(Check) (Decision, string, time.Time, error)
	settle  func(handle string, actual int64) (Settlement, error)
	acquire func(Check) (Decision, error)
	release func(Check) error
}

func (w *wire) Decide(ctx context.Context, ks []Check, peek bool) ([]Decision, error) {
	w.mu.Lock()
	w.asked++
	decide := w.decide
	w.mu.Unlock()
	return decide(ctx, ks, peek)
}

func (w *wire) Reserve(_ context.Context, k Check) (Decision, string, time.Time, error) {
	return w.reserve(k)
}

func (w *wire) Settle(_ context.Context, handle string, actual int64) (Settlement, error) {
	return w.settle(handle, actual)
}
func (w *wire) Acquire(_ context.Context, k Check) (Decision, error) { return w.acquire(k) }
func (w *wire) Renew(_ context.Context, k Check) (Decision, error)   { return w.acquire(k) }
func (w *wire) Release(_ context.Context, k Check) (bool, error)     { return true, w.release(k) }
func (w *wire) Close() error                                         { return nil }

var perMinute = &Limit{Name: "100/minute", Count: 100, Burst: 100, Period: time.Minute, Algorithm: "sliding_window"}

func refusedBy(l *Limit) []Outcome { return []Outcome{{Limit: l, Role: "enforce"}} }

// says answers every check the same.
func says(d Decision) func(context.Context, []Check, bool) ([]Decision, error) {
	return func(_ context.Context, ks []Check, _ bool) ([]Decision, error) {
		ds := make([]Decision, len(ks))
		for i := range ds {
			ds[i] = d
		}
		return ds, nil
	}
}

// fails fails every call.
func fails(err error) func(context.Context, []Check, bool) ([]Decision, error) {
	return func(context.Context, []Check, bool) ([]Decision, error) { return nil, err }
}

// hangs answers nothing until its context ends.
func hangs(ctx context.Context, _ []Check, _ bool) ([]Decision, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

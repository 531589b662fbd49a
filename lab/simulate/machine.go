package main

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// measureFor is how long decisions of one mode are measured, twice.
const measureFor = 250 * time.Millisecond

// callers is how many goroutines ask on each processor.
const callers = 32

// newUsers is how many users there are to be new, one a decision: as many as have addresses,
// see value.of.
const newUsers = 1 << 22

// A pace is what decisions took while they were measured.
type pace struct {
	ns    float64 // of a processor, for a decision
	calls float64 // of the shared store, for a decision
}

// measureCost returns the nanoseconds of a processor that a decision takes on this machine
// where it makes so many calls of the shared store: the making of the request included, with
// the store in this process.
//
// What is asked again and again at the speed of the machine is soon answered by a lease or a
// remembered refusal, and a new user's first request by the store. So both are measured, with
// the calls that they make, and the fleet is as far from either as its calls are.
func measureCost(ctx context.Context, q *questions, s *slice, o *Options, calls float64) (float64, error) {
	// What the slice is made of is drawn before, as a fleet does not draw it.
	const drawn = 1 << 16
	arrivals := make([]arrival, 0, drawn)
	for t := newTraffic(s, o.Nodes, 1<<62, o.Seed); len(arrivals) < drawn; {
		a, _ := t.next()
		arrivals = append(arrivals, a)
	}
	again, err := measurePace(ctx, q, o, func(i int) (int, uint64) { return arrivals[i%drawn].user, arrivals[i%drawn].choice })
	if err != nil {
		return 0, err
	}
	first, err := measurePace(ctx, q, o, func(i int) (int, uint64) { return i % newUsers, arrivals[i%drawn].choice })
	return costAt(calls, again, first), err
}

// costAt returns what a decision takes that makes so many calls, on the line through two
// paces; where they make as many, that of the first.
func costAt(calls float64, a, b pace) float64 {
	const nearest = 0.05
	if b.calls-a.calls < nearest || b.ns < a.ns {
		return a.ns
	}
	return max(min(a.ns, b.ns), a.ns+(calls-a.calls)*(b.ns-a.ns)/(b.calls-a.calls))
}

// measurePace decides requests for measureFor; the i-th is of the user and choice that user
// returns.
func measurePace(ctx context.Context, q *questions, o *Options, user func(i int) (int, uint64)) (p pace, err error) {
	server, local := memory.New(memory.Options{MaxBytes: playBytes}), memory.New(memory.Options{MaxBytes: playBytes})
	defer func() { err = errors.Join(err, server.Close(), local.Close()) }()
	store, err := shared.New(server, shared.Options{Local: local, Timeout: time.Second, Nodes: int(o.Nodes)})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	limiter, err := weir.New(store, q.set, weir.Options{})
	if err != nil {
		return p, err
	}
	runtime.GC() // of what was played
	ctx, stop := context.WithTimeout(ctx, measureFor)
	defer stop()
	workers := callers * runtime.GOMAXPROCS(0)
	counts, errs := make([]int64, workers), make([]error, workers)
	var all sync.WaitGroup
	start := cpuTime()
	for w := range workers {
		all.Go(func() {
			for i := w; ctx.Err() == nil; i += workers {
				r := limiter.Acquire()
				who, choice := user(i)
				q.fill(r, who, choice)
				if _, err := limiter.Decide(context.Background(), r); err != nil {
					errs[w] = err
					return
				}
				limiter.Recycle(r)
				counts[w]++
			}
		})
	}
	all.Wait()
	took, sum := cpuTime()-start, int64(0)
	for _, n := range counts {
		sum += n
	}
	if ctx.Err() == context.Canceled {
		errs = append(errs, ctx.Err())
	}
	of := float64(max(sum, 1))
	return pace{ns: float64(took) / of, calls: float64(store.Stats().Calls) / of}, errors.Join(errs...)
}

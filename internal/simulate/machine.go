package simulate

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

// measureFor is how long decisions of one mode are measured.
const measureFor = 250 * time.Millisecond

// callers is how many goroutines ask on each processor.
const callers = 32

// measureCost returns the nanoseconds of a processor that a decision takes on this machine,
// the making of the request included, with the shared store in this process.
func measureCost(ctx context.Context, q *questions, s *slice, o *Options) (ns float64, err error) {
	server, local := memory.New(memory.Options{MaxBytes: playBytes}), memory.New(memory.Options{MaxBytes: playBytes})
	defer func() { err = errors.Join(err, server.Close(), local.Close()) }()
	store, err := shared.New(server, shared.Options{Local: local, Timeout: time.Second, Nodes: int(o.Nodes)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	limiter, err := weir.New(store, q, weir.Options{})
	if err != nil {
		return 0, err
	}
	// What the slice is made of is drawn before, as a fleet does not draw it.
	const drawn = 1 << 16
	arrivals := make([]arrival, 0, drawn)
	for t := newTraffic(s, o.Nodes, 1<<62, o.Seed); len(arrivals) < drawn; {
		a, _ := t.next()
		arrivals = append(arrivals, a)
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
				a := &arrivals[i%drawn]
				r := limiter.Acquire()
				q.fill(r, a.user, a.choice)
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
	return float64(took) / float64(max(sum, 1)), errors.Join(errs...)
}

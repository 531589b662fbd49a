package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/shared"
)

// InFlight is how many requests are under way at once where every decision asks the
// server.
const InFlight = 64

// Round is what many decisions cost.
type Round struct {
	// Rate is decisions a second.
	Rate float64
	// Client and Server are nanoseconds of processor time a decision: of this whole
	// process, and of the server.
	Client, Server float64
	// Commands is how many the server carried out, those of scripts too, a decision.
	Commands float64
	// P99 is that of single decisions, if they were timed.
	P99 time.Duration
	// Wrong is how many were not answered as they must be, of Ops.
	Wrong, Ops int64
}

// Both is processor time of client and server together.
func (r Round) Both() float64 { return r.Client + r.Server }

// Drive makes n decisions, so many under way at once, on keys in turn, and measures
// what they cost. addr is empty where no server is asked; timed: each decision is
// timed.
func Drive(addr string, allow Allow, n int64, inFlight int, keys *load.Keys, from int, timed bool) (Round, error) {
	var before, after Usage
	var err error
	if addr != "" {
		if before, err = Used(addr); err != nil {
			return Round{}, err
		}
	}
	each := max(n/int64(inFlight), 1)
	wrong := make([]int64, inFlight*8) // a cache line apart
	times := make([]measure.Histogram, inFlight)
	var all sync.WaitGroup
	cpu, wall := measure.CPU(), time.Now()
	for p := range inFlight {
		all.Go(func() {
			for i := range int(each) {
				key := keys.At(from + p<<16 + i)
				if !timed {
					if !allow(key) {
						wrong[p*8]++
					}
					continue
				}
				begin := time.Now()
				if !allow(key) {
					wrong[p*8]++
				}
				times[p].Add(time.Since(begin))
			}
		})
	}
	all.Wait()
	took, used := time.Since(wall), measure.CPU()-cpu
	r := Round{Ops: each * int64(inFlight)}
	ops := float64(r.Ops)
	if addr != "" {
		if after, err = Used(addr); err != nil {
			return Round{}, err
		}
		r.Server = float64(after.CPU-before.CPU) / ops
		r.Commands = float64(after.Commands-before.Commands) / ops
	}
	r.Rate, r.Client = ops/took.Seconds(), float64(used)/ops
	if timed {
		r.P99 = times[0].Quantile(0.99)
	}
	for p := range inFlight {
		r.Wrong += wrong[p*8]
	}
	return r, nil
}

// Fill makes allow know every key, each asked so many times.
func Fill(allow Allow, keys *load.Keys, times int) {
	var all sync.WaitGroup
	for p := range InFlight {
		all.Go(func() {
			for i := p; i < len(keys.All); i += InFlight {
				for range times {
					// The first request of a key that is to be refused passes.
					allow(keys.All[i])
				}
			}
		})
	}
	all.Wait()
}

// Fleet is what a limit cost nodes that fetch ahead.
type Fleet struct {
	// Offered decisions, of which Allowed passed, with so many calls of the store.
	Offered, Allowed, Calls int64
}

// Saved is how many calls were saved for each that was made.
func (f Fleet) Saved() float64 { return float64(f.Offered-f.Calls) / float64(f.Calls) }

// Lease offers a limit of 100,000 units to four nodes, once, as fast as they decide,
// and counts the calls.
func Lease(addr string, db, round int) (Fleet, error) {
	const nodes, clients = 4, 4
	l := weir.PerDay(fleetLimit, algorithm.FixedWindow)
	l.Consistency.Mode = params.ConsistencyLeased
	if err := l.Compile(); err != nil {
		return Fleet{}, err
	}
	var f Fleet
	var mu sync.Mutex
	var ends []func() error
	var opened []*shared.Store
	var all sync.WaitGroup
	key := fmt.Sprint("fleet", round)
	var failed []error
	for range nodes {
		t, end, err := openNode(addr, db, nodes)
		if err != nil {
			all.Wait()
			return Fleet{}, joined(err, ends...)
		}
		ends = append(ends, end)
		opened = append(opened, t)
		for range clients {
			all.Go(func() {
				allowed := int64(0)
				for range fleetLimit / nodes / clients {
					d, err := t.TakeOne(context.Background(), key, l, 1)
					if err != nil {
						mu.Lock()
						failed = append(failed, err)
						mu.Unlock()
						return
					}
					if d.Allowed() {
						allowed++
					}
				}
				mu.Lock()
				f.Allowed += allowed
				f.Offered += fleetLimit / nodes / clients
				mu.Unlock()
			})
		}
	}
	all.Wait()
	for _, t := range opened {
		f.Calls += int64(t.Stats().Calls)
	}
	return f, joined(errors.Join(failed...), ends...)
}

// joined adds to err what fails at the end.
func joined(err error, ends ...func() error) error {
	all := []error{err}
	for _, end := range ends {
		all = append(all, end())
	}
	return errors.Join(all...)
}

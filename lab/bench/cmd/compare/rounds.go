package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// order asks a worker for one round: n operations of one of its shapes.
type order struct {
	Shape int
	Ops   int64
}

// samples are the rounds of one limiter in one shape.
type samples []measure.Round

func (s samples) spread(figure func(measure.Round) float64) measure.Spread {
	values := make([]float64, len(s))
	for i, r := range s {
		values[i] = figure(r)
	}
	return measure.SpreadOf(values)
}

func (s samples) cpu() measure.Spread {
	return s.spread(func(r measure.Round) float64 { return r.CPU })
}

func (s samples) wall() measure.Spread {
	return s.spread(func(r measure.Round) float64 { return r.Wall })
}

func (s samples) allocs() measure.Spread {
	return s.spread(func(r measure.Round) float64 { return r.Allocs })
}

// refused returns the refused operations and all of them.
func (s samples) refused() (refused, ops int64) {
	for _, r := range s {
		refused += r.Refused
		ops += r.Ops
	}
	return refused, ops
}

// alternate measures shapes shapes on workers started with args, one each, and
// returns results[worker][shape]. In each round every worker has its turn, in
// an order that rotates.
func alternate(ctx context.Context, s settings, shapes int, args [][]string) ([][]samples, error) {
	workers := make([]*worker.Worker, 0, len(args))
	defer func() {
		for _, w := range workers {
			w.Close()
		}
	}()
	for _, a := range args {
		w, err := worker.Start(ctx, append([]string{"worker"}, a...)...)
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
		// One at a time: filling the keys takes all of a processor.
		if err := w.Ask(order{}, new(measure.Round)); err != nil {
			return nil, err
		}
	}
	results := make([][]samples, len(workers))
	for i := range results {
		results[i] = make([]samples, shapes)
	}
	for shape := range shapes {
		ops := make([]int64, len(workers))
		for i, w := range workers {
			n, err := calibrate(w, shape, s.round)
			if err != nil {
				return nil, err
			}
			ops[i] = n
		}
		for round := range s.rounds {
			for turn := range workers {
				i := (turn + round) % len(workers)
				var r measure.Round
				if err := workers[i].Ask(order{shape, ops[i]}, &r); err != nil {
					return nil, err
				}
				results[i][shape] = append(results[i][shape], r)
			}
		}
	}
	var failed []error
	for _, w := range workers {
		failed = append(failed, w.Close())
	}
	return results, errors.Join(failed...)
}

// calibrate returns how many operations fill a round.
func calibrate(w *worker.Worker, shape int, round time.Duration) (int64, error) {
	n := int64(1000)
	for {
		var r measure.Round
		if err := w.Ask(order{shape, n}, &r); err != nil {
			return 0, err
		}
		took := time.Duration(r.Wall * float64(n))
		if took >= round/4 {
			return max(int64(float64(round)/r.Wall), 1), nil
		}
		if n > 1<<32 {
			return 0, fmt.Errorf("an operation takes no time: nothing is measured")
		}
		n *= 4
	}
}

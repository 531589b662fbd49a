package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// How a decision is made.
const (
	alone    = "alone"
	observed = "observed"
)

// compareObserver measures what being observed adds to a decision.
func compareObserver(ctx context.Context, s settings) (string, error) {
	var args [][]string
	for i := range ours.ObservedCases {
		for _, how := range []string{alone, observed} {
			args = append(args, []string{"observer", how, strconv.Itoa(i)})
		}
	}
	// More and shorter turns: what is added is less than what neighbours of the
	// machine take.
	s.rounds, s.round = 9*s.rounds, s.round/5
	progress("observer: %d cases, %d rounds of %s", len(ours.ObservedCases), s.rounds, s.round)
	results, err := alternate(ctx, s, 1, args)
	if err != nil {
		return "", err
	}
	table := report.NewTable("decision", "alone, ns", "observed, ns", "added, ns", "of the decision alone", "aim", "allocations")
	for i, c := range ours.ObservedCases {
		without, with := results[2*i][0], results[2*i+1][0]
		for _, some := range []samples{without, with} {
			if wrong, ops := some.refused(); wrong > 0 {
				return "", fmt.Errorf("%s: %d of %d decisions were not as they must be", c.Name, wrong, ops)
			}
		}
		added, part := make([]float64, len(with)), make([]float64, len(with))
		for round := range with {
			added[round] = with[round].Wall - without[round].Wall
			part[round] = added[round] / without[round].Wall
		}
		a, p := measure.SpreadOf(added), measure.SpreadOf(part)
		aim := atMost(p.Median, c.AimPart, "%.2f")
		if c.AimAdded > 0 {
			aim = atMost(a.Median, c.AimAdded, "%.0f ns")
		}
		table.Row(c.Name, without.wall().String(), with.wall().String(), a.String(), p.String(), aim, fmt.Sprintf("%.2f", with.allocs().Median))
	}
	return fmt.Sprintf("`Limiter.Decide` of one limit with an `event.Observer` that knows all about the client, and without one: wall time on the goroutine that decides, while the observer's own goroutine has the other processor. As fast as one goroutine decides, most refusals of many keys find the observer's ring full and are counted in roll-ups alone. Added is the difference in each round. Median (smallest–largest) of %d rounds of %s.\n\n%s",
		s.rounds, s.round, table), nil
}

// serveObserver is the worker: one case, observed or alone.
func serveObserver(how string, c ours.Observed) (err error) {
	ask, done, err := c.Open(how == observed)
	if err != nil {
		return err
	}
	work := func(_ int, n int64) (wrong int64) {
		for range n {
			if !ask() {
				wrong++
			}
		}
		return wrong
	}
	err = worker.Serve(func(o order) (measure.Round, error) {
		if o.Ops == 0 {
			return measure.Round{}, nil
		}
		return measure.RunAlongside(o.Ops, work), nil
	})
	if failed := done(); err == nil {
		err = failed
	}
	return err
}

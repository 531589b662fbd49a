// Command simulate plays a fleet before there is one: nodes with the rules, limiters and
// stores of the product, in virtual time, under made-up users.
//
// The fleet is mostly too large to be played whole, so a slice of its users is: each at its
// own rate, on all nodes, for the whole time, which keeps all that concerns one user as it
// is in the fleet. The same requests are decided by one node alone, which is exact, and in
// each mode of consistency. What the whole fleet needs is computed from that, and said to be.
package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/rules"
)

// A way is a mode that is played.
type way struct {
	name string
	asks *questions
}

// asWritten is the way in which each limit counts as its rule says.
const asWritten = "rules"

// modes are the other ways.
var modes = []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual, params.ConsistencyLocal}

// Run plays a fleet, and measures this machine. It ends with an error of ctx when that ends.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s, err := newSlice(&o)
	if err != nil {
		return nil, err
	}
	ways, err := findWays(&o)
	if err != nil {
		return nil, err
	}
	r, err := play(ctx, ways, s, &o)
	if err != nil {
		return nil, err
	}
	for i, w := range ways {
		ns, err := measureCost(ctx, w.asks, s, &o, r.Whole[i].Calls/float64(o.Rate))
		if err != nil {
			return nil, err
		}
		r.Machine.Costs = append(r.Machine.Costs, Cost{Mode: w.name, Nanoseconds: ns, PerCore: 1e9 / ns, Cores: ns * float64(o.Rate) / 1e9})
	}
	return r, nil
}

// play plays a slice, and says what came of it.
func play(ctx context.Context, ways []way, s *slice, o *Options) (*Report, error) {
	e, plays, err := playAll(ctx, ways, s, o)
	if err != nil {
		return nil, err
	}
	asks := ways[0].asks
	r := &Report{
		Fleet: Fleet{Rules: o.Rules, Nodes: o.Nodes, Users: o.Users, Rate: o.Rate, Zipf: o.Zipf, StoreLatency: o.StoreLatency.Seconds()},
		Played: Played{
			Seed: o.Seed, Every: s.every, Users: int64(len(s.upTo)), Seconds: o.For.Seconds(), Share: s.share, Busiest: s.busiest(),
			Requests: e.requests, Touched: e.touched, Entries: asks.describe(), Unlimited: e.unlimited,
			LeftOut: asks.leftOut, Common: e.common, Small: asks.smallLimits(o.Nodes),
		},
		Modes: []Mode{{Mode: "exact", Requests: e.requests, Refused: e.refused, Allowed: e.requests - e.refused, OnNode: e.requests}},
	}
	for i, f := range plays {
		m := compare(ways[i].name, f, e)
		r.Modes = append(r.Modes, m)
		r.Whole = append(r.Whole, r.extrapolate(&m, f.lead().Seconds()))
	}
	r.estimateMemory(e)
	return r, nil
}

// findWays reads the rules once for each way, as that is a part of them. As they are written
// they are played only if they say how to count: else that is leased.
func findWays(o *Options) (ways []way, err error) {
	for _, m := range append([]params.ConsistencyMode{params.ConsistencyDefault}, modes...) {
		set, err := o.Load(rules.Options{Consistency: m})
		if err != nil {
			return nil, err
		}
		q, err := newQuestions(set, o)
		switch {
		case err != nil:
			return nil, err
		case m != params.ConsistencyDefault:
			ways = append(ways, way{m.String(), q})
		case slices.ContainsFunc(q.limits, func(l *weir.Limit) bool { return l.Consistency.Mode != params.ConsistencyDefault }):
			ways = append(ways, way{asWritten, q})
		}
	}
	return ways, nil
}

// playAll plays a slice on one node, and in each way on all nodes, as many plays at a time
// as there are processors: none shares anything with another.
func playAll(ctx context.Context, ways []way, s *slice, o *Options) (e *exact, plays []*fleet, err error) {
	plays, errs := make([]*fleet, len(ways)), make([]error, len(ways)+1)
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	start := func(f func()) {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			f()
		})
	}
	start(func() { e, errs[len(ways)] = playExact(ctx, ways[0].asks, s, o) })
	for i, w := range ways {
		start(func() { plays[i], errs[i] = playFleet(ctx, w.asks, s, o) })
	}
	all.Wait()
	return e, plays, errors.Join(errs...)
}

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/peer"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/shape"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// aims are what Weir must reach in each of shape.All: its processor time as a
// part of the best other limiter's.
var aims = []float64{0.6, 0.6, 1 / 1.4, 1 / 1.4}

// compareDecisions measures one decision of every limiter in every shape.
func compareDecisions(ctx context.Context, s settings) (string, error) {
	subjects := peer.All()
	var args [][]string
	for _, p := range subjects {
		args = append(args, []string{"decisions", p.Name, strconv.Itoa(s.keys)})
	}
	progress("decisions: %d limiters, %d shapes, %d rounds of %s", len(subjects), len(shape.All), s.rounds, s.round)
	results, err := alternate(ctx, s, len(shape.All), args)
	if err != nil {
		return "", err
	}
	if err := checkRefusals(subjects, results); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "One decision on one of %s keys of %d bytes (Zipf: exponent %g), nothing refused. Median (smallest–largest) of %d rounds of %s.\n\n",
		count(s.keys), len(load.HotKey), load.Exponent, s.rounds, s.round)
	fmt.Fprintf(&b, "Processor time, ns per decision, over all processors:\n\n%s\n", decisionTable(subjects, results, samples.cpu, true))
	fmt.Fprintf(&b, "Wall time, ns per decision (with two processors free, half of the above is perfect scaling):\n\n%s\n",
		decisionTable(subjects, results, samples.wall, false))
	fmt.Fprintf(&b, "Allocations per decision, and decisions that came back refused or as an error though the limit had room:\n\n%s",
		allocationTable(subjects, results))
	return b.String(), nil
}

// checkRefusals fails when a limiter was measured refusing: that is cheaper
// than what is compared here. Others than Weir are allowed the few errors that
// they answer under contention; the table shows them.
func checkRefusals(subjects []peer.Subject, results [][]samples) error {
	for i, p := range subjects {
		for j, sh := range shape.All {
			refused, ops := results[i][j].refused()
			if i < len(peer.Own) && refused > 0 || refused > ops/5 {
				return fmt.Errorf("%s, %s: %d of %d decisions were refused, and none should be", p.Name, sh.Name, refused, ops)
			}
		}
	}
	return nil
}

func decisionTable(subjects []peer.Subject, results [][]samples, figure func(samples) measure.Spread, ratios bool) *report.Table {
	head := []string{"limiter"}
	for _, sh := range shape.All {
		head = append(head, sh.Name)
	}
	table := report.NewTable(head...)
	for i, p := range subjects {
		row := []string{p.Name}
		for j := range shape.All {
			row = append(row, figure(results[i][j]).String())
		}
		table.Row(row...)
	}
	if !ratios {
		return table
	}
	for i, p := range peer.Own {
		ratio, aim := []string{"**" + p.Name + " / best other**"}, []string{"aim"}
		for j := range shape.All {
			r := ratioToBest(subjects, results, i, j)
			verdict := "missed"
			if r.Median <= aims[j] {
				verdict = "met"
			}
			ratio = append(ratio, "**"+r.String()+"**")
			aim = append(aim, fmt.Sprintf("≤ %.2f, %s", aims[j], verdict))
		}
		table.Row(ratio...)
		table.Row(aim...)
	}
	return table
}

// ratioToBest returns the processor time of ours, one of peer.Own, in a shape as a
// part of that of the other limiter with the best median, round by round.
func ratioToBest(subjects []peer.Subject, results [][]samples, ours, shape int) measure.Spread {
	best := len(peer.Own)
	for i := best; i < len(subjects); i++ {
		if results[i][shape].cpu().Median < results[best][shape].cpu().Median {
			best = i
		}
	}
	ratios := make([]float64, len(results[ours][shape]))
	for round, r := range results[ours][shape] {
		ratios[round] = r.CPU / results[best][shape][round].CPU
	}
	return measure.SpreadOf(ratios)
}

func allocationTable(subjects []peer.Subject, results [][]samples) *report.Table {
	table := report.NewTable("limiter", "allocations", "refused or error", "share")
	for i, p := range subjects {
		var allocs float64
		var refused, ops int64
		for j := range shape.All {
			allocs = max(allocs, results[i][j].allocs().Median)
			r, n := results[i][j].refused()
			refused, ops = refused+r, ops+n
		}
		table.Row(p.Name, fmt.Sprintf("%.2f", allocs), strconv.FormatInt(refused, 10),
			fmt.Sprintf("%.4f %%", 100*float64(refused)/float64(ops)))
	}
	return table
}

// count writes round numbers of keys as people say them.
func count(n int) string {
	switch {
	case n%1_000_000 == 0:
		return fmt.Sprintf("%d million", n/1_000_000)
	case n%1000 == 0:
		return fmt.Sprintf("%d,000", n/1000)
	}
	return strconv.Itoa(n)
}

// serveDecisions is the worker: a limiter for one hot key and one for many.
func serveDecisions(name string, keys int) error {
	subject, ok := peer.ByName(name)
	if !ok {
		return fmt.Errorf("no limiter %q", name)
	}
	works, done, err := openShapes(subject, load.Zipf(keys))
	if err != nil {
		return err
	}
	defer done()
	return worker.Serve(func(o order) (measure.Round, error) {
		if o.Ops == 0 {
			return measure.Round{}, nil
		}
		return measure.Run(shape.All[o.Shape].Procs, o.Ops, works[o.Shape]), nil
	})
}

// openShapes returns the work of each of shape.All. Shapes of one limit share a
// limiter.
func openShapes(subject peer.Subject, keys *load.Keys) (works []measure.Work, done func(), err error) {
	open := make(map[peer.Limit]peer.Allow)
	var ends []func()
	for _, sh := range shape.All {
		allow, ok := open[sh.Limit()]
		if !ok {
			var end func()
			if allow, end, err = subject.Open(sh.Limit()); err != nil {
				return nil, nil, err
			}
			open[sh.Limit()] = allow
			ends = append(ends, end)
			if err := sh.Fill(allow, keys); err != nil {
				return nil, nil, err
			}
		}
		works = append(works, sh.Work(allow, keys))
	}
	return works, func() {
		for _, end := range ends {
			end()
		}
	}, nil
}

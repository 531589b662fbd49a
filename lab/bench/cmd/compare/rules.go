package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/peer"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/shape"
	"github.com/weirlimit/weir/lab/bench/worker"
	"github.com/weirlimit/weir/store/memory"
)

// ruleShapes are the shapes that Limiter.Decide is measured under.
var ruleShapes = []shape.Shape{shape.All[0], shape.All[2]}

// Where the rules of a case come from.
const (
	fromFile   = "rules file"
	fromLimits = "weir.Limits"
)

// compareRules measures Limiter.Decide under one and two rules.
func compareRules(ctx context.Context, s settings) (string, error) {
	var args [][]string
	for i := range ours.Cases {
		for _, from := range []string{fromFile, fromLimits} {
			args = append(args, []string{"rules", strconv.Itoa(i), from, strconv.Itoa(s.keys)})
		}
	}
	progress("rules: %d cases, %d shapes, %d rounds of %s", len(args), len(ruleShapes), s.rounds, s.round)
	results, err := alternate(ctx, s, len(ruleShapes), args)
	if err != nil {
		return "", err
	}
	head := []string{"Decide, two entries", "rules from"}
	for _, sh := range ruleShapes {
		head = append(head, sh.Name)
	}
	table := report.NewTable(append(head, "aim (hot key)", "allocations")...)
	for i, a := range args {
		index, err := strconv.Atoi(a[1])
		if err != nil {
			return "", err
		}
		c := ours.Cases[index]
		row := []string{c.Name, a[2]}
		var allocs float64
		for j, sh := range ruleShapes {
			if wrong, ops := results[i][j].refused(); wrong > 0 {
				return "", fmt.Errorf("%s, %s: %d of %d decisions were not as they must be", c.Name, sh.Name, wrong, ops)
			}
			row = append(row, results[i][j].cpu().String())
			allocs = max(allocs, results[i][j].allocs().Median)
		}
		aim := ""
		if c.Aim > 0 {
			word := "met"
			if results[i][0].cpu().Median > c.Aim {
				word = "missed"
			}
			aim = fmt.Sprintf("≤ %.0f, %s", c.Aim, word)
		}
		table.Row(append(row, aim, fmt.Sprintf("%.2f", allocs))...)
	}
	return fmt.Sprintf("Processor time, ns per decision of `Limiter.Decide`, request from the limiter's pool and back included; Zipf over %s users. Median (smallest–largest) of %d rounds of %s.\n\n%s",
		count(s.keys), s.rounds, s.round, table), nil
}

// serveRules is the worker: one case, with a limiter for each shape.
func serveRules(c ours.Case, from string, keys int) error {
	population := load.Zipf(keys)
	var works []measure.Work
	for _, sh := range ruleShapes {
		limiter, done, err := openCase(c, from, sh.Limit())
		if err != nil {
			return err
		}
		defer done()
		if err := exhaust(c, limiter, sh, population); err != nil {
			return err
		}
		ask := c.Ask(limiter)
		if err := sh.Fill(ask, population); err != nil {
			return err
		}
		works = append(works, sh.Work(ask, population))
	}
	return worker.Serve(func(o order) (measure.Round, error) {
		if o.Ops == 0 {
			return measure.Round{}, nil
		}
		return measure.Run(1, o.Ops, works[o.Shape]), nil
	})
}

func exhaust(c ours.Case, limiter *weir.Limiter, sh shape.Shape, keys *load.Keys) error {
	if !sh.Zipf {
		return c.Exhaust(limiter, load.HotKey)
	}
	for _, key := range keys.All {
		if err := c.Exhaust(limiter, key); err != nil {
			return err
		}
	}
	return nil
}

func openCase(c ours.Case, from string, wide peer.Limit) (*weir.Limiter, func(), error) {
	if from == fromLimits {
		return ours.Open(c.Limits(wide.Every, wide.Burst), memory.Options{})
	}
	set, err := c.Set(wide.Every, wide.Burst)
	if err != nil {
		return nil, nil, err
	}
	return ours.Open(set, memory.Options{})
}

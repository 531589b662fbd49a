package main

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
)

const (
	// aimMiddleware is the most processor time that the middleware adds, in
	// nanoseconds.
	aimMiddleware = 1000
	// aimMiddlewareAllocs is the most allocations that it adds.
	aimMiddlewareAllocs = 2
	// allocsNoise is what the figures of allocations may be above: a garbage
	// collection empties pools, which are filled anew.
	allocsNoise = 0.005
	// liveHeap is what else lives in the process, in bytes, which the garbage
	// collector goes through each time.
	liveHeap = 64 << 20
)

// inbound is one thing that is done for a request, the handler alone first.
type inbound struct {
	name string
	// limits of the middleware, for what has none: work.
	limits weir.Limits
	open   func() (measure.Work, error)
	// aim is the most that it takes, or for the middleware adds, in nanoseconds;
	// none for 0. allocs is the same of allocations.
	aim, allocs float64
}

func inbounds() []inbound {
	limit := func() *weir.Limit { return weir.PerSecond(1<<40, algorithm.TokenBucket) }
	hour := weir.PerHour(1<<50, algorithm.FixedWindow)
	return []inbound{
		{name: "handler alone"},
		{name: "middleware, one limit", limits: weir.Limits{limit()}, aim: aimMiddleware, allocs: aimMiddlewareAllocs},
		{name: "middleware, two limits", limits: weir.Limits{limit(), hour}, allocs: aimMiddlewareAllocs},
		{name: "canonical path", open: canonicalWork},
		{name: "client address, of the connection", open: func() (measure.Work, error) { return addressWork(identity.ProxyOptions{}, "192.0.2.1") }},
		{name: "client address, behind two proxies", open: func() (measure.Work, error) {
			return addressWork(identity.ProxyOptions{
				Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.0.0.0/8")},
				Header:  "X-Forwarded-For",
			}, "203.0.113.7")
		}},
	}
}

// compareMiddleware measures the middleware, and what it does for every
// request.
func compareMiddleware(ctx context.Context, s settings) (string, error) {
	all := inbounds()
	args := make([][]string, len(all))
	for i := range all {
		args[i] = []string{"middleware", strconv.Itoa(i)}
	}
	// A round must see several garbage collections.
	s.round = s.http / 2
	progress("middleware: %d cases, %d rounds of %s", len(all), s.rounds, s.round)
	results, err := alternate(ctx, s, 1, args)
	if err != nil {
		return "", err
	}
	table := report.NewTable("for each request", "CPU, ns", "added to the handler, ns", "aim", "allocations added", "aim")
	for i, c := range all {
		got := results[i][0]
		if wrong, ops := got.refused(); wrong > 0 {
			return "", fmt.Errorf("%s: %d of %d answers were not as they must be", c.name, wrong, ops)
		}
		row := []string{c.name, got.cpu().String()}
		if i == 0 {
			table.Row(row...)
			continue
		}
		allocs := got.allocs().Median
		if c.limits == nil { // it stands alone
			row = append(row, "", "")
		} else {
			more := make([]float64, len(got))
			for round := range more {
				more[round] = got[round].CPU - results[0][0][round].CPU
			}
			added, aim := measure.SpreadOf(more), ""
			if c.aim > 0 {
				aim = atMost(added.Median, c.aim, "%.0f")
			}
			row = append(row, added.String(), aim)
			allocs -= results[0][0].allocs().Median
		}
		aim := "0, met"
		switch {
		case c.allocs > 0:
			aim = atMost(allocs-allocsNoise, c.allocs, "%.0f")
		case allocs > allocsNoise:
			aim = "0, missed"
		}
		table.Row(append(row, fmt.Sprintf("%.2f", allocs), aim)...)
	}
	return fmt.Sprintf("The middleware of `middleware/http` with its defaults, limits by client address, around a handler that sets one field and a status; every request allowed, every answer with RateLimit, RateLimit-Policy, X-RateLimit-Limit and X-RateLimit-Remaining. Processor time of the process on one processor, garbage collection included: GOGC as it is by default, beside %d MiB of live heap in objects of 64 bytes that point to each other. What identity does stands below: the path `%s` made canonical, the address of the client found, with taking the memory for it and giving it back. Median (smallest–largest) of %d rounds of %s.\n\n%s",
		liveHeap>>20, canonicalPath, s.rounds, s.round, table), nil
}

// canonicalPath is canonical already, as most are.
const canonicalPath = "/api/v1/users/42"

func canonicalWork() (measure.Work, error) {
	return func(_ int, n int64) (refused int64) {
		for range n {
			if p, err := identity.Canonical(canonicalPath, identity.PathOptions{}); err != nil || len(p) != len(canonicalPath) {
				refused++
			}
		}
		return refused
	}, nil
}

func addressWork(proxies identity.ProxyOptions, client string) (measure.Work, error) {
	resolver, err := identity.New(identity.Options{Proxies: proxies})
	if err != nil {
		return nil, err
	}
	want, err := netip.ParseAddr(client)
	if err != nil {
		return nil, err
	}
	r := ours.Request()
	r.Header["X-Forwarded-For"] = []string{"203.0.113.7, 10.1.2.3"}
	return func(_ int, n int64) (refused int64) {
		for range n {
			c := resolver.Acquire()
			c.SetHTTP(r)
			if c.Address() != want {
				refused++
			}
			c.Release()
		}
		return refused
	}, nil
}

// node is an object of the live heap.
type node struct {
	left, right *node
	_           [48]byte
}

// ballast returns a tree of about size bytes: the garbage collector goes through
// a list one by one, through a tree as it does through a program's own.
func ballast(size int) *node {
	size -= int(unsafe.Sizeof(node{}))
	if size < 0 {
		return nil
	}
	return &node{left: ballast(size / 2), right: ballast(size / 2)}
}

// serveInbound is the worker.
func serveInbound(index int) error {
	all := inbounds()
	if index < 0 || index >= len(all) {
		return fmt.Errorf("no case %d of the middleware", index)
	}
	work, done, err := all[index].start()
	if err != nil {
		return err
	}
	defer done()
	live := ballast(liveHeap)
	defer runtime.KeepAlive(live)
	return worker.Serve(func(o order) (measure.Round, error) {
		if o.Ops == 0 {
			return measure.Round{}, nil
		}
		return measure.Run(1, o.Ops, work), nil
	})
}

func (c inbound) start() (measure.Work, func(), error) {
	if c.open != nil {
		work, err := c.open()
		return work, func() {}, err
	}
	h, done, err := ours.Behind(c.limits)
	if err != nil {
		return nil, nil, err
	}
	return ours.Serving(h, len(c.limits) > 0), done, nil
}

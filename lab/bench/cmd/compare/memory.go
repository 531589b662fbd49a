package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/lab/bench/hold"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/peer"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// Aims of the memory part besides heap per key: from how many keys on they hold,
// milliseconds of a forced garbage collection, first touch of 9,999 keys in
// 10,000.
const (
	aimKeys       = 1_000_000 // below, what a table begins with weighs too much
	aimGC         = 10.0
	aimFirstTouch = 150 * time.Microsecond
)

// compareMemory fills every limiter with keys, each in a process of its own.
func compareMemory(ctx context.Context, s settings) (string, error) {
	var b strings.Builder
	b.WriteString("Heap: live heap after two garbage collections, above that of the empty process; resident: the same of the process's memory, with what is free given back; both with the limiter itself. Keys of 13 bytes, made for the call alone. GC: wall time of a forced garbage collection, median (smallest–largest) of 3. First touch: each key's first decision while the table grows, timed one by one, with the clock's own 50 ns; the rarest of them show the process losing its processor where others use it too.\n")
	last := make(map[string]hold.Held)
	for _, n := range s.sizes {
		table, err := memoryTable(ctx, s, n, last)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n%s keys:\n\n%s", count(n), table)
	}
	return b.String(), nil
}

func memoryTable(ctx context.Context, s settings, n int, last map[string]hold.Held) (*report.Table, error) {
	table := report.NewTable("limiter", "heap, B/key", "aim", "resident, B/key", "GC, ms", "p50", "p99", "p99.9", "p99.99", "longest", "CPU ns/key")
	names := make([]string, 0, len(ours.Kinds)+len(peer.Others))
	aims := make(map[string]float64)
	for _, k := range ours.Kinds {
		names = append(names, k.Name)
		aims[k.Name] = k.Aim
	}
	for _, p := range peer.Others {
		names = append(names, p.Name)
	}
	for _, name := range names {
		if context.Cause(ctx) == errTime {
			table.Row(name, "not measured: the time was over")
			continue
		}
		if need := last[name].Resident * float64(n) * 1.5; need > float64(measure.FreeMemory()) {
			table.Row(name, "not enough memory on this machine")
			continue
		}
		progress("memory: %s, %s keys", name, count(n))
		h, err := hold.Measure(ctx, name, n, s.each)
		switch {
		case context.Cause(ctx) == errTime:
			table.Row(name, "not measured: the time was over")
			continue
		case errors.Is(err, hold.ErrSlow):
			table.Row(name, fmt.Sprintf("did not finish in %s", s.each))
			continue
		case err != nil:
			return nil, err
		}
		last[name] = h
		table.Row(heldRow(name, h, aims[name])...)
	}
	return table, nil
}

func heldRow(name string, h hold.Held, aim float64) []string {
	row := []string{name, measure.Number(h.Heap), "", fmt.Sprintf("%.0f", h.Resident), h.GC.String(),
		micros(h.P50), micros(h.P99), micros(h.P999), micros(h.P9999), micros(h.Longest), fmt.Sprintf("%.0f", h.CPU)}
	if aim > 0 && h.Keys >= aimKeys {
		var failures []string
		if h.Heap > aim {
			failures = append(failures, "heap")
		}
		if h.GC.Median > aimGC {
			failures = append(failures, "GC")
		}
		if h.P9999 > aimFirstTouch {
			failures = append(failures, "p99.99")
		}
		row[2] = fmt.Sprintf("≤ %.0f, %s", aim, verdict(failures))
	}
	return row
}

// verdict says whether aims were met, and which were not.
func verdict(failures []string) string {
	if len(failures) == 0 {
		return "met"
	}
	return "missed: " + strings.Join(failures, ", ")
}

// micros writes a duration in microseconds.
func micros(d time.Duration) string {
	return measure.Number(float64(d)/float64(time.Microsecond)) + " µs"
}

// serveHold is the worker: it fills one limiter.
func serveHold(name string, keys int) error {
	return worker.Serve(func(hold.Question) (hold.Held, error) {
		h, err := hold.Fill(func() (peer.Allow, func(), error) { return openHold(name) }, keys)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return h, err
	})
}

// openHold opens another limiter, or Weir with the kind of state of that name.
func openHold(name string) (allow peer.Allow, done func(), err error) {
	if p, ok := peer.ByName(name); ok {
		return p.Open(hold.Limit)
	}
	return ours.Hold(name)
}

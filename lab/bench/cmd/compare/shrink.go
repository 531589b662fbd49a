package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// crowd asks the shrink worker: so many keys come once, then a few go on.
type crowd struct {
	Keys    int
	Lives   time.Duration // of a key after its only unit
	Longest time.Duration // to wait for the table to shrink
}

// ebbed is the heap, in bytes above that of the empty process, after a crowd.
type ebbed struct {
	Peak int64
	// Tenth and Last are when, counted from the expiry of the last key, the
	// heap was down to a tenth of the peak, and at the last look. Tenth is
	// negative if it never was.
	Tenth, Last time.Duration
	Heap        int64
}

// compareShrink shows how Weir gives memory back after a peak.
func compareShrink(ctx context.Context, s settings) (string, error) {
	w, err := worker.Start(ctx, "worker", "shrink")
	if err != nil {
		return "", err
	}
	defer w.Close()
	progress("shrink: %s keys, then at most %s", count(s.crowd), s.shrink)
	q := crowd{Keys: s.crowd, Lives: 20 * time.Second, Longest: s.shrink}
	if s.crowd < 1_000_000 {
		q.Lives = 2 * time.Second
	}
	var e ebbed
	if err := w.Ask(q, &e); err != nil {
		return "", err
	}
	table := report.NewTable("after a peak", "heap")
	table.Row(fmt.Sprintf("%s keys alive", count(s.crowd)), mebibytes(e.Peak))
	if e.Tenth >= 0 {
		table.Row(fmt.Sprintf("%.0f s after the last of them expired", e.Tenth.Seconds()), "a tenth of that")
	}
	table.Row(fmt.Sprintf("%.0f s after", e.Last.Seconds()), mebibytes(e.Heap))
	return fmt.Sprintf("%s keys come once and expire %s later; ten others go on. Looked at every second.\n\n%s",
		count(s.crowd), q.Lives, table), nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// serveShrink is the worker.
func serveShrink() error {
	return worker.Serve(func(q crowd) (ebbed, error) {
		empty := measure.Heap()
		limiter, done, err := ours.Open(weir.Limits{
			{Algorithm: algorithm.TokenBucket, Count: 1, Period: q.Lives, Burst: 1_000_000},
		}, ours.Roomy())
		if err != nil {
			return ebbed{}, err
		}
		defer done()
		allow := ours.Allow(limiter)
		text := make([]byte, 0, 32)
		for i := range q.Keys {
			text = load.AppendKey(text[:0], i)
			if !allow(string(text)) {
				return ebbed{}, fmt.Errorf("the first request of key %s was refused", text)
			}
		}
		expired := time.Now().Add(q.Lives)
		e := ebbed{Peak: measure.Heap() - empty, Tenth: -1}
		for now := range time.Tick(time.Second) {
			for i := range 10 {
				if !allow(load.Key(i)) {
					return ebbed{}, fmt.Errorf("a request of key %s was refused", load.Key(i))
				}
			}
			e.Heap, e.Last = measure.Heap()-empty, now.Sub(expired)
			if e.Tenth < 0 && e.Heap <= e.Peak/10 {
				e.Tenth = max(e.Last, 0)
			}
			// A while more, to see where it comes to rest.
			if e.Last > q.Longest || e.Tenth >= 0 && e.Last > e.Tenth+5*time.Second {
				break
			}
		}
		return e, nil
	})
}

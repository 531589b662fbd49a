// Package hold fills a limiter with keys and measures what it takes to have
// them.
package hold

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/peer"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// Limit keeps a key alive for half an hour after its first unit.
var Limit = peer.Limit{Burst: 100, Every: 30 * time.Minute}

// Held is what a number of keys costs.
type Held struct {
	Keys int
	// Heap and Resident are bytes per key, above those of the empty process.
	Heap, Resident float64
	// GC is the wall time of a forced garbage collection, in milliseconds.
	GC measure.Spread
	// The first touch of every key, as quantiles, in nanoseconds.
	P50, P99, P999, P9999, Longest time.Duration
	// CPU is processor time per first touch, in nanoseconds.
	CPU float64
}

// Fill opens a limiter, gives it n keys and returns what they cost, the limiter
// itself included. Each key's text is made for the call alone, so that only what
// the limiter keeps is counted. The limiter must admit every key.
func Fill(open func() (allow peer.Allow, done func(), err error), n int) (Held, error) {
	latency := new(measure.Histogram)
	text := make([]byte, 0, 32)
	heap, resident := measure.Heap(), measure.Resident()
	allow, done, err := open()
	if err != nil {
		return Held{}, err
	}
	defer done()
	cpu := measure.CPU()
	for i := range n {
		text = load.AppendKey(text[:0], i)
		key := string(text)
		start := time.Now()
		ok := allow(key)
		latency.Add(time.Since(start))
		if !ok {
			return Held{}, fmt.Errorf("the first request of key %s was refused", key)
		}
	}
	h := Held{
		Keys: n, CPU: float64(measure.CPU()-cpu) / float64(n),
		P50: latency.Quantile(0.5), P99: latency.Quantile(0.99), P999: latency.Quantile(0.999),
		P9999: latency.Quantile(0.9999), Longest: latency.Longest,
	}
	h.Heap = float64(measure.Heap()-heap) / float64(n)
	h.GC = measure.ForcedGC(3)
	h.Resident = float64(measure.Resident()-resident) / float64(n)
	runtime.KeepAlive(allow)
	return h, nil
}

// Question asks a worker for its one measurement.
type Question struct{}

// ErrSlow: the limiter was not filled in the time it had.
var ErrSlow = errors.New("the time for this limiter is over")

// Measure starts this program again as "worker hold NAME KEYS" and returns its
// answer, or ErrSlow after longest.
func Measure(ctx context.Context, name string, keys int, longest time.Duration) (Held, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, ErrSlow)
	defer cancel()
	w, err := worker.Start(ctx, "worker", "hold", name, strconv.Itoa(keys))
	if err != nil {
		return Held{}, err
	}
	defer w.Close()
	var h Held
	err = w.Ask(Question{}, &h)
	return h, err
}

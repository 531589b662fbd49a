package report

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Latency says how long decisions took: the matching of the rules and the store,
// without the front end. A request counts under each limit that it met.
type Latency struct {
	// Measured is how many decisions it is of, Every how many there are for each one
	// whose time was taken.
	Measured int64 `json:"measured"`
	Every    int64 `json:"sample_one_in"`
	// Percentiles in microseconds: at most an eighth too high, never too low. MaxUS
	// is of the slowest that was measured.
	P50US float64 `json:"p50_us"`
	P95US float64 `json:"p95_us"`
	P99US float64 `json:"p99_us"`
	MaxUS float64 `json:"max_us"`
}

// LatencySeries answers GET /v1/analytics/latency.
type LatencySeries struct {
	Coverage query.Coverage `json:"coverage"`
	// Latency is of the whole range. Nil where no decision was timed.
	Latency *Latency `json:"latency,omitempty"`
	// At are the beginnings of the intervals. Of each there is how many decisions were
	// timed, and percentiles as in Latency, -1 where none was.
	At       []time.Time `json:"at"`
	Measured []int64     `json:"measured"`
	P50US    []float64   `json:"p50_us"`
	P99US    []float64   `json:"p99_us"`
}

// latencyOf returns the percentiles, nil of nothing.
func latencyOf(t *rows.Timing) *Latency {
	total := t.Times.SumCounts()
	if total == 0 {
		return nil
	}
	at := func(percent int64) float64 { return t.Times.FindPercentile(percent, total) / 1000 }
	return &Latency{Measured: total, Every: t.Every, P50US: at(50), P95US: at(95), P99US: at(99), MaxUS: at(100)}
}

// readTiming returns what the range took.
func readTiming(r *query.Reader) *rows.Timing {
	all := &rows.Timing{}
	for _, p := range query.DivideRange(r.From, r.To, r.Grain, rows.Day) {
		r.EachPacked(rows.LatenciesTable, p, func(_ int64, packed []byte) error { return all.MergeRow(packed) })
	}
	return all
}

func reportLatency(r *query.Reader) *LatencySeries {
	n := r.CountSteps()
	all, by := &rows.Timing{}, map[int]*rows.Timing{}
	r.EachPacked(rows.LatenciesTable, r.WholeRange(), func(at int64, packed []byte) error {
		p := r.FindStep(at)
		if err := rows.EnsureZero(by, p).MergeRow(packed); err != nil {
			return err
		}
		return all.MergeRow(packed)
	})
	out := &LatencySeries{Latency: latencyOf(all), At: r.ListSteps(), Measured: make([]int64, n), P50US: make([]float64, n), P99US: make([]float64, n)}
	for p := range n {
		out.P50US[p], out.P99US[p] = -1, -1
		if t := by[p]; t != nil {
			if l := latencyOf(t); l != nil {
				out.Measured[p], out.P50US[p], out.P99US[p] = l.Measured, l.P50US, l.P99US
			}
		}
	}
	out.Coverage = r.ReadCoverage()
	return out
}

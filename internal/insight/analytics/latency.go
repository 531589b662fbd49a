package analytics

import (
	"encoding/binary"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
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
	Coverage Coverage `json:"coverage"`
	// Latency is of the whole range. Nil where no decision was timed.
	Latency *Latency `json:"latency,omitempty"`
	// At are the beginnings of the intervals. Of each there is how many decisions were
	// timed, and percentiles as in Latency, -1 where none was.
	At       []time.Time `json:"at"`
	Measured []int64     `json:"measured"`
	P50US    []float64   `json:"p50_us"`
	P99US    []float64   `json:"p99_us"`
}

// timing is how many decisions took how long.
type timing struct {
	every int64
	n     histogram
}

// add takes in what a roll-up tells.
func (t *timing) add(l *event.Latency) {
	t.every = max(t.every, figureOf(l.Every))
	t.n.add(l.Counts)
}

// pack returns it as bytes: a varint of every, then the histogram.
func (t *timing) pack() []byte {
	return t.n.appendTo(binary.AppendUvarint(nil, uint64(t.every)))
}

// merge takes in what pack returned.
func (t *timing) merge(packed []byte) error {
	if len(packed) == 0 {
		return nil
	}
	v := varints(packed)
	every := v.next()
	if every < 0 {
		return errPacked
	}
	t.every = max(t.every, every)
	return t.n.merge(&v)
}

// latency returns the percentiles, nil of nothing.
func (t *timing) latency() *Latency {
	total := t.n.total()
	if total == 0 {
		return nil
	}
	at := func(percent int64) float64 { return t.n.percentile(percent, total) / 1000 }
	return &Latency{Measured: total, Every: t.every, P50US: at(50), P95US: at(95), P99US: at(99), MaxUS: at(100)}
}

// timing returns what the range took.
func (r *reader) timing() *timing {
	all := &timing{}
	for _, p := range divide(r.from, r.to, r.grain, Day) {
		r.packedRows(latenciesTable, p, func(_ int64, packed []byte) error { return all.merge(packed) })
	}
	return all
}

func reportLatency(r *reader) *LatencySeries {
	n := r.points()
	all, by := &timing{}, map[int]*timing{}
	r.packedRows(latenciesTable, part{r.grain, r.from, r.to}, func(at int64, packed []byte) error {
		p := r.point(at)
		if err := of(by, p).merge(packed); err != nil {
			return err
		}
		return all.merge(packed)
	})
	out := &LatencySeries{Latency: all.latency(), At: r.at(), Measured: make([]int64, n), P50US: make([]float64, n), P99US: make([]float64, n)}
	for p := range n {
		out.P50US[p], out.P99US[p] = -1, -1
		if t := by[p]; t != nil {
			if l := t.latency(); l != nil {
				out.Measured[p], out.P50US[p], out.P99US[p] = l.Measured, l.P50US, l.P99US
			}
		}
	}
	out.Coverage = r.coverage()
	return out
}

package analytics

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weirlimit/weir/event"
)

// Latency says how long decisions took: the matching of the rules and the store,
// without the front end. A request counts under each limit that it met.
type Latency struct {
	// Measured is how many decisions it is of, Every how many there are for each one
	// whose time was taken.
	Measured int64 `json:"measured"`
	Every    int64 `json:"every"`
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
	// At are the beginnings of the steps. Of each there is how many decisions were
	// timed, and percentiles as in Latency, -1 where none was.
	At       []time.Time `json:"at"`
	Measured []int64     `json:"measured"`
	P50US    []float64   `json:"p50_us"`
	P99US    []float64   `json:"p99_us"`
}

// timing is how many decisions took how long.
type timing struct {
	every int64
	n     [event.LatencyBuckets]int64
}

// add takes in what a roll-up tells.
func (t *timing) add(l *event.Latency) {
	t.every = max(t.every, figureOf(l.Every))
	for _, c := range l.Counts {
		if c.Bucket >= 0 && c.Bucket < len(t.n) {
			t.n[c.Bucket] += figure(c.Count)
		}
	}
}

// pack returns it as bytes: varints of every, then of each bucket that is not empty
// how far it is from the one before and its number.
func (t *timing) pack() []byte {
	out := binary.AppendUvarint(nil, uint64(t.every))
	last := -1
	for i, n := range t.n {
		if n > 0 {
			out = binary.AppendUvarint(out, uint64(i-last))
			out = binary.AppendUvarint(out, uint64(n))
			last = i
		}
	}
	return out
}

var errTiming = errors.New("latencies cannot be read: the row was changed by others")

// merge takes in what pack returned.
func (t *timing) merge(packed []byte) error {
	if len(packed) == 0 {
		return nil
	}
	next := func() int64 {
		v, n := binary.Uvarint(packed)
		if n <= 0 || v > 1<<62 {
			return -1
		}
		packed = packed[n:]
		return int64(v)
	}
	every := next()
	if every < 0 {
		return errTiming
	}
	t.every = max(t.every, every)
	for at := int64(-1); len(packed) > 0; {
		gap, n := next(), next()
		if gap < 1 || n < 0 || gap >= int64(len(t.n))-at {
			return errTiming
		}
		at += gap
		t.n[at] += n
	}
	return nil
}

// latency returns the percentiles, nil of nothing.
func (t *timing) latency() *Latency {
	total := int64(0)
	for _, n := range t.n {
		total += n
	}
	if total == 0 {
		return nil
	}
	// at returns what so many in a hundred were below.
	at := func(percent int64) float64 {
		left := (total*percent + 99) / 100
		for i, n := range t.n {
			if left -= n; left <= 0 {
				return float64(event.LatencyBound(i).Nanoseconds()) / 1000
			}
		}
		return 0
	}
	return &Latency{Measured: total, Every: t.every, P50US: at(50), P95US: at(95), P99US: at(99), MaxUS: at(100)}
}

// timings calls each with the rows of a part of the range.
func (r *reader) timings(p part, each func(at int64, packed []byte) error) error {
	w := &where{}
	w.and("grain = ? AND at >= ? AND at < ?", int64(p.grain), p.from, p.to)
	r.limitsOf(w, "limit_id")
	w.in("node", r.nodes, false)
	w.in("region", r.regions, false)
	return query(r.tx, func(row Row) error { return each(row.Int(0), row.Bytes(1)) }, `SELECT at, bits FROM latencies`+w.text, w.args...)
}

// timing returns what the range took.
func (r *reader) timing() (*timing, error) {
	all := &timing{}
	for _, p := range divide(r.from, r.to, r.grain, Day) {
		if err := r.timings(p, func(_ int64, packed []byte) error { return all.merge(packed) }); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *reader) latency() (*LatencySeries, error) {
	n := r.points()
	all, by := &timing{}, map[int]*timing{}
	err := r.timings(part{r.grain, r.from, r.to}, func(at int64, packed []byte) error {
		p := r.point(at)
		if by[p] == nil {
			by[p] = &timing{}
		}
		if err := by[p].merge(packed); err != nil {
			return err
		}
		return all.merge(packed)
	})
	if err != nil {
		return nil, err
	}
	out := &LatencySeries{Latency: all.latency(), At: r.at(), Measured: make([]int64, n), P50US: make([]float64, n), P99US: make([]float64, n)}
	for p := range n {
		out.P50US[p], out.P99US[p] = -1, -1
		if t := by[p]; t != nil {
			if l := t.latency(); l != nil {
				out.Measured[p], out.P50US[p], out.P99US[p] = l.Measured, l.P50US, l.P99US
			}
		}
	}
	out.Coverage, err = r.coverage()
	return out, err
}

func (c *change) writeLatencies(tx Tx, ids limitIDs) error {
	rows := slices.SortedFunc(maps.Keys(c.latencies), func(a, b latencyRow) int {
		return cmp.Or(cmp.Compare(a.grain, b.grain), cmp.Compare(a.at, b.at), cmp.Compare(ids[a.limit], ids[b.limit]),
			cmp.Compare(a.where.node, b.where.node), cmp.Compare(a.where.region, b.where.region))
	})
	args := make([][]any, len(rows))
	for i, r := range rows {
		args[i] = []any{int64(r.grain), r.at, ids[r.limit], r.where.node, r.where.region, []byte{}}
	}
	// What is there is locked and read in one statement, as of sketches.
	err := tx.Each(`INSERT INTO latencies (grain, at, limit_id, node, region, bits) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (grain, at, limit_id, node, region) DO UPDATE SET bits = latencies.bits RETURNING bits`, args, func(i int, r Row) error {
		return c.latencies[rows[i]].merge(r.Bytes(0))
	})
	if err != nil {
		return err
	}
	for i, r := range rows {
		args[i] = []any{c.latencies[r].pack(), int64(r.grain), r.at, ids[r.limit], r.where.node, r.where.region}
	}
	return tx.Each(`UPDATE latencies SET bits = $1 WHERE grain = $2 AND at = $3 AND limit_id = $4 AND node = $5 AND region = $6`, args, nil)
}

// latencyPoint is a step of an answer about latencies.
type latencyPoint struct {
	At       time.Time `json:"at"`
	Measured int64     `json:"measured"`
	P50US    float64   `json:"p50_us"`
	P99US    float64   `json:"p99_us"`
}

func latencyTable(l *LatencySeries) []latencyPoint {
	out := []latencyPoint{}
	for i, at := range l.At {
		out = append(out, latencyPoint{at, l.Measured[i], l.P50US[i], l.P99US[i]})
	}
	return out
}

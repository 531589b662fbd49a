package event

import (
	"math"
	"time"

	"github.com/weirlimit/weir"
)

// merger puts sightings together: one record for each client, limit and outcome.
type merger struct {
	max     int
	records map[cell]*record
	// patience is until when a client was told to wait, by the store's clock, in
	// two generations: what has not been seen since the turn before last is
	// forgotten.
	patience [2]map[client]int64
}

// client is a key under a limit. Keys of one hash are taken for one: at a million
// clients the chance that two are is three in a hundred million.
type client struct {
	counters *weir.Counters
	hash     uint64
}

// cell is what makes one record. The hash of merged clients is zero.
type cell struct {
	client
	outcome weir.Outcome
	merged  bool
}

// record is a Record before it has words.
type record struct {
	cell
	limit        *weir.Limit
	source       *weir.Limit
	key          string
	first, last  int64
	count, cost  int64
	decisive     int64
	early        int64
	least        int64
	retry, delay int64
	degraded     bool
	// sampled: the key belongs to the sample.
	sampled bool
	// cut: the key is told as a hash, whatever else is.
	cut bool
}

func newMerger(max int) *merger {
	m := &merger{max: max}
	m.take()
	m.turn()
	m.turn()
	return m
}

// add puts a sighting into its record, and returns it. name tells the key of a new
// one, sampled whether its key belongs to the sample.
func (m *merger) add(s *sighting, name func(*sighting) string, sampled bool) *record {
	c := client{s.limit.Counters(), s.hash}
	at := cell{client: c, outcome: s.outcome}
	r := m.records[at]
	if r == nil {
		key := ""
		if len(m.records) >= m.max {
			at.merged, at.hash = true, 0
			r = m.records[at]
		} else {
			key = name(s)
		}
		if r == nil {
			r = &record{cell: at, limit: s.limit, key: key, first: s.now, least: s.remaining, sampled: sampled, cut: s.cut}
			m.records[at] = r
		}
	}
	r.first, r.last = min(r.first, s.now), max(r.last, s.now)
	r.count++
	r.cost += s.cost
	r.least = min(r.least, s.remaining)
	if s.decided {
		r.decisive++
	}
	if r.retry != never {
		r.retry = max(r.retry, s.retry)
	}
	if s.retry == never {
		r.retry = never
	}
	r.delay = max(r.delay, s.delay)
	r.source = s.source
	r.degraded = r.degraded || s.source != nil && s.source.Guarantee().Degraded
	if m.early(c, s) {
		r.early++
	}
	return r
}

// addHot puts n decisions that are all alike into their record. Whoever is refused
// hundreds of times a second waits for nothing: all of them came early.
func (m *merger) addHot(c *hotCell, n, now int64) {
	r := m.records[c.cell]
	if r == nil {
		was := c.record
		r = &was
		r.first, r.count, r.cost, r.decisive, r.early = now, 0, 0, 0, 0
		m.records[c.cell] = r
	}
	r.last = max(r.last, now)
	r.count += n
	r.cost += n * c.cost
	if c.decisive > 0 {
		r.decisive += n
	}
	if c.outcome == weir.Refused {
		r.early += n
	}
}

// early reports whether a client came before it was told to, and remembers what
// it is told now.
func (m *merger) early(c client, s *sighting) bool {
	until, known := m.patience[0][c]
	if !known {
		until = m.patience[1][c]
	}
	early := s.now < until
	if s.outcome == weir.Refused {
		m.patience[0][c] = math.MaxInt64
		if s.retry != never {
			m.patience[0][c] = s.now + s.retry
		}
		if len(m.patience[0]) >= maxPatience {
			m.turn()
		}
	}
	return early
}

// maxPatience is how many clients are remembered in a generation.
const maxPatience = 1 << 16

// turn begins a new generation of who was told to wait.
func (m *merger) turn() {
	m.patience[0], m.patience[1] = make(map[client]int64), m.patience[0]
}

// take returns the records and begins anew.
func (m *merger) take() map[cell]*record {
	records := m.records
	m.records = make(map[cell]*record)
	return records
}

// never is weir.Never in a sighting.
const never = -1

// tell returns the record in words.
func (r *record) tell(w words, plain bool, sample int64) *Record {
	out := &Record{
		First: time.UnixMicro(r.first).UTC(), Last: time.UnixMicro(r.last).UTC(),
		Place: w.place(r.limit),
		Key:   r.key, Plain: plain && !r.merged, Merged: r.merged,
		Outcome: r.outcome.String(), Count: r.count, Decisive: r.decisive, Cost: r.cost, Early: r.early,
		Least: r.least, RetryMS: r.retry, DelayMS: ceilMS(r.delay),
		Source: weir.FromStore.String(), Degraded: r.degraded, Every: 1,
	}
	if r.retry != never {
		out.RetryMS = ceilMS(r.retry)
	}
	if r.source != nil {
		out.Source = r.source.Guarantee().Source.String()
	}
	if r.outcome == weir.Allowed {
		if out.Watched = !r.sampled; r.sampled {
			out.Every = sample
		}
	}
	return out
}

func ceilMS(us int64) int64 { return (us + 999) / 1000 }

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
	// arrivals is how many more the records may have together.
	arrivals int
	// retryAt is until when a client was told to wait, by the store's clock, in
	// two generations: what has not been seen since the turn before last is
	// forgotten.
	retryAt [2]map[client]int64
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
	// about, answers and arrivals are there if something is known.
	about    *about
	answers  *answers
	arrivals []arrival
	// arrivalsCut: some are missing, or would be if the key were of the sample.
	arrivalsCut bool
}

func newMerger(max int) *merger {
	m := &merger{max: max}
	m.takeRecords()
	m.turnGeneration()
	m.turnGeneration()
	return m
}

// addSighting puts a sighting into its record, and returns it. name tells the key of a new
// one, sampled whether its key belongs to the sample.
func (m *merger) addSighting(s *sighting, name func(*sighting) string, sampled bool) *record {
	r := m.recordOf(s, name, sampled)
	if s.isResponse {
		r.countAnswer(s)
		return r
	}
	if r.count == 0 {
		r.first, r.last, r.least = s.now, s.now, s.remaining
	}
	r.first, r.last = min(r.first, s.now), max(r.last, s.now)
	r.count++
	r.cost += s.cost
	r.least = min(r.least, s.remaining)
	m.recordArrival(r, s)
	if s.facts.known {
		if r.about == nil {
			r.about = new(about)
		}
		r.about.addFacts(&s.facts)
	}
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
	if m.cameEarly(client{s.limit.Counters(), s.hash}, s) {
		r.early++
	}
	return r
}

// recordOf returns the record of a sighting, a new one if there is none.
func (m *merger) recordOf(s *sighting, name func(*sighting) string, sampled bool) *record {
	at := cell{client: client{s.limit.Counters(), s.hash}, outcome: s.outcome}
	r := m.records[at]
	if r != nil {
		return r
	}
	key := ""
	if len(m.records) >= m.max {
		at.merged, at.hash = true, 0
		r = m.records[at]
	} else {
		key = name(s)
	}
	if r == nil {
		r = &record{cell: at, limit: s.limit, key: key, first: s.now, last: s.now, sampled: sampled, cut: s.cut}
		m.records[at] = r
	}
	return r
}

// addFast puts n decisions that are all alike into their record. Whoever is refused
// hundreds of times a second waits for nothing: all of them came early.
func (m *merger) addFast(c *fastCell, n, now int64) {
	r := m.records[c.cell]
	if r == nil {
		was := c.record
		r = &was
		r.first, r.count, r.cost, r.decisive, r.early = now, 0, 0, 0, 0
		m.records[c.cell] = r
	}
	r.last = max(r.last, now)
	r.arrivalsCut = true
	r.count += n
	r.cost += n * c.cost
	if c.decisive > 0 {
		r.decisive += n
	}
	if c.outcome == weir.Refused {
		r.early += n
	}
}

// cameEarly reports whether a client came before it was told to, and remembers what
// it is told now.
func (m *merger) cameEarly(c client, s *sighting) bool {
	until, known := m.retryAt[0][c]
	if !known {
		until = m.retryAt[1][c]
	}
	early := s.now < until
	if s.outcome == weir.Refused {
		m.retryAt[0][c] = math.MaxInt64
		if s.retry != never {
			m.retryAt[0][c] = s.now + s.retry
		}
		if len(m.retryAt[0]) >= maxRetries {
			m.turnGeneration()
		}
	}
	return early
}

// maxRetries is how many clients are remembered in a generation.
const maxRetries = 1 << 16

// turnGeneration begins a new generation of who was told to wait.
func (m *merger) turnGeneration() {
	m.retryAt[0], m.retryAt[1] = make(map[client]int64), m.retryAt[0]
}

// takeRecords returns the records and begins anew.
func (m *merger) takeRecords() map[cell]*record {
	records := m.records
	m.records, m.arrivals = make(map[cell]*record), maxArrivals
	return records
}

// never is weir.Never in a sighting.
const never = -1

// buildRecord returns the record in words.
func (r *record) buildRecord(w words, n *keyHasher, sample int64) *Record {
	unhashed := n.unhashed && !r.cut && !r.merged
	out := &Record{
		First: time.UnixMicro(r.first).UTC(), Last: time.UnixMicro(r.last).UTC(),
		LimitRef: w.refOfLimit(r.limit),
		Key:      r.key, Unhashed: unhashed, Merged: r.merged,
		Outcome: r.outcome.String(), Count: r.count, Decisive: r.decisive, Cost: r.cost, Early: r.early,
		Least: r.least, RetryMS: r.retry, DelayMS: ceilToMillis(r.delay),
		Source: weir.FromStore.String(), Degraded: r.degraded, Every: 1,
	}
	if r.retry != never {
		out.RetryMS = ceilToMillis(r.retry)
	}
	if r.source != nil {
		out.Source = r.source.Guarantee().Source.String()
	}
	if r.outcome == weir.Allowed {
		if out.Watched = !r.sampled; r.sampled {
			out.Every = sample
		}
	}
	if r.about != nil {
		out.About = r.about.buildAbout(n, unhashed)
	}
	if r.answers != nil {
		out.Answers = r.answers.buildAnswers()
	}
	if r.sampled && !r.merged {
		out.Arrivals, out.ArrivalsCut = reportArrivals(r.arrivals, r.first), r.arrivalsCut
	}
	return out
}

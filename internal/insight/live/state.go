package live

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
)

// State is how a server stands.
type State struct {
	// Node is the server's name, Region where it is, Time when the state was taken.
	Node   string    `json:"node"`
	Region string    `json:"region,omitempty"`
	Time   time.Time `json:"time"`
	// UptimeMS is how long the server has run.
	UptimeMS int64 `json:"uptime_ms"`
	// SpanMS is the time that all Counts are of, about a second. It is zero, and
	// there are none, when nobody has looked shortly before.
	SpanMS int64 `json:"span_ms"`
	// DecisionsPerSecond and RefusalsPerSecond are decisions under all limits; a
	// request that meets three limits is three of them.
	DecisionsPerSecond float64 `json:"decisions_per_second"`
	RefusalsPerSecond  float64 `json:"refusals_per_second"`
	// RequestsPerSecond and RefusedRequestsPerSecond are requests, each counted once
	// however many limits it met. Requests and RequestTotals are those by what became of
	// them, allowed, refused or failed: in the span, and since the start.
	RequestsPerSecond        float64           `json:"requests_per_second"`
	RefusedRequestsPerSecond float64           `json:"refused_requests_per_second"`
	Requests                 map[string]uint64 `json:"requests,omitempty"`
	RequestTotals            map[string]uint64 `json:"request_totals,omitempty"`
	// Counts and Totals are decisions under all limits by the word of their
	// outcome: in the span, and since the start.
	Counts map[string]uint64 `json:"counts"`
	Totals map[string]uint64 `json:"totals"`
	// Limits are those that refused most in the span, then those that were met
	// most, at most MaxLimits; LeftOut is how many there are beside them.
	Limits  []Limit `json:"limits"`
	LeftOut int     `json:"omitted,omitempty"`
	// Top are the clients that were refused most since the start.
	Top []event.Heavy `json:"top"`
	// Loss is what records leave out; Backlog is how many events wait for the queue,
	// QueueUp that it takes them.
	Loss    event.Loss `json:"loss"`
	Backlog int        `json:"backlog"`
	QueueUp bool       `json:"queue_up"`
	// Degraded says that in the span some decisions were without the guarantee that
	// their limit usually gives, StoreUp that the store answers or is in the process.
	Degraded bool `json:"degraded"`
	StoreUp  bool `json:"store_up"`
	// Alarms are sentences about what else is wrong: rules that were refused, decisions
	// that are not counted.
	Alarms []string `json:"alarms,omitempty"`
}

// Limit is how often a limit was met: in the span, and since the start.
type Limit struct {
	event.LimitRef
	Counts map[string]uint64 `json:"counts"`
	Totals map[string]uint64 `json:"totals"`
}

// MaxLimits and MaxTop are the most limits and clients that one state tells of.
const MaxLimits, MaxTop = 200, 20

const (
	// fresh is how old a state may be to be told again; a span is at most maxSpan.
	fresh, maxSpan = 900 * time.Millisecond, 5 * time.Second
)

// Source is what a meter looks at. All functions must be safe for concurrent use.
type Source struct {
	// Node is the server's name, Region where it is, Started when it was started.
	Node    string
	Region  string
	Started time.Time
	// Limits returns the limits in use. Required.
	Limits func() []limits.Ref
	// Observer tells of loss and clients. Required.
	Observer *event.Observer
	// IsStoreUp reports whether the shared store answers. Nil means that there is none,
	// and that the store of the process is always up.
	IsStoreUp func() bool
	// Alarms returns what State.Alarms says. Nil means nothing.
	Alarms func() []string
}

// Meter takes the state of a server, once for all who ask within a second. Safe
// for concurrent use. Make it with NewMeter.
type Meter struct {
	from Source

	mu    sync.Mutex
	last  State
	began time.Time // when last was taken, zero before the first
	seen  map[*weir.Counters]counts
	// requests are those since the start when last was taken.
	requests map[string]uint64
}

// counts is by weir.Outcome.
type counts [weir.Degraded + 1]uint64

// NewMeter returns a meter.
func NewMeter(from Source) *Meter {
	return &Meter{from: from, seen: make(map[*weir.Counters]counts)}
}

// State returns how the server stands now, or did less than a second ago. Others
// hold it too: it must not be changed.
func (m *Meter) State(now time.Time) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	span := now.Sub(m.began)
	if !m.began.IsZero() && span >= 0 && span < fresh {
		return m.last
	}
	if m.began.IsZero() || span < 0 || span > maxSpan {
		span = 0
	}
	m.began, m.last = now, m.takeState(now, span)
	return m.last
}

func (m *Meter) takeState(now time.Time, span time.Duration) State {
	stats := m.from.Observer.Stats()
	s := State{
		Node: m.from.Node, Region: m.from.Region, Time: now.UTC(), UptimeMS: now.Sub(m.from.Started).Milliseconds(), SpanMS: span.Milliseconds(),
		Top: m.from.Observer.Top(MaxTop), Loss: stats.Loss, Backlog: stats.Backlog, QueueUp: !stats.Down, StoreUp: true,
	}
	if m.from.IsStoreUp != nil {
		s.StoreUp = m.from.IsStoreUp()
	}
	if m.from.Alarms != nil {
		s.Alarms = m.from.Alarms()
	}
	all := m.readLimits(span > 0)
	var sum, total counts
	for _, l := range all {
		sum.addCounts(&l.counts)
		total.addCounts(&l.totals)
	}
	s.Counts, s.Totals = sum.countsByWord(), total.countsByWord()
	s.Degraded = sum[weir.Degraded] > 0
	if span > 0 {
		s.DecisionsPerSecond = float64(sum.sumDecisions()) / span.Seconds()
		s.RefusalsPerSecond = float64(sum[weir.Refused]) / span.Seconds()
	}
	m.takeRequests(&s, span)
	slices.SortFunc(all, (*measured).compare)
	s.LeftOut = max(len(all)-MaxLimits, 0)
	s.Limits = make([]Limit, 0, len(all)-s.LeftOut)
	for _, l := range all[:len(all)-s.LeftOut] {
		s.Limits = append(s.Limits, Limit{l.ref, l.counts.countsByWord(), l.totals.countsByWord()})
	}
	return s
}

// takeRequests adds how many requests there were.
func (m *Meter) takeRequests(s *State, span time.Duration) {
	s.RequestTotals = m.from.Observer.Requests()
	before := m.requests
	if m.requests = s.RequestTotals; span <= 0 {
		return
	}
	s.Requests = map[string]uint64{}
	sum := uint64(0)
	for word, n := range s.RequestTotals {
		if n > before[word] {
			s.Requests[word] = n - before[word]
			sum += n - before[word]
		}
	}
	s.RequestsPerSecond = float64(sum) / span.Seconds()
	s.RefusedRequestsPerSecond = float64(s.Requests[event.RequestRefused]) / span.Seconds()
}

// measured is what the limits of one name have counted.
type measured struct {
	ref            event.LimitRef
	counts, totals counts
}

// readLimits reads all counters. Without a span there are no counts.
func (m *Meter) readLimits(span bool) []*measured {
	var all []*measured
	named := make(map[limits.Name]*measured)
	seen := make(map[*weir.Counters]counts, len(m.seen))
	for _, s := range m.from.Limits() {
		c := s.Limit.Counters()
		if _, again := seen[c]; again || c == nil {
			continue // limits may share their counters
		}
		at := s.Name()
		l := named[at]
		if l == nil {
			l = &measured{ref: event.LimitRefOf(s)}
			named[at], all = l, append(all, l)
		}
		var now counts
		for o := weir.Allowed; o < weir.NumOutcomes; o++ {
			now[o] = c.Load(o)
		}
		seen[c] = now
		l.totals.addCounts(&now)
		if span {
			was := m.seen[c]
			for o := range now {
				l.counts[o] += now[o] - was[o]
			}
		}
	}
	m.seen = seen
	return all
}

func (l *measured) compare(other *measured) int {
	return cmp.Or(
		cmp.Compare(other.counts[weir.Refused], l.counts[weir.Refused]), cmp.Compare(other.counts.sumDecisions(), l.counts.sumDecisions()),
		cmp.Compare(other.totals[weir.Refused], l.totals[weir.Refused]), cmp.Compare(other.totals.sumDecisions(), l.totals.sumDecisions()),
		cmp.Compare(l.ref.Domain, other.ref.Domain), cmp.Compare(l.ref.Rule, other.ref.Rule), cmp.Compare(l.ref.Limit, other.ref.Limit),
	)
}

func (c *counts) addCounts(other *counts) {
	for o := range c {
		c[o] += other[o]
	}
}

// sumDecisions returns how many decisions there were: what was estimated or degraded is
// counted beside its outcome.
func (c *counts) sumDecisions() (n uint64) {
	for o := range c {
		if o != int(weir.Estimated) && o != int(weir.Degraded) {
			n += c[o]
		}
	}
	return n
}

// countsByWord returns the counts that there are by their words.
func (c *counts) countsByWord() map[string]uint64 {
	out := make(map[string]uint64)
	for o := weir.Allowed; o < weir.NumOutcomes; o++ {
		if c[o] > 0 {
			out[o.String()] = c[o]
		}
	}
	return out
}

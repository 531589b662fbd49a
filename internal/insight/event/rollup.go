package event

import (
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
)

// roller makes roll-ups of what limits count anyway.
type roller struct {
	limits func() []limits.Ref
	words  words
	// reported is what each limit had counted at the last roll-up. A limit that is
	// gone is read once more, and then forgotten.
	reported map[*weir.Counters]*account
	from     time.Time
	// meters has the *meter of limits, by their counters. Decisions and answers read it.
	meters sync.Map
	// requests are counted by domain.
	requests requestTally
}

// account is a limit and what it has told.
type account struct {
	limit  *weir.Limit
	counts outcomeCounts
	alive  bool
	meter  *meter // nil until it is metered
}

func newRoller(limits func() []limits.Ref) *roller {
	return &roller{limits: limits, words: words{}, reported: map[*weir.Counters]*account{}}
}

// learnLimits takes over the words of the limits in use.
func (r *roller) learnLimits() {
	limits := r.limits()
	r.words.addLimits(limits)
	for _, s := range limits {
		c := s.Limit.Counters()
		a := r.reported[c]
		if a == nil {
			a = &account{}
			r.reported[c] = a
		}
		a.limit, a.alive = s.Limit, true
		if a.meter == nil && (len(r.reported) <= maxIdleMetered || a.counts != outcomeCounts{}) {
			a.meter = new(meter)
			r.meters.Store(c, a.meter)
		}
	}
}

// meterOf returns the meter of a limit, nil if it has none. Safe for concurrent use.
func (r *roller) meterOf(l *weir.Limit) *meter {
	if m, ok := r.meters.Load(l.Counters()); ok {
		return m.(*meter)
	}
	return nil
}

// takeRollups returns what was counted since the last call, one for each limit that
// counted anything, with the requests of the domains since then.
func (r *roller) takeRollups(now time.Time) []*Rollup {
	requests := r.requests.takeRequests()
	for _, a := range r.reported {
		a.alive = false
	}
	r.learnLimits()
	var out []*Rollup
	for counters, a := range r.reported {
		counts := a.counts.takeGrowth(counters, weir.Outcome.String)
		took, responses := a.meter.takeMeasured()
		// It may have been timed or answered after it had been counted.
		idle := len(counts) == 0 && took == nil && responses == nil
		if !idle {
			rollup := &Rollup{From: r.from.UTC(), To: now.UTC(), LimitRef: r.words.refOfLimit(a.limit), Counts: counts, Latency: took, Responses: responses}
			rollup.Requests = requests[rollup.Domain]
			delete(requests, rollup.Domain)
			out = append(out, rollup)
		}
		if !a.alive && idle {
			delete(r.reported, counters)
			delete(r.words, counters)
			r.meters.Delete(counters)
		}
	}
	for domain, n := range requests {
		out = append(out, &Rollup{From: r.from.UTC(), To: now.UTC(), LimitRef: LimitRef{Name: limits.Name{Domain: domain}}, Counts: map[string]uint64{}, Requests: n})
	}
	r.from = now
	return out
}

// meter has what is measured of a limit beside its counts: how long decisions took,
// of a sample, and how all requests that passed were answered. It takes 2 KiB.
type meter struct {
	took      latencies
	responses answering
}

// takeMeasured returns what was measured since the last call, nil where nothing was.
func (m *meter) takeMeasured() (took *Latency, responses *ResponseTotals) {
	if m == nil {
		return nil, nil
	}
	if counts := m.took.takeCounts(); counts != nil {
		took = &Latency{Every: weir.LatencyEvery, Counts: counts}
	}
	return took, m.responses.takeTotals()
}

// maxIdleMetered is how many limits are metered before they are met: what a decision
// or an answer is counted in is not made while it is counted. Of more limits the first
// roll-up has no times and no answers.
const maxIdleMetered = 1000

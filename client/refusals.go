package client

import (
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// maxRemembered is how many refusals are kept at a time.
const maxRemembered = 4096

// refusals are those that the service made and that still hold. Safe for concurrent use.
//
// What was refused at an instant stays refused until then plus RetryAfter, and
// so does all that costs as much or more: what others spend meanwhile can only
// make it longer. The instant is the one at which the question was sent, so
// they are forgotten too early and never too late.
type refusals struct {
	mu sync.Mutex
	of map[string]refused
}

type refused struct {
	cost     int64 // the least that was refused
	until    time.Time
	asked    time.Time
	decision Decision
}

// refusal returns what is remembered of a check.
func (m *refusals) refusal(id string, cost int64, now time.Time) (Decision, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.of[id]
	if ok && !now.Before(r.until) {
		delete(m.of, id)
		ok = false
	}
	if !ok || cost < r.cost {
		return Decision{}, false
	}
	d, gone := r.decision, now.Sub(r.asked)
	d.Source = Remembered
	d.Limits = nil
	if d.RetryAfter != weir.Never {
		d.RetryAfter = max(d.RetryAfter-gone, time.Microsecond)
	}
	if d.ResetAfter != weir.Never {
		d.ResetAfter = max(d.ResetAfter-gone, 0)
	}
	return d, true
}

// remember keeps the refusal d of a question sent at asked, for most at most.
// When too many are kept, those that would end first are forgotten.
func (m *refusals) remember(id string, cost int64, d Decision, asked time.Time, most time.Duration) {
	wait := most
	if d.RetryAfter != weir.Never {
		wait = min(wait, d.RetryAfter)
	}
	until := asked.Add(wait)
	m.mu.Lock()
	defer m.mu.Unlock()
	// A dearer refusal does not replace a cheaper one that says more.
	if old, ok := m.of[id]; ok && old.cost < cost && !old.until.Before(until) {
		return
	}
	if m.of == nil {
		m.of = make(map[string]refused)
	}
	if _, ok := m.of[id]; !ok && len(m.of) >= maxRemembered {
		m.makeRoom(asked)
	}
	m.of[id] = refused{cost: cost, until: until, asked: asked, decision: d}
}

// makeRoom makes room for one: it drops what has ended, and else what ends first
// of a few. Requires: mu.
func (m *refusals) makeRoom(now time.Time) {
	var first string
	var ends time.Time
	seen := 0
	for id, r := range m.of {
		if seen++; seen > 64 {
			break
		}
		if !now.Before(r.until) {
			delete(m.of, id)
		} else if first == "" || r.until.Before(ends) {
			first, ends = id, r.until
		}
	}
	if len(m.of) >= maxRemembered {
		delete(m.of, first)
	}
}

// forgetAll drops everything: units were given back, and refusals may not hold.
func (m *refusals) forgetAll() {
	m.mu.Lock()
	clear(m.of)
	m.mu.Unlock()
}

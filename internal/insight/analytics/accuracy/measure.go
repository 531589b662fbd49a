package accuracy

import (
	"time"

	"github.com/weirlimit/weir/algorithm"
)

// Report says how well the decisions on some keys kept a limit.
type Report struct {
	Keys int64 `json:"keys"`
	// Decisions are those measured, Admitted those that let pass.
	Decisions int64 `json:"decisions"`
	Admitted  int64 `json:"admitted"`
	// FalseAllowed is how many decisions let pass what did not fit: with it, more
	// than the allowance had passed within the last period. FalseDenied is how many
	// refused what did fit. Both are judged by what had in fact passed before, so
	// that one wrong decision does not make others wrong.
	FalseAllowed int64 `json:"false_allowed"`
	FalseDenied  int64 `json:"false_denied"`
	// Worst is the most units that passed in any one period, of any key.
	// Overshoot is the same as a multiple of the allowance: 1 and less is exact.
	Worst     int64   `json:"worst"`
	Overshoot float64 `json:"overshoot"`
	// Boundary is the most units that passed in any tenth of a period that lies
	// across an edge of the clock's periods, as a multiple of the allowance. A fixed
	// window can reach 2.
	Boundary float64 `json:"boundary"`
	// PeakBefore is the busiest slot of all keys together as a multiple of the mean
	// slot, as requests came; PeakAfter the same of what passed, when it passed.
	// A slot is a second, or a sixtieth of the period where that is longer.
	PeakBefore float64       `json:"peak_before"`
	PeakAfter  float64       `json:"peak_after"`
	Slot       time.Duration `json:"-"`
}

// FalseAllow is the share of the decisions that were false and let pass.
func (r *Report) FalseAllow() float64 { return share(r.FalseAllowed, r.Decisions) }

// FalseDeny is the share of the decisions that were false and refused.
func (r *Report) FalseDeny() float64 { return share(r.FalseDenied, r.Decisions) }

func share(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Measure measures the decisions on one key after the other. Not safe for
// concurrent use.
//
// A key costs time in proportion to its arrivals and 16 bytes for each while it
// is measured; what stays is 32 bytes for each slot in which something came.
type Measure struct {
	limit   Limit
	period  int64
	report  Report
	across  int64 // the most units in a tenth of a period across an edge
	came    slots
	passed  slots
	leaving []unit
}

// unit is a cost at an instant.
type unit struct{ at, cost int64 }

// New returns a measure for a limit.
func New(l Limit) (*Measure, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	slot := max(time.Second, l.Period/60)
	return &Measure{limit: l, period: l.Period.Microseconds(), report: Report{Slot: slot},
		came: newSlots(slot), passed: newSlots(slot)}, nil
}

// Key takes in the decisions on one key, all of them, in order of time.
func (m *Measure) Key(arrivals []Arrival) {
	if len(arrivals) == 0 {
		return
	}
	r := &m.report
	r.Keys++
	m.leaving = m.leaving[:0]
	var ours window // what passed in the last period
	var free int64  // of a queue: when the next can leave
	for _, a := range arrivals {
		r.Decisions++
		m.came.add(a.At, a.Cost)
		ours.advance(m.leaving, a.At-m.period)
		fits := ours.sum+a.Cost <= m.limit.Allowance
		if !a.Admitted {
			if fits {
				r.FalseDenied++
			}
			continue
		}
		r.Admitted++
		at := a.At + a.Delay
		if m.limit.Algorithm == algorithm.LeakyQueue.Name() && a.Delay == 0 {
			at = max(at, free)
			free = at + (m.period*a.Cost+m.limit.Allowance-1)/m.limit.Allowance
		}
		if !fits && at == a.At {
			r.FalseAllowed++
		}
		if a.Cost > 0 {
			m.leaving = append(m.leaving, unit{at, a.Cost})
		}
		ours.sum += a.Cost
		m.passed.add(at, a.Cost)
	}
	r.Worst = max(r.Worst, m.worst())
	m.across = max(m.across, m.boundary())
}

// Report returns what was measured so far.
func (m *Measure) Report() Report {
	r := m.report
	r.Overshoot = share(r.Worst, m.limit.Allowance)
	r.Boundary = share(m.across, m.limit.Allowance)
	r.PeakBefore, r.PeakAfter = m.came.peak(), m.passed.peak()
	return r
}

// worst returns the most units that left in any one period.
func (m *Measure) worst() (most int64) {
	var w window
	for _, u := range m.leaving {
		w.sum += u.cost
		w.advance(m.leaving, u.at-m.period)
		most = max(most, w.sum)
	}
	return most
}

// boundary returns the most units that left in any tenth of a period across an
// edge of the clock's periods.
func (m *Measure) boundary() (most int64) {
	var w window
	for _, u := range m.leaving {
		w.sum += u.cost
		w.advance(m.leaving, u.at-max(m.period/10, 1))
		if edge := u.at - u.at%m.period; m.leaving[w.first].at < edge {
			most = max(most, w.sum)
		}
	}
	return most
}

// window is the units of a list that are not too old.
type window struct {
	first int
	sum   int64
}

// advance leaves out the units up to an instant.
func (w *window) advance(units []unit, until int64) {
	for w.first < len(units) && units[w.first].at <= until {
		w.sum -= units[w.first].cost
		w.first++
	}
}

// slots counts units in equal slots of time.
type slots struct {
	length int64 // microseconds
	units  map[int64]int64
}

func newSlots(length time.Duration) slots {
	return slots{length.Microseconds(), make(map[int64]int64)}
}

func (s *slots) add(at, cost int64) { s.units[at/s.length] += cost }

// peak returns the busiest slot as a multiple of the mean one between the first
// and the last, both included, or 0 where nothing came.
func (s *slots) peak() float64 {
	var most, sum, first, last int64
	begun := false
	for at, units := range s.units {
		if !begun {
			first, last, begun = at, at, true
		}
		first, last = min(first, at), max(last, at)
		most, sum = max(most, units), sum+units
	}
	if sum == 0 {
		return 0
	}
	return float64(most) * float64(last-first+1) / float64(sum)
}

package accuracy

import (
	"math"
	"time"

	"github.com/weirlimit/weir/algorithm"
)

// Report says how well the decisions on some keys kept a limit, as reports send it.
type Report struct {
	// Keys and Decisions are how many were measured, Admitted how many of the decisions
	// let pass.
	Keys      int64 `json:"keys"`
	Decisions int64 `json:"decisions"`
	Admitted  int64 `json:"admitted"`
	// FalseAllowed is how many decisions let pass what did not fit: with it, more
	// than the allowance had passed within the last period. FalseDenied is how many
	// refused what did fit. Both are judged by what had in fact passed before, so
	// that one wrong decision does not make others wrong. FalseAllow and FalseDeny are
	// their shares of Decisions, 0 to 1.
	FalseAllow   float64 `json:"false_allow"`
	FalseDeny    float64 `json:"false_deny"`
	FalseAllowed int64   `json:"false_allowed"`
	FalseDenied  int64   `json:"false_denied"`
	// Overshoot is the most units that passed in any one period, of any key and wherever it
	// begins, as a multiple of the allowance: Worst units. 1 and less is exact.
	Overshoot float64 `json:"overshoot"`
	Worst     int64   `json:"worst"`
	// Boundary is the most units that passed in any tenth of a period that lies
	// across an edge of the clock's periods, as a multiple of the allowance. A fixed
	// window can reach 2.
	Boundary float64 `json:"boundary"`
	// PeakToMean is what was asked for in the busiest second, or sixtieth of the period
	// if that is longer, over the mean; PeakToMeanAdmitted the same of what passed, when
	// it passed.
	PeakToMean         float64 `json:"peak_to_mean"`
	PeakToMeanAdmitted float64 `json:"peak_to_mean_admitted"`
}

// RoundShares rounds shares to a millionth.
func (r *Report) RoundShares() {
	for _, f := range []*float64{&r.FalseAllow, &r.FalseDeny, &r.Overshoot, &r.Boundary, &r.PeakToMean, &r.PeakToMeanAdmitted} {
		*f = math.Round(*f*1e6) / 1e6
	}
}

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
	if err := l.checkBounds(); err != nil {
		return nil, err
	}
	slot := max(time.Second, l.Period/60)
	return &Measure{limit: l, period: l.Period.Microseconds(), came: newSlots(slot), passed: newSlots(slot)}, nil
}

// AddArrivals takes in the decisions on one key, all of them, in order of time.
func (m *Measure) AddArrivals(arrivals []Arrival) {
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
		m.came.addUnits(a.At, a.Cost)
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
		m.passed.addUnits(at, a.Cost)
	}
	r.Worst = max(r.Worst, m.worstPeriod())
	m.across = max(m.across, m.boundary())
}

// Report returns what was measured so far.
func (m *Measure) Report() Report {
	r := m.report
	r.Overshoot = share(r.Worst, m.limit.Allowance)
	r.Boundary = share(m.across, m.limit.Allowance)
	r.FalseAllow, r.FalseDeny = share(r.FalseAllowed, r.Decisions), share(r.FalseDenied, r.Decisions)
	r.PeakToMean, r.PeakToMeanAdmitted = m.came.peakToMean(), m.passed.peakToMean()
	return r
}

// worstPeriod returns the most units that left in any one period.
func (m *Measure) worstPeriod() (most int64) {
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

func (s *slots) addUnits(at, cost int64) { s.units[at/s.length] += cost }

// peakToMean returns the busiest slot as a multiple of the mean one between the first
// and the last, both included, or 0 where nothing came.
func (s *slots) peakToMean() float64 {
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

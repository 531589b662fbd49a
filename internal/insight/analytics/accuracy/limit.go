package accuracy

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Limit is what is known of a limit from its records.
type Limit struct {
	// Algorithm is the word for it in rules.
	Algorithm string
	// Allowance is how many units a Period has.
	Allowance int64
	Period    time.Duration
	// Burst is the most that passes at once. Zero means Allowance.
	Burst int64
}

// Of returns the limit of a record or a roll-up.
func Of(p event.Place) Limit {
	return Limit{Algorithm: p.Algorithm, Allowance: p.Allowance, Period: time.Duration(p.PeriodMS) * time.Millisecond, Burst: p.Burst}
}

func (l *Limit) check() error {
	if l.Allowance < 1 || l.Period < time.Millisecond || l.Period > weir.MaxPeriod {
		return fmt.Errorf("accuracy: a limit of %d in %s: give at least 1 unit, and a period of 1ms to %s", l.Allowance, l.Period, weir.MaxPeriod)
	}
	return nil
}

// Arrival is one decision on a key.
type Arrival struct {
	// At is when it was made, in microseconds since the Unix epoch.
	At   int64
	Cost int64
	// Admitted says that it passed.
	Admitted bool
	// Delay is how long it was told to wait, in microseconds.
	Delay int64
}

// Arrivals returns the decisions that the records of one key under one limit tell,
// in order of time, and whether some are missing. Of two at one instant the order
// is not told: those that passed come first.
func Arrivals(records []*event.Record) (arrivals []Arrival, cut bool) {
	for _, r := range records {
		if r.Count > 0 && len(r.Arrivals) == 0 || r.ArrivalsCut {
			cut = true
		}
		first := r.First.UnixMicro()
		for _, a := range r.Arrivals {
			arrivals = append(arrivals, Arrival{At: first + a.AtUS, Cost: a.Cost, Admitted: admits(r.Outcome)})
		}
	}
	slices.SortStableFunc(arrivals, func(a, b Arrival) int {
		switch {
		case a.At != b.At:
			if a.At < b.At {
				return -1
			}
			return 1
		case a.Admitted == b.Admitted:
			return 0
		case a.Admitted:
			return -1
		}
		return 1
	})
	return arrivals, cut
}

// admits reports whether an outcome lets the request pass as far as the limit
// goes: a shadow's refusal is a refusal.
func admits(outcome string) bool {
	return outcome != weir.Refused.String() && outcome != weir.ShadowRefused.String()
}

package weir

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/params"
)

// Compile checks the limit and prepares it for use. It must be called before
// the first decision, by one goroutine. Calling it again does nothing.
func (l *Limit) Compile() error {
	if l.compiled {
		return nil
	}
	if refusesAll := l.Bans && l.Count == 0; refusesAll {
		l.Count = 1 // Prepare knows no limit of 0
		defer func() { l.Count, l.Burst, l.Envelope = 0, 0, 0 }()
	}
	if err := l.checkSettings(); err != nil {
		return err
	}
	if l.Burst == 0 {
		l.Burst = l.Count
	}
	// Limits without a name of their own are no versions of each other: two that ask alike
	// with two algorithms are two limits.
	counter := l.Scope
	if l.Name == "" {
		l.Name = rateInWords(l.Count, l.Period)
		counter = cmp.Or(counter, l.Name+"\x1f"+l.Algorithm.Name())
	}
	if l.Scope == "" {
		l.Scope = l.Name
	}
	l.traits = l.Algorithm.Traits()
	if err := l.traits.checkMethods(l.Algorithm); err != nil {
		return fmt.Errorf("limit %q: %w", l.Name, err)
	}
	if err := l.Algorithm.Prepare(l); err != nil {
		return fmt.Errorf("limit %q: %w", l.Name, err)
	}
	if l.Cells < 1 {
		return fmt.Errorf("limit %q: algorithm %s keeps no state", l.Name, l.Algorithm.Name())
	}
	if l.counters == nil {
		l.counters = NewCounters()
	}
	l.isSimple = l.Mode.makesOneOp()
	l.sources = new([numSources]atomic.Pointer[Limit])
	l.compiled = true
	err := l.compileMode()
	// Not earlier: the raised count of a soft limit can need another layout.
	l.id = maphash.String(scopeSeed, l.Scope+"\x1f"+l.Algorithm.Name()+"\x1f"+l.Layout)
	if l.rowID = l.id; l.Price != "" {
		l.rowID ^= uint64(uint32(maphash.String(scopeSeed, l.Price)))
		l.counterName = cmp.Or(counter, l.Scope)
		if of := l.Derived; of != nil && of.Scope == l.Scope {
			l.counterName = of.counterName
		}
		if l.counterName != "" {
			l.counter = max(maphash.String(scopeSeed, l.counterName), 1)
		}
	}
	l.Derived = nil // or each version would keep all before it
	return err
}

func (l *Limit) checkSettings() error {
	switch {
	case l.Algorithm == nil:
		return fmt.Errorf("limit %q: no algorithm", l.Name)
	case l.Count < 1 || l.Count > MaxCost:
		return fmt.Errorf("limit %q: count %d must be between 1 and 2^53", l.Name, l.Count)
	case l.Burst < 0 || l.Burst > MaxCost:
		return fmt.Errorf("limit %q: burst %d must be between 0 and 2^53", l.Name, l.Burst)
	case l.Period < time.Microsecond || l.Period%time.Microsecond != 0:
		return fmt.Errorf("limit %q: period %s must be a whole number of microseconds, at least one", l.Name, l.Period)
	case l.Period > MaxPeriod:
		return fmt.Errorf("limit %q: period %s must be at most %s", l.Name, l.Period, MaxPeriod)
	}
	if err := l.Adjustment.checkForLimit(l); err != nil {
		return err
	}
	if err := l.checkConsistency(); err != nil {
		return err
	}
	return l.Mode.checkForLimit(l)
}

// compileMode builds the limits that stand behind a mode: the lower threshold
// of a soft limit, the ceiling of an elastic one, and compiles pool and ban.
func (l *Limit) compileMode() error {
	// What stands behind a mode is asked with the limit itself, on the store.
	combined := l.Consistency
	if combined.Mode != params.ConsistencyLocal {
		combined.Mode = params.ConsistencyStrict
	}
	derive := func(scope string, count, burst int64) *Limit {
		v := l.Clone()
		v.Scope, v.Count, v.Burst, v.Mode, v.Consistency = l.Scope+scope, count, burst, Mode{}, combined
		return v
	}
	var errs []error
	if l.Excess > 0 {
		l.soft = derive("\x1fsoft", l.Count, l.Burst)
		errs = append(errs, l.soft.Compile())
		// The limit itself becomes the hard threshold above it.
		count, burst := addPercent(l.Count, l.Excess), addPercent(l.Burst, l.Excess)
		l.Count, l.Burst = count, burst
		errs = append(errs, l.Algorithm.Prepare(l))
	}
	if l.Pool != nil {
		if a := l.Pool.Algorithm; a != nil && a.Traits()&(Sketches|Leases|Shapes) != 0 {
			errs = append(errs, fmt.Errorf("limit %q: a pool cannot be %s: use a bucket or a window", l.Name, a.Name()))
		}
		if m := &l.Pool.Mode; m.Excess != 0 || m.Pool != nil || m.Shadow || m.Rollout != 0 || m.Penalize || m.Ban != nil {
			errs = append(errs, fmt.Errorf("limit %q: of the modes a pool can have a reserve only", l.Name))
		}
		errs = append(errs, l.Pool.Compile())
		if !l.Pool.part { // it may be in use already, as the pool of another limit
			l.Pool.part = true
		}
	}
	if l.Ceiling > 0 {
		l.ceiling = derive("\x1fceiling", l.Ceiling, 0)
		errs = append(errs, l.ceiling.Compile())
	}
	if l.Ban != nil {
		l.Ban.Scope = l.Scope + "\x1fban"
		l.Ban.Consistency = combined
		errs = append(errs, l.Ban.Compile())
		l.Ban.part, l.Ban.Bans = true, true
	}
	return errors.Join(errs...)
}

// addPercent returns n and percent more, rounded down.
func addPercent(n, percent int64) int64 {
	if n > MaxCost/(100+percent) {
		return min(n+n/100*percent, MaxCost)
	}
	return n + n*percent/100
}

package rules

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/internal/spell"
)

// rateQuietly returns how many per what, as far as it can be told.
func (b *builder) rateQuietly() period.Rate {
	var r period.Rate
	s := b.spec
	if s.Limit != nil {
		r = s.Limit.Rate
	}
	if s.RequestsPerUnit != nil {
		r.Count = *s.RequestsPerUnit
	}
	if s.Unit != nil && *s.Unit > 0 {
		r.Period = time.Duration(*s.Unit)
	}
	if s.Period != nil {
		r.Period = time.Duration(*s.Period)
	}
	if s.UnitMultiplier != nil && *s.UnitMultiplier > 0 && r.Period > 0 {
		if *s.UnitMultiplier > int64(weir.MaxPeriod/r.Period) {
			r.Period = weir.MaxPeriod + 1
		} else {
			r.Period *= time.Duration(*s.UnitMultiplier)
		}
	}
	return r
}

// readRate returns how many per what.
func (b *builder) readRate(a weir.Algorithm) (period.Rate, bool) {
	s := b.spec
	r := b.rateQuietly()
	leases := a.Traits()&weir.Leases != 0
	before := b.faults
	if s.Limit != nil && s.RequestsPerUnit != nil {
		b.addSettingFault("limit", "keep one of them", "both limit and requests_per_unit")
	}
	if s.Limit == nil && s.RequestsPerUnit == nil {
		if !hasNumber(s.Node) {
			b.addSettingFault("unit", "write limit: 100/minute, or unit and requests_per_unit", "the limit does not say how many")
		}
		b.faults++
	}
	b.checkUnit(leases)
	if s.UnitMultiplier != nil && *s.UnitMultiplier == 0 {
		b.addSettingFault("unit_multiplier", "leave it out, or write 1", "unit_multiplier must be at least 1")
	}
	if r.Period > weir.MaxPeriod {
		b.addSettingFault("unit_multiplier", "", "the period is longer than ten years")
	}
	if leases {
		if b.s.TTL != nil {
			r.Period = time.Duration(*b.s.TTL)
		}
		if b.s.TTL == nil && s.Limit != nil && s.Limit.Period > 0 {
			b.addWarning(s.Node, b.path, fmt.Sprintf("write limit: %d, ttl: %s", r.Count, period.FormatTTL(r.Period)),
				"a concurrency limit has no rate: %s means %d at once, each held for %s at most", s.Limit, r.Count, period.FormatTTL(r.Period))
		}
		if r.Period == 0 {
			b.addSettingFault("ttl", "write ttl: 30s", "a concurrency limit needs ttl: how long a place is held unless it is renewed")
		}
	} else if r.Period == 0 && r.Count > 0 && b.faults == before {
		b.addSettingFault("limit", fmt.Sprintf("write %d/minute", r.Count), "the limit does not say per what")
	}
	return r, b.faults == before
}

// hasNumber reports whether the block of a limit has its number under a key of
// another name, which is told already.
func hasNumber(n *node) bool {
	for _, p := range n.pairs {
		if synonymsOf(p.name, []string{"requests_per_unit", "limit"}) != "" || spell.Nearest(p.name, []string{"requests_per_unit"}) != "" {
			return true
		}
	}
	return false
}

// checkUnit checks that the period is given once, in a way that exists.
func (b *builder) checkUnit(leases bool) {
	s := b.spec
	if s.Unit != nil && *s.Unit < 0 {
		text := scalarText(s.Node.valueOf("unit"))
		b.faults++
		b.addFault(s.Node.valueOrSelf("unit"), b.path, didYouMean(text, period.Units), "unknown unit %q", text)
	}
	ways := 0
	for _, is := range []bool{s.Unit != nil, s.Period != nil, s.Limit != nil && s.Limit.Period > 0, leases && b.s.TTL != nil} {
		if is {
			ways++
		}
	}
	if ways > 1 {
		b.addSettingFault("period", "keep one of them", "the period is given %d times: by unit, period, limit or ttl", ways)
	}
}

// nameByPeriod names a limit of a list that has no name, by its period.
func (b *builder) nameByPeriod() string {
	r := b.rateQuietly()
	if r.Period == 0 {
		return valueOr(b.s.Algorithm, "limit")
	}
	return FormatPeriod(r.Period)
}

package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
)

// builder makes one limit of what a file says about it.
type builder struct {
	*compiler
	spec   *limitSpec
	layers []layer
	// s is what holds for the limit, from all layers.
	s     settings
	rule  *Rule
	label string
	// isListed: the limit is one of a list. pool: it is a pool.
	isListed, pool bool
	faults         int
}

// builder returns the builder of a limit of the descriptor d, which is nil for
// the limit of a pool.
func (c *compiler) builder(spec *limitSpec, d *descriptorSpec) *builder {
	b := &builder{compiler: c, spec: spec}
	b.layers = append(b.layers, layer{spec.Node, &spec.settings, true})
	if d != nil {
		single := len(d.Limits) == 0 && (spec == d.Limit || spec == d.RateLimit)
		b.layers = append(b.layers, layer{d.Node, &d.settings, single})
		for _, s := range []*limitSpec{d.RateLimit, d.Limit} {
			if s != nil && s != spec {
				b.layers = append(b.layers, layer{s.Node, &s.settings, false})
			}
		}
	}
	if c.defaults != nil {
		b.layers = append(b.layers, layer{c.defaults.Node, &c.defaults.settings, false})
	}
	b.s.fill(b.layers)
	return b
}

// wrong reports a fault of the setting called name.
func (b *builder) wrong(name, hint, format string, args ...any) {
	b.faults++
	n, _ := where(b.layers, name)
	if n == nil {
		n = b.spec.Node
	}
	b.bad(n, b.path, hint, format, args...)
}

// tag names a limit of a list that has no name, by its period.
func (b *builder) tag() string {
	r := b.rateQuietly()
	if r.Period == 0 {
		return deref(b.s.Algorithm, "limit")
	}
	return FormatPeriod(r.Period)
}

// build returns the limit, or nil if there is a fault in it.
func (b *builder) build(name, scope string) *Limit {
	l := &Limit{Replaces: b.spec.Replaces, at: b.spec.Node}
	if name == "" {
		name = b.spec.Name
	}
	// The reference knows no names but those that are given.
	l.alias = name
	if name == "" {
		name = b.defaultName(scope)
	}
	if !b.dialect.flat {
		l.alias = name
	}
	if !b.named(b.spec.Node, b.path, name, scope) {
		return nil
	}
	if l.alias != "" && slices.Contains(b.spec.Replaces, l.alias) {
		b.fault(b.spec.Node.where("replaces"), b.path, "", replacesItself,
			[]any{name}[:strings.Count(b.dialect.texts[replacesItself], "%")]...)
		return nil
	}
	if b.spec.Unlimited {
		b.unlimited()
		l.Unlimited = true
		return l
	}
	a := b.algorithm()
	if a == nil {
		return nil
	}
	rate, ok := b.rate(a)
	if !ok {
		return nil
	}
	b.common(l, a)
	consistency := b.consistency(l, a, rate.Count)
	if rate.Count == 0 {
		b.denies(l, name, scope, rate.Period)
		return b.unlessFaulty(l)
	}
	w := &weir.Limit{Name: name, Scope: scope, Algorithm: a, Count: rate.Count, Period: rate.Period, Consistency: consistency}
	if l.OnChange == "reset" {
		w.Scope += "#" + rate.String() + deref(ptrString(b.s.Burst), "")
	}
	b.params(w)
	b.mode(w)
	b.settlement(w)
	if b.faults > 0 {
		return nil
	}
	err := w.Compile()
	if err == nil && b.check != nil {
		err = b.check(w)
	}
	if err == nil && b.checkCost != nil && l.Cost > 0 {
		err = b.checkCost(w, l.Cost)
	}
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			b.bad(b.spec.Node, b.path, "", "%s", strings.TrimPrefix(line, fmt.Sprintf("limit %q: ", w.Name)))
		}
		return nil
	}
	l.Limit = w
	return l
}

func (b *builder) unlessFaulty(l *Limit) *Limit {
	if b.faults > 0 {
		return nil
	}
	return l
}

// defaultName is the place of the limit within its domain.
func (b *builder) defaultName(scope string) string {
	_, name, ok := strings.Cut(scope, "/")
	if !ok {
		name = scope
	}
	if b.label != "" {
		name += "[" + b.label + "]"
	}
	return name
}

// unlimited checks that nothing else is said.
func (b *builder) unlimited() {
	if b.dialect.flat {
		// The reference accepts a unit that is none.
		if b.spec.Unit != nil && *b.spec.Unit > 0 {
			b.fault(b.spec.Node.where("unit"), b.path, "leave the unit out", unitWhenUnlimited)
		}
		return
	}
	if b.spec.Unit != nil {
		b.fault(b.spec.Node.where("unit"), b.path, "leave the unit out", unitWhenUnlimited)
	}
	for _, key := range []string{"limit", "requests_per_unit", "period", "unit_multiplier"} {
		if n := b.spec.Node.find(key); n != nil {
			b.bad(n, b.path, "leave one of them out", "an unlimited rule has no %s", key)
		}
	}
	b.forbid(needsCount, "leave one of them out", "an unlimited rule has no %s")
}

// forbid reports those of the settings that are given for this very limit.
func (b *builder) forbid(settings []string, hint, format string) {
	for _, key := range settings {
		if n, own := where(b.layers, key); n != nil && own {
			b.wrong(key, hint, format, key)
		}
	}
}

const unknownAlgorithm = "unknown algorithm %q"

// algorithm returns the algorithm that is named, or the default.
func (b *builder) algorithm() weir.Algorithm {
	name := b.dialect.algorithm
	if b.s.Algorithm != nil {
		name = *b.s.Algorithm
	}
	a := b.algorithms[name]
	if a == nil {
		b.wrong("algorithm", didYouMean(name, b.names), unknownAlgorithm, name)
		return nil
	}
	if known[name] {
		for setting, by := range takes {
			n, own := where(b.layers, setting)
			if n == nil || !own || slices.Contains(by, name) {
				continue
			}
			b.wrong(setting, "leave it out, or choose another algorithm", "%s is for %s, not for %s", setting, strings.Join(by, ", "), name)
		}
	}
	return a
}

// rateQuietly returns how many per what, as far as it can be told.
func (b *builder) rateQuietly() Rate {
	var r Rate
	s := b.spec
	if s.Limit != nil {
		r = *s.Limit
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

// rate returns how many per what.
func (b *builder) rate(a weir.Algorithm) (Rate, bool) {
	s := b.spec
	r := b.rateQuietly()
	leases := a.Traits()&weir.Leases != 0
	before := b.faults
	if s.Limit != nil && s.RequestsPerUnit != nil {
		b.wrong("limit", "keep one of them", "both limit and requests_per_unit")
	}
	if s.Limit == nil && s.RequestsPerUnit == nil && !b.dialect.flat {
		b.wrong("unit", "write limit: 100/minute, or unit and requests_per_unit", "the limit does not say how many")
	}
	b.unit(leases)
	if s.UnitMultiplier != nil && *s.UnitMultiplier == 0 && !b.dialect.flat {
		b.wrong("unit_multiplier", "leave it out, or write 1", "unit_multiplier must be at least 1")
	}
	if r.Period > weir.MaxPeriod {
		b.wrong("unit_multiplier", "", "the period is longer than ten years")
	}
	if leases {
		if b.s.TTL != nil {
			r.Period = time.Duration(*b.s.TTL)
		}
		if b.s.TTL == nil && s.Limit != nil && s.Limit.Period > 0 {
			b.warn(s.Node, b.path, fmt.Sprintf("write limit: %d, ttl: %s", r.Count, ttlOf(r.Period)),
				"a concurrency limit has no rate: %s means %d at once, each held for %s at most", s.Limit, r.Count, ttlOf(r.Period))
		}
		if r.Period == 0 {
			b.wrong("ttl", "write ttl: 30s", "a concurrency limit needs ttl: how long a place is held unless it is renewed")
		}
	} else if r.Period == 0 && r.Count > 0 && b.faults == before {
		b.wrong("limit", fmt.Sprintf("write %d/minute", r.Count), "the limit does not say per what")
	}
	return r, b.faults == before
}

// ttlOf writes a period as a ttl: 1m, where a rate would say minute.
func ttlOf(d time.Duration) string {
	text := period.Format(d)
	if _, named := period.Length(text); named {
		text = strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
	}
	return text
}

// unit checks that the period is given once, in a way that exists.
func (b *builder) unit(leases bool) {
	s := b.spec
	ways := 0
	if s.Unit != nil {
		ways++
		if *s.Unit < 0 {
			text := textOf(s.Node.find("unit"))
			b.faults++
			b.fault(s.Node.where("unit"), b.path, didYouMean(text, period.Units), badUnit, text)
		}
	}
	if s.Period != nil {
		ways++
	}
	if s.Limit != nil && s.Limit.Period > 0 {
		ways++
	}
	if leases && b.s.TTL != nil {
		ways++
	}
	switch {
	case ways > 1:
		b.wrong("period", "keep one of them", "the period is given %d times: by unit, period, limit or ttl", ways)
	case ways == 0 && b.dialect.flat && s.Limit == nil && !leases:
		b.faults++
		b.fault(s.Node, b.path, "add unit: minute", badUnit, "")
	}
}

// checkDefaults reports settings that make no sense for a whole domain.
func (c *compiler) checkDefaults(d *defaultsSpec) {
	for name := range notInherited {
		if n := d.Node.find(name); n != nil {
			c.bad(n, c.path, "give it with each limit", "%s belongs to a single limit, not to the defaults", name)
		}
	}
	if a := d.Algorithm; a != nil && c.algorithms[*a] == nil {
		c.bad(d.Node.where("algorithm"), c.path, didYouMean(*a, c.names), unknownAlgorithm, *a)
		// It is told once, not again for every limit.
		d.Algorithm = nil
	}
}

// of returns the share of n, rounded up, or the units that it is.
func (s share) of(n int64) int64 {
	if !s.isPercent {
		return s.units
	}
	// n/100*p + rest, so that nothing overflows.
	return n/100*s.percent + (n%100*s.percent+99)/100
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func ptrString(p *int64) *string {
	if p == nil {
		return nil
	}
	s := fmt.Sprintf("+%d", *p)
	return &s
}

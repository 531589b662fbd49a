package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
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
	// several: the limit is one of a list. pool: it is a pool.
	several, pool bool
	faults        int
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
	if rate.Count == 0 {
		b.denies(l, name, scope)
		return b.unlessFaulty(l)
	}
	w := &weir.Limit{Name: name, Scope: scope, Algorithm: a, Count: rate.Count, Period: rate.Period}
	if l.OnChange == "reset" {
		w.Scope += "#" + rate.String() + deref(ptrString(b.s.Burst), "")
	}
	b.params(w)
	b.mode(w)
	if b.faults > 0 {
		return nil
	}
	if err := w.Compile(); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			b.bad(b.spec.Node, b.path, "", "%s", strings.TrimPrefix(line, fmt.Sprintf("limit %q: ", w.Name)))
		}
		return nil
	}
	l.Limit = w
	if c := b.s.Consistency; c != nil && c.MaxOvershoot != nil {
		l.Consistency.MaxOvershoot = c.MaxOvershoot.of(w.Count)
	}
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
	for _, key := range []string{"limit", "requests_per_unit", "period", "unit_multiplier", "burst"} {
		if n := b.spec.Node.find(key); n != nil {
			b.bad(n, b.path, "leave one of them out", "an unlimited rule has no %s", key)
		}
	}
}

// algorithm returns the algorithm that is named, or the default.
func (b *builder) algorithm() weir.Algorithm {
	name := b.dialect.algorithm
	if b.s.Algorithm != nil {
		name = *b.s.Algorithm
	}
	a, err := b.algorithmNamed(name)
	if err != nil {
		b.wrong("algorithm", didYouMean(name, b.names), "%s", err)
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
	_, leases := a.(weir.Leaser)
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
		if r.Period == 0 {
			b.wrong("ttl", "write ttl: 30s", "a concurrency limit needs ttl: how long a place is held unless it is renewed")
		}
	} else if r.Period == 0 && r.Count > 0 && b.faults == before {
		b.wrong("limit", fmt.Sprintf("write %d/minute", r.Count), "the limit does not say per what")
	}
	return r, b.faults == before
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
			b.fault(s.Node.where("unit"), b.path, didYouMean(text, unitNames), badUnit, text)
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

// common sets what limits of 0 have too.
func (b *builder) common(l *Limit, a weir.Algorithm) {
	s := &b.s
	l.Node = deref(b.spec.Scope, "") == "node"
	l.OnStoreError = deref(s.OnStoreError, "")
	l.OnChange = deref(s.OnChange, "")
	l.DenyCache = deref(s.DenyCache, "")
	if s.Cost != nil {
		l.Cost = *s.Cost
		if l.Cost < 1 || l.Cost > weir.MaxCost {
			b.wrong("cost", "", "cost must be between 1 and 2^53")
		}
	}
	if s.Priority != nil {
		l.Priority = int(min(*s.Priority, 1000))
		if *s.Priority > 1000 {
			b.wrong("priority", "", "priority must be between 0 and 1000")
		}
	}
	b.consistency(l, a)
	if l.OnChange == "preserve_tokens" && a.Name() != "token_bucket" && a.Name() != "leaky_bucket" && known[a.Name()] {
		b.wrong("on_change", "use keep, which scales nothing, or reset", "on_change: preserve_tokens is for token_bucket and leaky_bucket")
	}
	if l.DenyCache == "on" && known[a.Name()] {
		why := ""
		switch {
		case a.Name() == "concurrency":
			why = "a place can become free at any time"
		case s.Penalize != nil && *s.Penalize:
			why = "refusals are charged and must reach the store"
		case deref(s.Mode, "") == "elastic":
			why = "a pool can have room again at any time"
		}
		if why != "" {
			b.wrong("deny_cache", "use deny_cache: auto", "deny_cache: on is impossible here: %s", why)
		}
	}
}

// consistency checks and sets how nodes count together.
func (b *builder) consistency(l *Limit, a weir.Algorithm) {
	c := b.s.Consistency
	if c == nil {
		return
	}
	l.Consistency = Consistency{Mode: c.Mode, Burst: c.Burst, Share: c.Share, Cold: c.Cold}
	if c.LeaseTTL != nil {
		l.Consistency.LeaseTTL = time.Duration(*c.LeaseTTL)
	}
	if c.SyncInterval != nil {
		l.Consistency.SyncInterval = time.Duration(*c.SyncInterval)
	}
	if why := consistencies[c.Mode][a.Name()]; why != "" {
		b.wrong("consistency", "", "consistency %s is impossible with %s: %s", c.Mode, a.Name(), why)
	}
	if l.Node && c.Mode != "" && c.Mode != "local" {
		if _, own := where(b.layers, "consistency"); own {
			b.wrong("consistency", "leave one of them out", "scope: node counts on each node alone, and consistency %s on all together", c.Mode)
		}
		l.Consistency = Consistency{}
	}
	for _, key := range []string{"lease_ttl", "burst", "share"} {
		if n := c.Node.find(key); n != nil && c.Mode != "leased" {
			b.faults++
			b.bad(n, b.path, "leave it out, or write mode: leased", "%s is for mode: leased", key)
		}
	}
	for _, key := range []string{"max_overshoot", "sync_interval", "cold"} {
		if n := c.Node.find(key); n != nil && c.Mode != "eventual" {
			b.faults++
			b.bad(n, b.path, "leave it out, or write mode: eventual", "%s is for mode: eventual", key)
		}
	}
	if c.Mode == "" {
		b.wrong("consistency", "write mode: strict, leased, eventual or local", "consistency without a mode")
	}
}

// denies makes l refuse everything.
func (b *builder) denies(l *Limit, name, scope string) {
	for _, key := range []string{"burst", "exceed", "pool", "ceiling", "rollout", "penalize", "ban", "reserve", "sketch", "cost"} {
		if n, own := where(b.layers, key); n != nil && own {
			b.wrong(key, "leave it out", "a limit of 0 refuses everything, %s has nothing to do", key)
		}
	}
	l.Denies = true
	l.Limit = b.denial(name, scope, b.spec.Node)
	if b.shadow() {
		// As a shadow it is counted by the store, which knows no limit of 0.
		l.Limit = &weir.Limit{Name: name, Scope: scope, Algorithm: l.Algorithm, Count: 1, Period: units["second"],
			Mode: weir.Mode{Shadow: true}}
		if err := l.Compile(); err != nil {
			b.wrong("limit", "", "%s", err)
		}
	}
}

func (b *builder) shadow() bool {
	return deref(b.s.Mode, "hard") == "shadow" || b.rule != nil && b.rule.Shadow
}

// params sets what only some algorithms know.
func (b *builder) params(w *weir.Limit) {
	s := &b.s
	w.Burst = deref(s.Burst, 0)
	if s.Burst != nil && *s.Burst == 0 {
		b.wrong("burst", "leave it out", "burst must be at least 1")
	}
	w.Precision = int(min(deref(s.Precision, 0), 1<<30))
	w.Phase = time.Duration(deref(s.Phase, 0))
	w.MaxDelay = time.Duration(deref(s.MaxDelay, 0))
	w.Free = deref(s.Free, 0)
	w.MaxLog = deref(s.MaxLog, 0)
	switch deref(s.Form, "") {
	case "weighted":
		w.Form = weir.Weighted
	case "lenient":
		w.Form = weir.Lenient
	}
	b.anchor(w)
	if k := s.Sketch; k != nil {
		w.Sketch = weir.SketchOptions{Expect: k.Expect, Width: int(min(k.Width, 1<<30)), Depth: int(min(k.Depth, 1<<20)),
			BloomBits: k.BloomBits, BloomHashes: int(min(k.BloomHashes, 1<<20)), Generations: int(min(k.Generations, 1<<20))}
		if k.Error != nil {
			w.Sketch.ErrorPermille = int64(*k.Error) * 10
		}
	}
}

// anchor sets where windows begin.
func (b *builder) anchor(w *weir.Limit) {
	s := &b.s
	switch deref(s.Anchor, "") {
	case "first_request":
		w.Anchor = weir.AnchorFirst
	case "calendar":
		w.Anchor = weir.AnchorCalendar
		switch w.Period {
		case units["day"]:
			w.Calendar = weir.CalendarDay
		case units["week"]:
			w.Calendar = weir.CalendarWeek
		case units["month"]:
			w.Calendar = weir.CalendarMonth
		case units["year"]:
			w.Calendar = weir.CalendarYear
		default:
			b.wrong("anchor", "count per day, week, month or year", "anchor: calendar has no windows of %s", FormatPeriod(w.Period))
		}
	}
	if s.TimeZone == nil {
		return
	}
	if w.Anchor != weir.AnchorCalendar {
		if _, own := where(b.layers, "time_zone"); own {
			b.wrong("time_zone", "add anchor: calendar, or leave it out", "time_zone is for anchor: calendar")
		}
		return
	}
	zone, err := time.LoadLocation(*s.TimeZone)
	if err != nil || *s.TimeZone == "Local" {
		b.wrong("time_zone", "write it like Europe/Berlin", "unknown time zone %q", *s.TimeZone)
		return
	}
	w.Location = zone
}

// mode sets what a breach does.
func (b *builder) mode(w *weir.Limit) {
	s := &b.s
	mode := deref(s.Mode, "hard")
	for key, needs := range needsMode {
		if n, own := where(b.layers, key); n != nil && own && mode != needs {
			b.wrong(key, "add mode: "+needs+", or leave it out", "%s is for mode: %s", key, needs)
		}
	}
	w.Shadow = b.shadow()
	switch mode {
	case "soft":
		if s.Exceed == nil || *s.Exceed == 0 {
			b.wrong("mode", "add exceed: 10%", "mode: soft does not say how far above the limit requests pass")
		} else {
			w.Excess = int64(*s.Exceed)
		}
	case "elastic":
		b.elastic(w)
	}
	if s.Rollout != nil {
		w.Rollout = int64(*s.Rollout)
		if w.Rollout == 0 {
			w.Shadow = true
		}
	}
	switch {
	case s.Penalize != nil:
		w.Penalize = *s.Penalize
	case s.Algorithm == nil && mode == "hard" && !b.pool:
		w.Penalize = b.dialect.penalize
	}
	b.ban(w)
	for p, r := range s.Reserve {
		units := r.of(max(w.Burst, 0))
		if w.Burst == 0 {
			units = r.of(w.Count)
		}
		if r.isPercent && r.percent == 100 {
			b.wrong("reserve", "keep less", "reserve of 100%% leaves nothing to priority %d", p)
			continue
		}
		w.Reserve = append(w.Reserve, units)
	}
}

// elastic sets the pool.
func (b *builder) elastic(w *weir.Limit) {
	p := b.s.Pool
	_, sketched := w.Algorithm.(weir.Approximate)
	switch {
	case sketched:
		b.wrong("mode", "use algorithm: sliding_window", "mode: elastic is impossible with %s, whose keys share their state", w.Algorithm.Name())
		return
	case b.pool:
		b.wrong("mode", "", "a pool cannot borrow itself")
	case p == nil:
		b.wrong("mode", "add pool: and the name of a pool, or its limit", "mode: elastic does not say what to borrow from")
	case p.ref != "":
		pool := b.domain.pools[p.ref]
		if pool == nil {
			var names []string
			for name := range b.domain.pools {
				names = append(names, name)
			}
			slices.Sort(names)
			hint := "write it under pools: at the top of the file"
			if len(names) > 0 {
				hint = didYouMean(p.ref, names)
			}
			b.wrong("pool", hint, "unknown pool %q", p.ref)
			return
		}
		w.Pool = pool.Limit
	default:
		pool := b.compiler.pool(p.limit, w.Name+" pool", w.Scope+"#pool")
		if pool == nil {
			b.faults++
			return
		}
		w.Pool = pool.Limit
	}
	if w.Pool == nil && p != nil && b.faults == 0 {
		b.wrong("pool", "", "a pool needs a limit above 0")
	}
	w.Ceiling = deref(b.s.Ceiling, 0)
}

// ban sets the limit on refusals.
func (b *builder) ban(w *weir.Limit) {
	s := b.s.Ban
	if s == nil {
		return
	}
	if s.After < 1 || s.For == nil || *s.For == 0 {
		b.wrong("ban", "write ban: {after: 5, for: 15m}", "a ban needs after, the number of refusals, and for, how long it lasts")
		return
	}
	a, err := b.algorithmNamed("lockout")
	if err != nil {
		b.wrong("ban", "", "a ban needs the algorithm lockout, which is not among Options.Algorithms")
		return
	}
	w.Ban = &weir.Limit{Name: w.Name + " ban", Algorithm: a, Count: s.After, Period: time.Duration(*s.For)}
}

// checkDefaults reports settings that make no sense for a whole domain.
func (c *compiler) checkDefaults(d *defaultsSpec) {
	for name := range notInherited {
		if n := d.Node.find(name); n != nil {
			c.bad(n, c.path, "give it with each limit", "%s belongs to a single limit, not to the defaults", name)
		}
	}
	v := reflect.ValueOf(&d.settings).Elem()
	if a := d.Algorithm; a != nil && !v.IsZero() {
		if _, err := c.algorithmNamed(*a); err != nil {
			c.bad(d.Node.where("algorithm"), c.path, didYouMean(*a, c.names), "%s", err)
			// It is told once, not again for every limit.
			d.Algorithm = nil
		}
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

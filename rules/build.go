package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/params"
)

// buildLimit returns the limit, or nil if there is a fault in it.
func (b *builder) buildLimit(name, scope string) *limits.Limit {
	l := &limits.Limit{Replaces: b.spec.Replaces}
	b.nodes[l] = b.spec.Node
	if name == "" {
		name = b.defaultName()
	}
	l.Alias = name
	if !b.checkNames(b.spec.Node, b.path, name, scope) {
		return nil
	}
	if slices.Contains(b.spec.Replaces, name) {
		b.addFault(b.spec.Node.valueOrSelf("replaces"), b.path, "", "limit %q replaces itself", name)
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
	rate, ok := b.readRate(a)
	if !ok {
		return nil
	}
	b.setCommon(l, a)
	consistency := b.consistency(l, a, rate.Count)
	if rate.Count == 0 {
		if b.refuseAll(l, name, scope, rate.Period); b.faults > 0 {
			return nil
		}
		return l
	}
	w := &weir.Limit{Name: name, Scope: scope, Algorithm: a, Count: rate.Count, Period: rate.Period, Consistency: consistency}
	if l.OnChange == "reset" {
		w.Scope += "#" + rate.String()
		if b.s.Burst != nil {
			w.Scope += fmt.Sprintf("+%d", *b.s.Burst)
		}
	}
	b.setParams(w)
	b.setBreach(w)
	b.settlement(w)
	if b.faults > 0 {
		return nil
	}
	if forced := b.opt.Consistency; forced != params.ConsistencyDefault && !l.Node {
		setMode(w, forced)
	}
	err := w.Compile()
	if err == nil && b.opt.Check != nil {
		err = b.opt.Check(w)
	}
	if err == nil && b.opt.CheckCost != nil && l.Cost > 0 {
		err = b.opt.CheckCost(w, l.Cost)
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			b.addFault(b.spec.Node, b.path, "", "%s", strings.TrimPrefix(line, fmt.Sprintf("limit %q: ", w.Name)))
		}
		return nil
	}
	l.Limit = w
	return l
}

// defaultName names a limit without a name for people: by the values of its rule, the keys
// whose values it tells apart, and its place among the limits of the rule. Its counters go by
// the path: they stay where they are under any name.
func (b *builder) defaultName() string {
	if b.rule == nil {
		return "pool"
	}
	var values, keys []string
	for _, r := range b.rule.Chain() {
		switch {
		case r.Value == "":
			keys = append(keys, legible(r.Key))
		case r.Key == "path":
			values = append(values, legible(r.Value))
		default:
			values = append(values, legible(r.Key)+" "+legible(r.Value))
		}
	}
	name := strings.Join(values, " ")
	if len(keys) > 0 && name != "" {
		name += " by "
	}
	name += strings.Join(keys, " and ")
	if b.isListed && b.rateQuietly().Period > 0 {
		name += " per"
	}
	if b.isListed {
		name += " " + b.nameByPeriod()
	}
	if b.label != "" {
		name += " of " + strings.Replace(b.label, "=", " ", 1)
	}
	return name
}

// unlimited checks that nothing else is said.
func (b *builder) unlimited() {
	if b.spec.Unit != nil {
		b.addFault(b.spec.Node.valueOrSelf("unit"), b.path, "leave the unit out", "an unlimited rule has no unit")
	}
	for _, key := range []string{"limit", "requests_per_unit", "period", "unit_multiplier"} {
		if n := b.spec.Node.valueOf(key); n != nil {
			b.addFault(n, b.path, "leave one of them out", "an unlimited rule has no %s", key)
		}
	}
	b.forbidSettings(needsCount, "leave one of them out", "an unlimited rule has no %s")
}

const unknownAlgorithm = "unknown algorithm %q"

// defaultAlgorithm decides limits that name none.
const defaultAlgorithm = "sliding_window"

// algorithm returns the algorithm that is named, or the default.
func (b *builder) algorithm() weir.Algorithm {
	name := valueOr(b.s.Algorithm, defaultAlgorithm)
	a := b.algorithms[name]
	if a == nil {
		b.addSettingFault("algorithm", didYouMean(name, b.names), unknownAlgorithm, name)
		return nil
	}
	if known[name] {
		for setting, by := range takes {
			n, own := findSetting(b.layers, setting)
			if n == nil || !own || slices.Contains(by, name) {
				continue
			}
			b.addSettingFault(setting, "leave it out, or choose another algorithm", "%s is for %s, not for %s", setting, strings.Join(by, ", "), name)
		}
	}
	return a
}

// checkDefaults reports settings that make no sense for a whole domain.
func (c *compiler) checkDefaults(d *defaultsSpec) {
	for name := range notInherited {
		if n := d.Node.valueOf(name); n != nil {
			c.addFault(n, c.path, "give it with each limit", "%s belongs to a single limit, not to the defaults", name)
		}
	}
	if a := d.Algorithm; a != nil && c.algorithms[*a] == nil {
		c.addFault(d.Node.valueOrSelf("algorithm"), c.path, didYouMean(*a, c.names), unknownAlgorithm, *a)
		// It is told once, not again for every limit.
		d.Algorithm = nil
	}
}

func (c *compiler) compilePool(spec *limitSpec, name, scope string) *limits.Limit {
	b := c.builder(spec, nil)
	b.pool = true
	return b.buildLimit(name, scope)
}

// newDenial returns the limit that stands for a refusal without counting.
func (c *compiler) newDenial(name, scope string, at *node) *weir.Limit {
	l := &weir.Limit{Name: name, Scope: scope, Algorithm: algorithm.FixedWindow, Period: time.Second, Bans: true}
	c.checkNames(at, c.path, name, scope)
	if err := l.Compile(); err != nil {
		c.addFault(at, c.path, "", "%s", err)
	}
	return l
}

// setBreach sets what a breach does. Of a pool only the headroom counts: a breach is
// a matter of the limits that borrow from it.
func (b *builder) setBreach(w *weir.Limit) {
	if b.pool {
		b.forbidSettings(ofBorrowers, "give it to the limits that borrow", "a pool has no %s")
	} else {
		b.setBreachModes(w)
	}
	b.setHeadroom(w)
}

// elastic sets the pool.
func (b *builder) elastic(w *weir.Limit) {
	p := b.s.Pool
	sketched := w.Algorithm.Traits()&weir.Sketches != 0
	switch {
	case sketched:
		b.addSettingFault("mode", "use algorithm: sliding_window", "mode: elastic is impossible with %s, whose keys share their state", w.Algorithm.Name())
		return
	case p == nil:
		b.addSettingFault("mode", "add pool: and the name of a pool, or its limit", "mode: elastic does not say what to borrow from")
	case p.ref != "":
		pool := b.domain.Pools[p.ref]
		if pool == nil {
			hint := "write it under pools: at the top of the file"
			if len(b.domain.Pools) > 0 {
				hint = didYouMean(p.ref, slices.Sorted(maps.Keys(b.domain.Pools)))
			}
			b.addSettingFault("pool", hint, "unknown pool %q", p.ref[:min(len(p.ref), maxShown)])
			return
		}
		w.Pool = pool.Limit
	default:
		pool := b.compiler.compilePool(p.limit, w.Name+" pool", w.Scope+"#pool")
		if pool == nil {
			b.faults++
			return
		}
		w.Pool = pool.Limit
	}
	if w.Pool == nil && p != nil && b.faults == 0 {
		b.addSettingFault("pool", "", "a pool needs a limit above 0")
	}
	w.Ceiling = valueOr(b.s.Ceiling, 0)
}

// refuseAll makes l refuse everything.
func (b *builder) refuseAll(l *limits.Limit, name, scope string, period time.Duration) {
	b.forbidSettings(needsCount, "leave it out", "a limit of 0 refuses everything, %s has nothing to do")
	l.Denies = true
	if period == 0 || period > weir.MaxPeriod {
		period = time.Second
	}
	l.Limit = b.newDenial(name, scope, b.spec.Node)
	l.Period = period
	if isShadow(&b.s, b.rule) {
		// As a shadow it is counted by the store, which knows no limit of 0.
		l.Limit = &weir.Limit{Name: name, Scope: scope, Algorithm: l.Algorithm, Count: 1, Period: period,
			Mode: weir.Mode{Shadow: true}}
		if err := l.Compile(); err != nil {
			b.addSettingFault("limit", "", "%s", err)
		}
	}
}

// setBreachModes sets the modes of a limit that is no pool.
func (b *builder) setBreachModes(w *weir.Limit) {
	s := &b.s
	mode := valueOr(s.Mode, "hard")
	for key, needs := range needsMode {
		if n, own := findSetting(b.layers, key); n != nil && own && mode != needs {
			b.addSettingFault(key, "add mode: "+needs+", or leave it out", "%s is for mode: %s", key, needs)
		}
	}
	w.Shadow = isShadow(&b.s, b.rule)
	switch mode {
	case "soft":
		if s.Exceed == nil || *s.Exceed == 0 {
			b.addSettingFault("mode", "add exceed: 10%", "mode: soft does not say how far above the limit requests pass")
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
	w.Penalize = valueOr(s.Penalize, false)
	w.Hidden = valueOr(s.Hidden, false)
	b.setBanLimit(w)
}

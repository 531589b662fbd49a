package rules

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
)

// changed returns the limits of one choice with the change in them, as the value of
// an override. Named: with their names.
func (w *keyWriter) changed(ls []*Limit, named bool) *node {
	if w.Action == BanKey && !w.domain.replaces {
		i := slices.IndexFunc(ls, w.isTarget)
		return w.named(w.change(ls[i], ls[i].at), ls[i], named)
	}
	out := &node{kind: list}
	for _, l := range ls {
		n := asBlock(l.at)
		if w.isTarget(l) {
			n = w.change(l, n)
		}
		out.items = append(out.items, w.named(n, l, named || len(ls) > 1))
	}
	if len(out.items) == 1 {
		return out.items[0]
	}
	return out
}

// named returns the block n of the limit l with its name, or without.
func (w *keyWriter) named(n *node, l *Limit, with bool) *node {
	out := without(n, "name")
	if name := l.alias; with && name != "" {
		out.pairs = append([]pair{pairOf(scalarOf("name"), quotedOf(name))}, out.pairs...)
	}
	return out
}

// numberKeys are the keys of a limit that hold its numbers.
var numberKeys = []string{"limit", "requests_per_unit", "unit", "unit_multiplier", "period", "ttl", "burst"}

// change returns the node n of the limit l as a block with the change in it.
func (w *keyWriter) change(l *Limit, n *node) *node {
	n = asBlock(n)
	switch w.Action {
	case BanKey:
		return &node{kind: mapping, pairs: append(keep(n, "name", "replaces", "scope"), pairOf(scalarOf("limit"), scalarOf("0")), pairOf(scalarOf("mode"), scalarOf("hard")))}
	case AllowKey:
		n = without(n, "mode", "exceed", "pool", "ceiling", "rollout")
		n.pairs = append(n.pairs, pairOf(scalarOf("mode"), scalarOf("shadow")))
		return n
	}
	n = without(n, append(numberKeys, "headroom", "ceiling", "phase")...)
	add := func(key, value string) { n.pairs = append(n.pairs, pairOf(scalarOf(key), scalarOf(value))) }
	if l.Traits()&weir.Leases != 0 {
		add("limit", strconv.FormatInt(w.Count, 10))
		add("ttl", ttlOf(w.Period))
	} else {
		add("limit", Rate{w.Count, w.Period}.String())
	}
	if slices.Contains(takes["burst"], l.Algorithm.Name()) {
		burst := w.Burst
		if burst == 0 {
			burst = w.Count
		}
		add("burst", strconv.FormatInt(burst, 10))
	}
	v, err := l.Variant(w.Count, w.Period, w.Burst)
	if err != nil {
		return n // such an override has no effect
	}
	if l.Headroom != nil {
		units := &node{kind: list}
		for _, r := range v.Headroom {
			units.items = append(units.items, scalarOf(strconv.FormatInt(r, 10)))
		}
		n.pairs = append(n.pairs, pairOf(scalarOf("headroom"), units))
	}
	if v.Ceiling > 0 {
		add("ceiling", strconv.FormatInt(v.Ceiling, 10))
	}
	if l.Phase > 0 && l.takes("phase") {
		add("phase", ttlOf(v.Phase))
	}
	if most := v.Consistency.MaxOvershoot; most > 0 && l.Consistency.MaxOvershoot > 0 {
		c := l.Consistency
		n = without(n, "consistency")
		block := &node{kind: mapping, pairs: []pair{pairOf(scalarOf("mode"), scalarOf(c.Mode.String())), pairOf(scalarOf("max_overshoot"), scalarOf(strconv.FormatInt(most, 10)))}}
		if c.SyncInterval > 0 {
			block.pairs = append(block.pairs, pairOf(scalarOf("sync_interval"), scalarOf(c.SyncInterval.String())))
		}
		if c.Optimistic {
			block.pairs = append(block.pairs, pairOf(scalarOf("cold"), scalarOf("optimistic")))
		}
		n.pairs = append(n.pairs, pairOf(scalarOf("consistency"), block))
	}
	return n
}

// member returns the override that makes the change for the value.
func (w *keyWriter) member() pair { return pairOf(quotedOf(w.value), w.changed(w.choices()[0], true)) }

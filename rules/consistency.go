package rules

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/params"
)

// setCommon sets what limits of 0 have too.
func (b *builder) setCommon(l *limits.Limit, a weir.Algorithm) {
	s := &b.s
	l.Node = valueOr(b.spec.Scope, "") == "node"
	l.OnChange = valueOr(s.OnChange, "")
	if s.Cost != nil {
		l.Cost = *s.Cost
		if l.Cost < 1 || l.Cost > weir.MaxCost {
			b.addSettingFault("cost", "", "cost must be between 1 and 2^53")
		}
	}
	if s.Priority != nil {
		l.Priority = int(min(*s.Priority, 1000))
		if *s.Priority > 1000 {
			b.addSettingFault("priority", "", "priority must be between 0 and 1000")
		}
	}
	if valueOr(s.DenyCache, "") == "on" && known[a.Name()] {
		why := ""
		switch {
		case a.Name() == "concurrency":
			why = "a place can become free at any time"
		case s.Penalize != nil && *s.Penalize:
			why = "refusals are charged and must reach the store"
		case valueOr(s.Mode, "") == "elastic":
			why = "a pool can have room again at any time"
		}
		if why != "" {
			b.addSettingFault("deny_cache", "use deny_cache: auto", "deny_cache: on is impossible here: %s", why)
		}
	}
}

// consistency returns how nodes count l, a limit of so many units, together, and what
// they decide by themselves.
func (b *builder) consistency(l *limits.Limit, a weir.Algorithm, count int64) params.Consistency {
	out := params.Consistency{OnStoreError: valueOfWord(b.s.OnStoreError, params.OnErrorLastKnown), DenyCache: valueOfWord(b.s.DenyCache, params.DenyCacheOff)}
	if c := b.s.Consistency; c != nil {
		b.checkConsistency(c, l, a)
		if !l.Node {
			out.Mode = valueOfWord(&c.Mode, params.ConsistencyLocal)
			out.Loose, out.Optimistic, out.Share = c.Burst == "loose", c.Cold == "optimistic", c.Share
			out.LeaseTTL, out.SyncInterval = time.Duration(valueOr(c.LeaseTTL, 0)), time.Duration(valueOr(c.SyncInterval, 0))
			if c.MaxOvershoot != nil {
				out.MaxOvershoot = c.MaxOvershoot.unitsOf(count)
			}
		}
	}
	if l.Node {
		out.Mode = params.ConsistencyLocal
	}
	return out
}

// setMode has w count in a mode, or strictly, as far as its algorithm can.
func setMode(w *weir.Limit, mode params.ConsistencyMode) {
	for _, m := range [...]params.ConsistencyMode{mode, params.ConsistencyStrict} {
		isUnaligned := m == params.ConsistencyEventual && w.Anchor == params.AnchorFirst
		if !isUnaligned && consistencies[m.String()][w.Algorithm.Name()] == "" {
			w.Consistency.Mode = m
			return
		}
	}
}

// valueOfWord returns the value of an enumeration, up to the last, that is written as a
// word; zero for any other.
func valueOfWord[T interface {
	~uint8
	String() string
}](word *string, last T) T {
	for v := last; v > 0; v-- {
		if word != nil && v.String() == *word {
			return v
		}
	}
	return 0
}

// checkConsistency reports what nodes cannot do.
func (b *builder) checkConsistency(c *consistencySpec, l *limits.Limit, a weir.Algorithm) {
	if why := consistencies[c.Mode][a.Name()]; why != "" {
		b.addSettingFault("consistency", "", "consistency %s is impossible with %s: %s", c.Mode, a.Name(), why)
	}
	if l.Node && c.Mode != "" && c.Mode != "local" {
		if _, own := findSetting(b.layers, "consistency"); own {
			b.addSettingFault("consistency", "leave one of them out", "scope: node counts on each node alone, and consistency %s on all together", c.Mode)
		}
	}
	for _, of := range ofConsistency {
		if n := c.Node.valueOf(of.key); n != nil && c.Mode != of.mode {
			b.faults++
			b.addFault(n, b.path, "leave it out, or write mode: "+of.mode, "%s is for mode: %s", of.key, of.mode)
		}
	}
	if c.Mode == "" {
		b.addSettingFault("consistency", "write mode: strict, leased, eventual or local", "consistency without a mode")
	}
}

// ofConsistency lists the keys of a consistency block that belong to one mode.
var ofConsistency = []struct{ key, mode string }{
	{"lease_ttl", "leased"}, {"burst", "leased"}, {"share", "leased"},
	{"max_overshoot", "eventual"}, {"sync_interval", "eventual"}, {"cold", "eventual"},
}

package rules

import (
	"time"

	"github.com/weirlimit/weir"
)

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
	l.Consistency = Consistency{Mode: c.Mode, Burst: c.Burst, Share: c.Share, Cold: c.Cold,
		LeaseTTL: time.Duration(deref(c.LeaseTTL, 0)), SyncInterval: time.Duration(deref(c.SyncInterval, 0))}
	if why := consistencies[c.Mode][a.Name()]; why != "" {
		b.wrong("consistency", "", "consistency %s is impossible with %s: %s", c.Mode, a.Name(), why)
	}
	if l.Node && c.Mode != "" && c.Mode != "local" {
		if _, own := where(b.layers, "consistency"); own {
			b.wrong("consistency", "leave one of them out", "scope: node counts on each node alone, and consistency %s on all together", c.Mode)
		}
		l.Consistency = Consistency{}
	}
	for _, of := range ofConsistency {
		if n := c.Node.find(of.key); n != nil && c.Mode != of.mode {
			b.faults++
			b.bad(n, b.path, "leave it out, or write mode: "+of.mode, "%s is for mode: %s", of.key, of.mode)
		}
	}
	if c.Mode == "" {
		b.wrong("consistency", "write mode: strict, leased, eventual or local", "consistency without a mode")
	}
}

// ofConsistency lists the keys of a consistency block that belong to one mode.
var ofConsistency = []struct{ key, mode string }{
	{"lease_ttl", "leased"}, {"burst", "leased"}, {"share", "leased"},
	{"max_overshoot", "eventual"}, {"sync_interval", "eventual"}, {"cold", "eventual"},
}

// counted returns what stores are told about how nodes count l together.
func (l *Limit) counted() weir.Consistency {
	c := &l.Consistency
	w := weir.Consistency{
		LeaseTTL:     c.LeaseTTL,
		Loose:        c.Burst == "loose",
		Share:        c.Share,
		MaxOvershoot: c.MaxOvershoot,
		SyncInterval: c.SyncInterval,
		Optimistic:   c.Cold == "optimistic",
	}
	switch c.Mode {
	case "strict":
		w.Mode = weir.ConsistencyStrict
	case "leased":
		w.Mode = weir.ConsistencyLeased
	case "eventual":
		w.Mode = weir.ConsistencyEventual
	case "local":
		w.Mode = weir.ConsistencyLocal
	}
	if l.Node {
		w.Mode = weir.ConsistencyLocal
	}
	switch l.OnStoreError {
	case "allow":
		w.OnStoreError = weir.OnErrorAllow
	case "deny":
		w.OnStoreError = weir.OnErrorDeny
	case "local":
		w.OnStoreError = weir.OnErrorLocal
	case "last_known":
		w.OnStoreError = weir.OnErrorLastKnown
	}
	switch l.DenyCache {
	case "on":
		w.DenyCache = weir.DenyCacheOn
	case "off":
		w.DenyCache = weir.DenyCacheOff
	}
	return w
}

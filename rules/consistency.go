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

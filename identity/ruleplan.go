package identity

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// Bounds on what a [Resolver.RulePlan] asks about: how many lists of keys of one domain,
// and how many keys each has.
const (
	MaxRuleLists = 1024
	MaxRuleKeys  = maxEntries
)

// entryAddress is what every client has.
const entryAddress = "remote_address"

// RulePlan returns a plan of what the rules of the request's domain are matched by,
// so far as requests are known to have it: a descriptor for each list of keys that
// has a source ([Sources]) for every key. It follows the rules when they change. One
// descriptor is always there, that of the client's address; it is the only one where
// rules are no [weir.Catalog].
//
// A list with a key that is no source, or whose source is not configured, is not
// asked about: see [Resolver.Unknown]. Nor is one beyond [MaxRuleLists], or with more
// than [MaxRuleKeys]. priority is that of the requests, 0 the
// highest.
func (r *Resolver) RulePlan(rules weir.Rules, priority int) *Plan {
	catalog, ok := rules.(weir.Catalog)
	if !ok {
		return r.planForLists(nil, priority)
	}
	return &Plan{follows: &follower{r: r, rules: catalog, priority: priority}}
}

// follower makes the plans of a RulePlan. Safe for concurrent use.
type follower struct {
	r        *Resolver
	rules    weir.Catalog
	priority int
	// made are the plans by domain. The map is never changed.
	made atomic.Pointer[map[string]madePlan]
}

// madePlan is a plan and what it was made of.
type madePlan struct {
	lists []weir.KeyList
	plan  *Plan
}

// forDomain returns the plan of a domain that p stands for.
func (p *Plan) forDomain(domain string) *Plan {
	if p.follows == nil {
		return p
	}
	return p.follows.planFor(domain)
}

// planFor returns the plan for a domain. It allocates when the rules have changed.
func (f *follower) planFor(domain string) *Plan {
	lists := f.rules.KeyLists(domain)
	if len(lists) == 0 {
		domain = "" // one plan for all that have none: anybody can make domains up
	}
	made := f.made.Load()
	if made != nil {
		if m, ok := (*made)[domain]; ok && sameLists(m.lists, lists) {
			return m.plan
		}
	}
	next := map[string]madePlan{domain: {lists, f.r.planForLists(lists, f.priority)}}
	if made != nil {
		for name, m := range *made {
			// What the rules no longer have is dropped. What another goroutine has
			// made in between is made again.
			if _, ok := next[name]; !ok && (name == "" || sameLists(m.lists, f.rules.KeyLists(name))) {
				next[name] = m
			}
		}
	}
	f.made.Store(&next)
	return next[domain].plan
}

// sameLists reports whether a and b are the same slice.
func sameLists(a, b []weir.KeyList) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// planForLists returns the plan for lists of keys.
func (r *Resolver) planForLists(lists []weir.KeyList, priority int) *Plan {
	p := &Plan{priority: priority}
	address := []string{entryAddress}
	if !slices.ContainsFunc(lists, func(l weir.KeyList) bool { return slices.Equal(l.Keys, address) }) {
		p.descriptors = append(p.descriptors, planned{entries: []plannedEntry{{entryAddress, source{kind: fromAddress, width: r.width}}}})
	}
	for _, l := range lists {
		if len(p.descriptors) == MaxRuleLists {
			break
		}
		if d, err := r.plannedList(l); err == nil {
			p.descriptors = append(p.descriptors, d)
		}
	}
	return p
}

// plannedList compiles a list of keys that are sources.
func (r *Resolver) plannedList(l weir.KeyList) (planned, error) {
	out := planned{repeats: l.Repeats}
	if n := len(l.Keys); n > MaxRuleKeys {
		return out, fmt.Errorf("%d keys are too many, the most is %d", n, MaxRuleKeys)
	}
	for _, key := range l.Keys {
		s, err := r.sourceOf(key)
		if err != nil {
			return out, err
		}
		out.entries = append(out.entries, plannedEntry{key, s})
	}
	return out, nil
}

// sourceOf returns the source that a key of the rules is.
func (r *Resolver) sourceOf(key string) (source, error) {
	s, err := r.parseSource(key, nil)
	if err == nil && s.kind == fromValue {
		return s, errValueKey(key)
	}
	return s, err
}

// Unknown says why no request has an entry of the key unless a route makes one: the
// key is no source, or nothing is configured that gives it a value. It returns nil if
// requests can have it.
func (r *Resolver) Unknown(key string) error {
	_, err := r.sourceOf(key)
	return err
}

package node

import (
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
)

const (
	// maxUnmatchedLists is how many domains and lists of keys that meet no rule are
	// remembered, so that each is warned of once. A power of two.
	maxUnmatchedLists = 256
	// maxUnmatchedWarnings is how many of them are logged while one set of rules is in
	// use.
	maxUnmatchedWarnings = 50
)

// unmatched counts the requests that meet no rule, and warns of what they were likely
// meant to be. Safe for concurrent use.
type unmatched struct {
	rules *ruleSet
	log   *slog.Logger
	seed  maphash.Seed
	now   atomic.Pointer[unmatchedNow]

	mu sync.Mutex
	// totals are by domain: of those that the rules have or had, and under
	// otherDomains of all others.
	totals map[string]*atomic.Uint64
	isShed bool // load shedding limits requests too
}

// unmatchedNow is what belongs to one set of rules.
type unmatchedNow struct {
	set    *limits.Set
	counts map[string]*atomic.Uint64 // never changed
	others *atomic.Uint64
	// seen holds the hashes of what was looked at.
	seen   [maxUnmatchedLists]atomic.Uint64
	warned atomic.Int64
}

// otherDomains is the label of domains that no rule has.
const otherDomains = "(other)"

func newUnmatched(r *ruleSet, log *slog.Logger) *unmatched {
	u := &unmatched{rules: r, log: log, seed: maphash.MakeSeed(), totals: map[string]*atomic.Uint64{}}
	u.renewForRules()
	return u
}

// renewForRules begins anew for the rules in use, and keeps the counts.
func (u *unmatched) renewForRules() *unmatchedNow {
	u.mu.Lock()
	defer u.mu.Unlock()
	set := u.rules.currentLimits()
	if n := u.now.Load(); n != nil && n.set == set {
		return n
	}
	n := &unmatchedNow{set: set, counts: map[string]*atomic.Uint64{}, others: u.total(otherDomains)}
	for _, domain := range set.Domains() {
		n.counts[domain] = u.total(domain)
	}
	u.now.Store(n)
	return n
}

// total returns the count of a domain. Requires: mu.
func (u *unmatched) total(domain string) *atomic.Uint64 {
	if u.totals[domain] == nil {
		u.totals[domain] = new(atomic.Uint64)
	}
	return u.totals[domain]
}

// observe takes in a request that met no limit.
func (u *unmatched) observe(r *weir.Request) {
	set := u.rules.currentLimits()
	if set.Exempts(r) {
		return
	}
	n := u.now.Load()
	if n.set != set {
		n = u.renewForRules()
	}
	count := n.counts[r.Domain]
	if count == nil {
		count = n.others
	}
	count.Add(1)
	if n.rememberHash(u.hash(n, r)) {
		u.warnMisspelt(n, r)
	}
}

// hash identifies what a request asks by: its domain, and if that is known its keys.
func (u *unmatched) hash(n *unmatchedNow, r *weir.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(u.seed)
	h.WriteString(r.Domain)
	if n.counts[r.Domain] != nil {
		for i := range r.Descriptors {
			h.WriteByte(0)
			for j := range r.Descriptors[i].Entries {
				h.WriteByte(1)
				h.WriteString(r.Descriptors[i].Entries[j].Key)
			}
		}
	}
	return max(h.Sum64(), 1) // zero is a free place
}

// rememberHash reports whether a hash was not seen before, and remembers it. When nothing more
// can be remembered, nothing is new.
func (n *unmatchedNow) rememberHash(hash uint64) bool {
	const tries = 16
	for i := range uint64(tries) {
		at := &n.seen[(hash+i)%maxUnmatchedLists]
		if at.Load() == hash {
			return false
		}
		if at.CompareAndSwap(0, hash) {
			return true
		}
		if at.Load() == hash {
			return false
		}
	}
	return false
}

// warnMisspelt logs what a request was likely meant to be. One whose keys are those of a rule,
// and whose values are not, is as it should be.
func (u *unmatched) warnMisspelt(n *unmatchedNow, r *weir.Request) {
	if onlyKnownKeys(n.set, r) || u.isShed && len(n.set.Domains()) == 0 {
		return // load shedding alone limits all, and asks for no keys
	}
	why := n.set.Misspelt(r)
	if why == "" {
		return
	}
	switch warned := n.warned.Add(1); {
	case warned <= maxUnmatchedWarnings:
		u.log.Warn("requests are not limited: no rule matches them", "reason", why)
	case warned == maxUnmatchedWarnings+1:
		u.log.Warn("requests are not limited: further ones without a rule are counted and no longer logged", "metric", "weir_unmatched_requests_total")
	}
}

// onlyKnownKeys reports whether a descriptor of r has keys that a rule is matched by:
// then r asks what it should, and the others are beside it.
func onlyKnownKeys(set *limits.Set, r *weir.Request) bool {
	one := weir.Request{Domain: r.Domain}
	for i := range r.Descriptors {
		one.Descriptors = r.Descriptors[i : i+1]
		if set.Misspelt(&one) == "" {
			return true
		}
	}
	return false
}

// metrics returns the counts by domain.
func (u *unmatched) metrics() []metrics.Unmatched {
	u.renewForRules()
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []metrics.Unmatched
	for _, domain := range slices.Sorted(maps.Keys(u.totals)) {
		out = append(out, metrics.Unmatched{Domain: domain, Requests: u.totals[domain].Load()})
	}
	return out
}

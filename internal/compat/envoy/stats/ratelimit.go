package stats

import (
	"maps"
	"slices"
	"sync"
)

// RateLimit counts what one limit decided. Add to its counters directly.
type RateLimit struct {
	TotalHits               Counter
	OverLimit               Counter
	NearLimit               Counter
	OverLimitWithLocalCache Counter
	WithinLimit             Counter
	ShadowMode              Counter
	NegativeHits            Counter // what was given back

	prefix string // full name up to and with the dot before the counter's name
}

// eachCounter gives f the counters by name.
func (r *RateLimit) eachCounter(f func(name string, c *Counter)) {
	f("total_hits", &r.TotalHits)
	f("over_limit", &r.OverLimit)
	f("near_limit", &r.NearLimit)
	f("over_limit_with_local_cache", &r.OverLimitWithLocalCache)
	f("within_limit", &r.WithinLimit)
	f("shadow_mode", &r.ShadowMode)
	f("total_negative_hits", &r.NegativeHits)
}

// OverflowKey stands in the place of a key that found no room of its own.
const OverflowKey = "overflow"

// maxKeyBytes is the longest key that a request brings and is counted by name:
// longer ones share the overflow, or a few requests could fill the memory.
const maxKeyBytes = 1024

// keys holds the counters that are named by metric keys and by domains.
type keys struct {
	scope  *Scope
	suffix string
	max    int

	mu      sync.RWMutex
	byName  map[string]*RateLimit // by sanitized key
	byKey   map[string]*RateLimit // by the key as it came, those of Dynamic
	over    map[string]*RateLimit // by the domain whose keys found no room
	domains map[string]*Counter   // by the domain as it came
}

// hasNoRoom reports whether there is no room for one more of the names in m. A name
// of n bytes may be too long by itself.
func hasNoRoom[T any](k *keys, m map[string]*T, n int) bool {
	return len(m) >= k.max || n > maxKeyBytes
}

func (k *keys) init(scope *Scope, max int) {
	k.scope, k.suffix, k.max = scope, scope.suffix(nil), max
	k.byName = map[string]*RateLimit{}
	k.byKey = map[string]*RateLimit{}
	k.over = map[string]*RateLimit{}
	k.domains = map[string]*Counter{}
}

// RateLimit returns the counters of a limit that the rules name: key is the
// domain and the path of keys and values, joined by dots. The same key gives
// the same counters, so they outlive a reload. It is for rules, whose number
// the operator bounds; for keys that requests bring see Dynamic.
func (s *Store) RateLimit(key string) *RateLimit {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	return s.keys.countersFor(Sanitize(key))
}

// Dynamic returns the counters of a key that a request brought, of the domain
// given. Once Options.MaxKeys such keys are known, keys that are new share the
// counters of domain.overflow, as do keys of more than 1 KiB. It allocates only for a key that is new.
func (s *Store) Dynamic(domain string, key []byte) *RateLimit {
	k := &s.keys
	k.mu.RLock()
	r := k.byKey[string(key)]
	if r == nil && hasNoRoom(k, k.byKey, len(key)) {
		r = k.over[domain] // whoever floods this with keys waits for nobody
	}
	k.mu.RUnlock()
	if r != nil {
		return r
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.byKey[string(key)]; r != nil {
		return r
	}
	if hasNoRoom(k, k.byKey, len(key)) {
		// The domain is one that rules name, so this adds one key a domain.
		r = k.countersFor(Sanitize(domain + "." + OverflowKey))
		k.over[domain] = r
		return r
	}
	r = k.countersFor(Sanitize(string(key)))
	k.byKey[string(key)] = r
	return r
}

// countersFor requires mu. Keys that read alike once sanitized share counters.
func (k *keys) countersFor(name string) *RateLimit {
	r := k.byName[name]
	if r == nil {
		r = &RateLimit{prefix: k.scope.name + "." + name + "."}
		k.byName[name] = r
	}
	return r
}

// UnknownDomain returns the counter of requests for a domain that no rules
// name. Once Options.MaxKeys domains are known, new ones share one counter.
func (s *Store) UnknownDomain(domain string) *Counter {
	k := &s.keys
	k.mu.RLock()
	c := k.domains[domain]
	if c == nil && hasNoRoom(k, k.domains, len(domain)) {
		c = k.domains[OverflowKey]
	}
	k.mu.RUnlock()
	if c != nil {
		return c
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.domains[domain]; c != nil {
		return c
	}
	if hasNoRoom(k, k.domains, len(domain)) {
		domain = OverflowKey // one more than max, and no further
	}
	c = s.counter(k.scope.fullName(Sanitize(domain)+".domain_not_found", nil))
	k.domains[domain] = c
	return c
}

// flushTo tells the sink what the counters have gained.
func (k *keys) flushTo(sink Sink) {
	k.mu.RLock()
	all := slices.Collect(maps.Values(k.byName))
	k.mu.RUnlock()
	for _, r := range all {
		r.eachCounter(func(name string, c *Counter) {
			if d := c.latch(); d != 0 {
				sink.Counter(r.prefix+name+k.suffix, d)
			}
		})
	}
}

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// Set is a compiled set of rules. It is immutable and safe for concurrent use.
type Set struct {
	domains map[string]*domain
	// first is one of domains: most sets have no other.
	first    *domain
	rules    []*Rule
	warnings Errors
	files    []string
	hash     string
}

var _ weir.Rules = (*Set)(nil)

// domain holds the rules of one domain.
type domain struct {
	name string
	file string
	root level
	// allow and deny are by the key of the entry that holds the value.
	allow map[string]*valueSet
	deny  map[string]*denyList
	// replaces: some limit replaces others.
	replaces bool
	pools    map[string]*Limit
	// keyLists are what requests of the domain are to be asked about.
	keyLists []weir.KeyList
}

// denyList refuses values.
type denyList struct {
	values valueSet
	limit  *weir.Limit
}

// Rules returns every rule, in the order of the files. It must not be changed.
func (s *Set) Rules() []*Rule { return s.rules }

// Domains returns the names of all domains, sorted.
func (s *Set) Domains() []string {
	return slices.Sorted(maps.Keys(s.domains))
}

// Domain returns the name of a domain of the set: the one that is asked for, or the
// only one where name is empty.
func (s *Set) Domain(name string) (string, error) {
	domains := s.Domains()
	switch {
	case name == "" && len(domains) == 1:
		return domains[0], nil
	case name == "":
		return "", fmt.Errorf("the rules have %d domains: name one of %s", len(domains), strings.Join(domains, ", "))
	case !s.Has(name):
		return "", fmt.Errorf("the rules have no domain %q: there are %s", name, strings.Join(domains, ", "))
	}
	return name, nil
}

// Has reports whether there are rules for the domain of that name.
func (s *Set) Has(name string) bool { return s.domains[name] != nil }

// Meets reports whether a descriptor of these keys, with some values, can meet a
// limit or a deny list of the domain. If not, nothing limits who is asked about by
// it alone.
func (s *Set) Meets(domain string, keys []string) bool {
	d := s.domains[domain]
	if d == nil {
		return false
	}
	if slices.ContainsFunc(keys, func(key string) bool { return d.deny[key] != nil }) {
		return true
	}
	return slices.ContainsFunc(s.rules, func(r *Rule) bool {
		if r.Domain != domain || len(r.Keys) > len(keys) || !slices.Equal(r.Keys, keys[:len(r.Keys)]) {
			return false
		}
		rest := keys[len(r.Keys):]
		last := len(rest) == 0 || len(rest) == 1 && r.TierBy != "" && rest[0] == r.TierBy
		return last && r.decides() || r.deny != nil
	})
}

// LimitRef is a limit and its place in the rules.
type LimitRef struct {
	// Domain and Rule are the words of the files; Rule is Rule.Path. The limits of
	// deny lists and pools belong to no rule: their Domain is empty, and Rule is
	// their scope, which names their place.
	Domain, Rule string
	Limit        *weir.Limit
}

// LimitRefs returns every limit that can decide something with its place, each once.
func (s *Set) LimitRefs() []LimitRef {
	var out []LimitRef
	seen := make(map[*weir.Limit]bool)
	for _, r := range s.rules {
		for _, l := range r.All() {
			if l.Limit == nil {
				continue
			}
			for _, p := range [...]*weir.Limit{l.Limit, l.Ban} {
				if p != nil && !seen[p] {
					seen[p] = true
					out = append(out, LimitRef{r.Domain, r.Path, p})
				}
			}
		}
	}
	for _, l := range s.Limits() {
		if !seen[l] {
			out = append(out, LimitRef{Rule: l.Scope, Limit: l})
		}
	}
	return out
}

// Limits returns every limit that can decide something, also those of denials
// and pools, each once: what metrics are labelled by.
func (s *Set) Limits() []*weir.Limit {
	var all []*weir.Limit
	seen := map[*weir.Limit]bool{}
	add := func(limits ...*weir.Limit) {
		for _, l := range limits {
			if l != nil && !seen[l] {
				seen[l] = true
				all = append(all, l)
			}
		}
	}
	for _, r := range s.rules {
		add(r.denial)
		for _, l := range r.All() {
			if l.Limit != nil {
				add(l.Limit, l.Pool, l.Ban)
			}
		}
	}
	for _, name := range s.Domains() {
		deny := s.domains[name].deny
		for _, key := range slices.Sorted(maps.Keys(deny)) {
			add(deny[key].limit)
		}
	}
	return all
}

// Warnings returns what was doubtful in the files though they loaded.
func (s *Set) Warnings() Errors { return s.warnings }

// Files returns the names of the files that the set was loaded from.
func (s *Set) Files() []string { return s.files }

// Hash identifies the contents of the files, in hexadecimal.
func (s *Set) Hash() string { return s.hash }

// inheritCounts lets the limits of s count decisions on where those of old left off.
func inheritCounts(s *Set, old *Set) {
	type id struct{ scope, name string }
	was := map[id]*weir.Limit{}
	for _, l := range old.Limits() {
		was[id{l.Scope, l.Name}] = l
	}
	for _, l := range s.Limits() {
		if o := was[id{l.Scope, l.Name}]; o != nil {
			l.Inherit(o)
		}
	}
}

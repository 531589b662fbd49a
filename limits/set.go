package limits

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// Set is layers of rules beside each other. It is immutable and safe for concurrent use.
// The zero Set has no rules.
type Set struct {
	layers  []*Layer
	domains map[string]*domain
	// first is one of domains: most sets have no other.
	first *domain
	// written are those of rules that are written in files.
	rules, written []*Rule
	// presets are the layers that have one. Who loads it lists its limits: they are in no
	// list of the set.
	presets []*Layer
	// leaves reports limits that requests do not meet. Nil for none.
	leaves func(*weir.Limit) bool
}

var _ weir.Rules = (*Set)(nil)

// domain holds the layers of one domain.
type domain struct {
	name   string
	layers []*Layer
	// keyLists are what requests of the domain are to be asked about.
	keyLists []weir.KeyList
}

// NewSet returns a set of layers. A request meets those of its domain, in this order, and
// presets after all others.
func NewSet(layers ...*Layer) *Set {
	s := &Set{layers: layers, domains: map[string]*domain{}}
	for _, l := range layers {
		if l.Preset != nil {
			s.presets = append(s.presets, l)
			continue
		}
		d := s.domains[l.Name]
		if d == nil {
			d = &domain{name: l.Name}
			s.domains[l.Name] = d
			if s.first == nil {
				s.first = d
			}
		}
		d.layers = append(d.layers, l)
		s.rules = append(s.rules, l.all...)
		for _, r := range l.all {
			if r.File != "" {
				s.written = append(s.written, r)
			}
		}
	}
	for _, d := range s.domains {
		d.listKeys()
	}
	return s
}

// Without returns the set without some limits: requests do not meet those that leaves reports.
// Lists of the set's limits have them still.
func (s *Set) Without(leaves func(*weir.Limit) bool) *Set {
	rest := *s
	rest.leaves = leaves
	return &rest
}

// Rules returns every rule, in the order of the layers. It must not be changed.
func (s *Set) Rules() []*Rule { return s.rules }

// FileRules returns the rules that are written in files, in the order of the layers. It must
// not be changed.
func (s *Set) FileRules() []*Rule { return s.written }

// Files returns the names of the files that the rules are written in.
func (s *Set) Files() []string {
	var all []string
	for _, l := range s.layers {
		for _, f := range l.Files {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

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

// File returns the file that a domain is in, the first of several.
func (s *Set) File(domain string) string {
	for _, l := range layersOf(s, domain) {
		if len(l.Files) > 0 {
			return l.Files[0]
		}
	}
	return ""
}

// layersOf returns the layers of a domain.
func layersOf(s *Set, name string) []*Layer {
	if d := s.domains[name]; d != nil {
		return d.layers
	}
	return nil
}

// Changeable returns the limits of rules that decide something: those whose mode operators
// may change.
func (s *Set) Changeable() []*Limit {
	var all []*Limit
	for _, r := range s.rules {
		for _, l := range r.All() {
			if l.Limit != nil && l.Rule == r { // a limit by all is at several rules
				all = append(all, l)
			}
		}
	}
	return all
}

// Refs returns every limit that can decide something with its place, each once.
func (s *Set) Refs() []Ref {
	var out []Ref
	seen := make(map[*weir.Limit]bool)
	for _, r := range s.rules {
		for _, l := range r.All() {
			if l.Limit == nil {
				continue
			}
			for _, p := range [...]*weir.Limit{l.Limit, l.Ban} {
				if p != nil && !seen[p] {
					seen[p] = true
					out = append(out, Ref{r.Domain, cmp.Or(l.SharedKey, r.Path), p})
				}
			}
		}
	}
	for _, l := range s.Limits() {
		if !seen[l] {
			out = append(out, Ref{Rule: l.Scope, Limit: l})
		}
	}
	return out
}

// Limits returns every limit that can decide something, also those of denials
// and pools, each once: what metrics are labelled by.
func (s *Set) Limits() []*weir.Limit {
	var all []*weir.Limit
	for _, l := range s.layers {
		all = l.appendLimits(all)
	}
	seen := map[*weir.Limit]bool{nil: true}
	return slices.DeleteFunc(all, func(l *weir.Limit) bool {
		was := seen[l]
		seen[l] = true
		return was
	})
}

// Inherit lets the limits of s count decisions on where those of old left off. It must be
// called before s is in use.
func (s *Set) Inherit(old *Set) {
	type id struct{ scope, name string }
	was := map[id]*weir.Limit{}
	for _, l := range old.Limits() {
		was[id{l.Scope, l.Name}] = l
	}
	for _, l := range s.Limits() {
		// One of a layer that both have is in use.
		if o := was[id{l.Scope, l.Name}]; o != nil && o != l {
			l.Inherit(o)
		}
	}
}

package identity

import "slices"

// Shape is an entry that a plan makes, and what is known of its value before there is
// a request.
type Shape struct {
	Key string
	// Value of the entry, if Fixed: the method, host or path, a segment of it, or a
	// text of the route.
	Value string
	Fixed bool
	// Like is the first entry of the descriptor that has the same source, and so the
	// same value.
	Like int
}

// Shapes returns the descriptors that the plan makes of requests with c's method,
// host and path, as far as these say. Those of a plan of [Resolver.RulePlan] are for
// the domain. It leaves out descriptors that such a request cannot have.
func (p *Plan) Shapes(c *Caller, domain string) [][]Shape {
	p = p.forDomain(domain)
	var out [][]Shape
next:
	for i := range p.descriptors {
		var d []Shape
		entries := p.descriptors[i].entries
		for j := range entries {
			e := &entries[j]
			s := Shape{Key: e.key, Like: slices.IndexFunc(entries, func(other plannedEntry) bool { return other.source == e.source })}
			switch e.source.kind {
			case fromMethod, fromPath, fromHost, fromValue, fromParam:
				v, err := e.source.readValue(c)
				if err != nil || v == "" {
					continue next
				}
				s.Value, s.Fixed = v, true
			}
			d = append(d, s)
		}
		out = append(out, d)
	}
	return out
}

package analytics

import (
	"cmp"
	"slices"
)

// clientKey is a client under a limit, as the database numbers limits.
type clientKey struct {
	limit  int64
	client string
}

// clientSum is what a client did in a range.
type clientSum struct {
	clientKey
	order                           int64 // what is ordered by
	refused, delayed, shadow, units int64
	unhashed                        bool
}

// perClient finds what is kept of a client, of which rows come in turn.
type perClient[T any] struct {
	by   map[clientKey]*T
	last clientKey
	kept *T
}

// of returns what is kept of the client of a row, and whether it is new.
func (p *perClient[T]) of(l *clientLine) (kept *T, first bool) {
	return p.at(clientKey{l.limit, l.client})
}

func (p *perClient[T]) at(key clientKey) (kept *T, first bool) {
	if p.kept != nil && key == p.last {
		return p.kept, false
	}
	if p.by == nil {
		p.by = map[clientKey]*T{}
	}
	p.last, p.kept = key, p.by[key]
	if p.kept == nil {
		p.kept, first = new(T), true
		p.by[key] = p.kept
	}
	return p.kept, first
}

// clientOrders are orders of clients, by what cells come to together. Of those that are alike the ones come first that were
// delayed, or would have been refused.
var clientOrders = map[string][]int{
	"refused":   {cRefused},
	"overshoot": {cRefused}, // ordered again when it is known
	"decisions": {cAllowed, cRefused, cSoft, cBorrowed, cDelayed, cShadow},
	"early":     {cEarly},
	"last":      {cLast},
	"units":     {cUnits},
}

// sumCells are the cells that sums are of.
var sumCells = []int{cRefused, cDelayed, cShadow, cUnits, cUnhashed}

// add takes in a row.
func (s *clientSum) add(l *clientLine, order string) {
	s.refused += l.n[cRefused]
	s.delayed += l.n[cDelayed]
	s.shadow += l.n[cShadow]
	s.units += l.n[cUnits]
	s.unhashed = s.unhashed || l.n[cUnhashed] != 0
	for _, c := range clientOrders[order] {
		if cellColumns[c].way == most {
			s.order = max(s.order, l.n[c])
		} else {
			s.order += l.n[c]
		}
	}
}

func (s *clientSum) limited() bool { return s.refused+s.delayed+s.shadow > 0 }

func compareSums(a, b *clientSum) int {
	return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(b.delayed, a.delayed), cmp.Compare(b.shadow, a.shadow), cmp.Compare(b.units, a.units),
		cmp.Compare(a.limit, b.limit), cmp.Compare(a.client, b.client))
}

// clientSums returns what the clients did that are meant, in an order.
func (r *reader) clientSums(order string, limitedOnly bool) []*clientSum {
	var clients perClient[clientSum]
	var out []*clientSum
	need := clientColumns{cells: slices.Clone(sumCells)}
	for _, c := range clientOrders[order] {
		if !slices.Contains(need.cells, c) {
			need.cells = append(need.cells, c)
		}
	}
	r.clientRows(r.clientGrain(), r.from, r.to, need, func(l *clientLine) {
		s, first := clients.of(l)
		if first {
			s.clientKey = clients.last
			out = append(out, s)
		}
		s.add(l, order)
	})
	if limitedOnly {
		out = slices.DeleteFunc(out, func(s *clientSum) bool { return !s.limited() })
	}
	slices.SortFunc(out, compareSums)
	return out
}

// clientsOfSums returns the first clients of those in order. A limit whose numbers changed
// has its clients once.
func (s *scope) clientsOfSums(sums []*clientSum, most int) (out []client) {
	type key struct {
		name name
		key  string
	}
	found := map[key]bool{}
	for _, c := range sums[:min(len(sums), most)] {
		k := key{nameOf(s.byID[c.limit]), c.client}
		if !found[k] {
			found[k] = true
			out = append(out, client{name: k.name, key: k.key})
		}
	}
	return out
}

package report

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// clientSum is what a client did in a range.
type clientSum struct {
	rows.ClientKey
	Limited
	order, units int64 // order is what is ordered by
	unhashed     bool
}

// perClient finds what is kept of a client, of which rows come in turn.
type perClient[T any] struct {
	by   map[rows.ClientKey]*T
	last rows.ClientKey
	kept *T
}

// findClient returns what is kept of the client of a row, and whether it is new.
func (p *perClient[T]) findClient(l *rows.ClientLine) (kept *T, first bool) {
	return p.findKey(l.ClientKey)
}

func (p *perClient[T]) findKey(key rows.ClientKey) (kept *T, first bool) {
	if p.kept != nil && key == p.last {
		return p.kept, false
	}
	if p.by == nil {
		p.by = map[rows.ClientKey]*T{}
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
	"refused":   {rows.Refused},
	"overshoot": {rows.Refused}, // ordered again when it is known
	"decisions": {rows.Allowed, rows.Refused, rows.Soft, rows.Borrowed, rows.Delayed, rows.Shadow},
	"early":     {rows.Early},
	"last":      {rows.Last},
	"units":     {rows.Units},
}

// sumCells are the cells that sums are of.
var sumCells = []int{rows.Refused, rows.Delayed, rows.Shadow, rows.Units, rows.Unhashed}

// addRow takes in a row.
func (s *clientSum) addRow(l *rows.ClientLine, order string) {
	s.Refused += l.N[rows.Refused]
	s.Delayed += l.N[rows.Delayed]
	s.Shadow += l.N[rows.Shadow]
	s.units += l.N[rows.Units]
	s.unhashed = s.unhashed || l.N[rows.Unhashed] != 0
	for _, c := range clientOrders[order] {
		if rows.CellColumns[c].Way == rows.Greatest {
			s.order = max(s.order, l.N[c])
		} else {
			s.order += l.N[c]
		}
	}
}

func (s *clientSum) isLimited() bool { return s.Refused+s.Delayed+s.Shadow > 0 }

func compareSums(a, b *clientSum) int {
	return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(b.Delayed, a.Delayed), cmp.Compare(b.Shadow, a.Shadow), cmp.Compare(b.units, a.units),
		cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Client, b.Client))
}

// sumClients returns what the clients did that are meant, in an order.
func sumClients(r *query.Reader, order string, limitedOnly bool) []*clientSum {
	var clients perClient[clientSum]
	var out []*clientSum
	need := rows.ClientColumns{Cells: slices.Clone(sumCells)}
	for _, c := range clientOrders[order] {
		if !slices.Contains(need.Cells, c) {
			need.Cells = append(need.Cells, c)
		}
	}
	r.EachClientRow(r.From, r.To, need, func(l *rows.ClientLine) {
		s, first := clients.findClient(l)
		if first {
			s.ClientKey = clients.last
			out = append(out, s)
		}
		s.addRow(l, order)
	})
	if limitedOnly {
		out = slices.DeleteFunc(out, func(s *clientSum) bool { return !s.isLimited() })
	}
	slices.SortFunc(out, compareSums)
	return out
}

// clientsOfSums returns the first clients of those in order. A limit whose numbers changed
// has its clients once.
func clientsOfSums(r *query.Reader, sums []*clientSum, most int) (out []client) {
	type key struct {
		name query.Name
		key  string
	}
	found := map[key]bool{}
	for _, c := range sums[:min(len(sums), most)] {
		k := key{query.LimitName(r.ByID[c.Limit]), c.Client}
		if !found[k] {
			found[k] = true
			out = append(out, client{name: k.name, key: k.key})
		}
	}
	return out
}

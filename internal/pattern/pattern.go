// Package pattern finds values by texts in which each * stands for any text, also none:
// the first of many that a text fits, without trying them all.
package pattern

import (
	"slices"
	"strings"
)

// pattern is text in which each * stands for any text, also none.
type pattern struct {
	prefix, suffix string
	middle         []string
}

func newPattern(s string) pattern {
	parts := strings.Split(s, "*")
	p := pattern{prefix: parts[0], suffix: parts[len(parts)-1]}
	for _, m := range parts[1 : len(parts)-1] {
		if m != "" {
			p.middle = append(p.middle, m)
		}
	}
	return p
}

// Is reports whether s has a * in it.
func Is(s string) bool { return strings.Contains(s, "*") }

// match reports whether all of s fits the pattern.
func (p *pattern) match(s string) bool {
	if len(s) < len(p.prefix)+len(p.suffix) || !strings.HasPrefix(s, p.prefix) || !strings.HasSuffix(s, p.suffix) {
		return false
	}
	s = s[len(p.prefix) : len(s)-len(p.suffix)]
	// Taking each part where it first occurs leaves the most for the rest.
	for _, m := range p.middle {
		at := strings.Index(s, m)
		if at < 0 {
			return false
		}
		s = s[at+len(m):]
	}
	return true
}

// A Table finds the first of many patterns, in the order in which they were
// added, that a text fits. The patterns are kept in a radix tree by what stands
// before their first *, beneath that by what stands after their last one, and
// beneath that, where many are left, by one of the parts between. So only those
// are tried of which these three are in the text.
//
// The zero value is empty. It is safe for concurrent reading.
type Table[T any] struct {
	root radix[*radix[*alike[T]]]
	n    int
}

type wildcard[T any] struct {
	pattern
	order int
	value T
}

// alike holds the patterns that begin and end alike, in order.
type alike[T any] struct {
	list []wildcard[T]
	// byMiddle finds patterns, by their index in list, by one of their middle
	// parts: that which the fewest others had chosen. Nil while there are few.
	byMiddle *radix[[]int]
}

// linearPatterns is how many patterns are tried one after the other rather than
// looked for at every place of the text.
const linearPatterns = 8

// AddPattern adds a pattern behind all others.
func (w *Table[T]) AddPattern(s string, value T) {
	p := newPattern(s)
	byPrefix := w.root.insert(p.prefix)
	if byPrefix.value == nil {
		byPrefix.value = &radix[*alike[T]]{backward: true}
	}
	bySuffix := byPrefix.value.insert(p.suffix)
	if bySuffix.value == nil {
		bySuffix.value = &alike[T]{}
	}
	bySuffix.value.addWildcard(wildcard[T]{pattern: p, order: w.n, value: value})
	w.n++
}

func (a *alike[T]) addWildcard(c wildcard[T]) {
	a.list = append(a.list, c)
	switch n := len(a.list); {
	case n <= linearPatterns:
	case a.byMiddle == nil:
		a.byMiddle = &radix[[]int]{}
		for i := range a.list {
			a.indexMiddle(i)
		}
	default:
		a.indexMiddle(n - 1)
	}
}

// indexMiddle enters pattern i in byMiddle. One without a middle fits whatever its
// ends fit, and is found by the empty part.
func (a *alike[T]) indexMiddle(i int) {
	at := a.byMiddle
	for n, m := range a.list[i].middle {
		node := a.byMiddle.insert(m)
		if n == 0 || len(node.value) < len(at.value) || len(node.value) == len(at.value) && len(m) > len(at.label) {
			at = node
		}
	}
	at.value = append(at.value, i)
}

// FindFirst returns the value of the first pattern that s fits.
func (w *Table[T]) FindFirst(s string) (value T, ok bool) {
	if w.n == 0 {
		return value, false
	}
	var best *wildcard[T]
	for p, at := &w.root, 0; p != nil; p, at = p.nextNode(s, at) {
		if p.value == nil {
			continue
		}
		for q, end := p.value, 0; q != nil; q, end = q.nextNode(s, end) {
			if q.value != nil && at+end <= len(s) {
				best = q.value.findWildcard(s, at, len(s)-end, best)
			}
		}
	}
	if best == nil {
		return value, false
	}
	return best.value, true
}

// findWildcard returns the first pattern that s fits, or best if that comes first.
// from and to are where the middle of s begins and ends.
func (a *alike[T]) findWildcard(s string, from, to int, best *wildcard[T]) *wildcard[T] {
	if a.byMiddle == nil {
		for i := range a.list {
			if c := &a.list[i]; best != nil && c.order >= best.order {
				break
			} else if c.match(s) {
				return c
			}
		}
		return best
	}
	best = a.firstMatching(a.byMiddle.value, s, best)
	for ; from < to; from++ {
		for n, at := a.byMiddle.nextNode(s[:to], from); n != nil; n, at = n.nextNode(s[:to], at) {
			best = a.firstMatching(n.value, s, best)
		}
	}
	return best
}

// firstMatching returns the first pattern of some that s fits, or best if that comes
// first.
func (a *alike[T]) firstMatching(some []int, s string, best *wildcard[T]) *wildcard[T] {
	for _, i := range some {
		if c := &a.list[i]; best != nil && c.order >= best.order {
			break
		} else if c.match(s) {
			return c
		}
	}
	return best
}

// Texts finds the value for a text: that of the text itself, else that of the first
// pattern that it fits. The zero value is empty. It is safe for concurrent reading.
type Texts[T any] struct {
	exact map[string]T
	wild  Table[T]
}

// AddText adds a text or a pattern.
func (b *Texts[T]) AddText(text string, value T) {
	if Is(text) {
		b.wild.AddPattern(text, value)
		return
	}
	if b.exact == nil {
		b.exact = map[string]T{}
	}
	b.exact[text] = value
}

// FindText returns the value for a text.
func (b *Texts[T]) FindText(text string) (T, bool) {
	if v, ok := b.exact[text]; ok {
		return v, true
	}
	return b.wild.FindFirst(text)
}

// radix is a node of a tree of strings, each edge as long as it can be. A
// backward tree reads strings from their end.
type radix[V any] struct {
	// label is the text of the edge that leads here, in reading order.
	label    string
	kids     []*radix[V]
	value    V
	backward bool
}

// nextNode returns the node that s leads to from t, at bytes of s being read, and
// how many are read then.
func (t *radix[V]) nextNode(s string, at int) (*radix[V], int) {
	if at >= len(s) {
		return nil, at
	}
	c := t.byteAt(s, at)
	// Binary search by first byte.
	lo, hi := 0, len(t.kids)
	for lo < hi {
		if mid := (lo + hi) / 2; t.kids[mid].label[0] < c {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(t.kids) {
		return nil, at
	}
	kid := t.kids[lo]
	if len(s)-at < len(kid.label) {
		return nil, at
	}
	for i := 0; i < len(kid.label); i++ {
		if kid.label[i] != t.byteAt(s, at+i) {
			return nil, at
		}
	}
	return kid, at + len(kid.label)
}

func (t *radix[V]) byteAt(s string, i int) byte {
	if t.backward {
		return s[len(s)-1-i]
	}
	return s[i]
}

// insert returns the node of s, which it makes if there is none.
func (t *radix[V]) insert(s string) *radix[V] {
	if t.backward {
		b := []byte(s)
		slices.Reverse(b)
		s = string(b)
	}
	for s != "" {
		i := 0
		for i < len(t.kids) && t.kids[i].label[0] < s[0] {
			i++
		}
		if i == len(t.kids) || t.kids[i].label[0] != s[0] {
			kid := &radix[V]{label: s, backward: t.backward}
			t.kids = slices.Insert(t.kids, i, kid)
			return kid
		}
		kid := t.kids[i]
		common := 0
		for common < len(s) && common < len(kid.label) && s[common] == kid.label[common] {
			common++
		}
		if common < len(kid.label) {
			split := &radix[V]{label: kid.label[:common], backward: t.backward, kids: []*radix[V]{kid}}
			kid.label = kid.label[common:]
			t.kids[i] = split
			kid = split
		}
		t, s = kid, s[common:]
	}
	return t
}

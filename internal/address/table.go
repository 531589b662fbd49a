package address

import (
	"iter"
	"net/netip"
	"slices"
)

// Table is values of prefixes, found by the addresses and prefixes that lie in them. The
// zero Table is empty. It is safe for concurrent reading.
type Table[V any] struct {
	values map[netip.Prefix]V
	// bits4 and bits6 are the lengths of the prefixes of each family, the shortest first.
	bits4, bits6 []int
}

// Put puts v at p, in the place of what was there.
func (t *Table[V]) Put(p netip.Prefix, v V) {
	p = Unmap(p).Masked()
	if t.values == nil {
		t.values = map[netip.Prefix]V{}
	}
	t.values[p] = v
	bits := &t.bits6
	if p.Addr().Is4() {
		bits = &t.bits4
	}
	if i, found := slices.BinarySearch(*bits, p.Bits()); !found {
		*bits = slices.Insert(*bits, i, p.Bits())
	}
}

// At returns the value of p itself.
func (t *Table[V]) At(p netip.Prefix) (v V, ok bool) {
	v, ok = t.values[Unmap(p).Masked()]
	return v, ok
}

// Holding returns the values of the prefixes in which the whole of p lies, the widest
// first: a front end may name an IPv6 client by its /64. It does not allocate.
func (t *Table[V]) Holding(p netip.Prefix) iter.Seq[V] {
	return func(yield func(V) bool) {
		a, bits := p.Addr(), t.bits6
		if a.Is4() {
			bits = t.bits4
		}
		for _, b := range bits {
			wide, err := a.Prefix(b)
			if err != nil || b > p.Bits() {
				return
			}
			if v, ok := t.values[wide]; ok && !yield(v) {
				return
			}
		}
	}
}

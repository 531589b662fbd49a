package weir

import "fmt"

// Rules say which limits a request meets. Implementations are safe for
// concurrent use.
type Rules interface {
	// Match appends the ops by which r meets its limits, and returns the
	// extended slice. No op means that r is not limited. It must not keep dst
	// or r. [Limit.Append] makes the ops of one limit, [Request.Key] its key.
	Match(dst []Op, r *Request) []Op
}

// KeyList is what a descriptor needs to meet some rule: the keys of its entries,
// outermost first.
type KeyList struct {
	Keys []string
	// Repeats reports whether a descriptor with these keys and the values of entries
	// meets the rule that one without its last entry meets as well: that entry only
	// names a tier. Who sends both would be charged twice. Nil means that none does.
	Repeats func(entries []Entry) bool
}

// Catalog is implemented by Rules that know which requests they are for, as those of files
// do. Where rules are none, [Limiter.Take] takes a request that meets no limit for a mistake,
// and [Limiter.TakeBy] takes none for one.
type Catalog interface {
	// KeyLists returns the keys of the descriptors that the rules of a domain, or
	// what they choose by, are matched by. It returns the same slice until the rules
	// change; nobody may change it.
	KeyLists(domain string) []KeyList
	// Exempts reports whether r, for which Match appends nothing, is left without a limit
	// on purpose: its limit was switched off, or a list lets it pass. It may use r as Match
	// does.
	Exempts(r *Request) bool
	// Misspelt says why no rule looks at r, for which Match appends nothing: there is no
	// such domain, or none of its rules is matched by these keys, whatever their values.
	// It names what is near. Empty means that a rule looks at r. It may use r as Match
	// does.
	Misspelt(r *Request) string
}

// Limits are rules without a choice: every descriptor meets each limit, under
// the key that its values make.
type Limits []*Limit

// Match implements Rules.
func (ls Limits) Match(dst []Op, r *Request) []Op {
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		key, from := r.KeyOf(d), len(dst)
		for _, l := range ls {
			dst = l.Append(dst, key, r.costOf(d), r)
		}
		for j := from; j < len(dst); j++ {
			dst[j].Descriptor = uint16(i)
			if d.Peek {
				dst[j].Verb = Peek
			}
		}
	}
	return dst
}

// compile prepares the limits for use, and refuses what would count in each
// other's counters: all of them meet the same keys.
func (ls Limits) compile() error {
	first := make(map[uint64]int, len(ls))
	for i, l := range ls {
		if l == nil {
			return fmt.Errorf("weir: limit %d of %d is nil: leave it out", i+1, len(ls))
		}
		if err := l.Compile(); err != nil {
			return fmt.Errorf("weir: limit %d of %d: %w", i+1, len(ls), err)
		}
		if j, ok := first[l.id]; ok {
			return fmt.Errorf("weir: limits %d and %d of %d would share counters, as both have the scope %q: give each a Name of its own", j+1, i+1, len(ls), l.Scope)
		}
		first[l.id] = i
	}
	return nil
}

// costOf returns the cost of descriptor d.
func (r *Request) costOf(d *Descriptor) int64 {
	switch {
	case d.Cost != 0:
		return d.Cost
	case r.Cost != 0:
		return r.Cost
	}
	return 1
}

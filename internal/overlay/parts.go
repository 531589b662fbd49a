package overlay

import (
	"slices"

	"github.com/weirlimit/weir"
)

// partsOf returns where the ops begin and end that carry out the limit of ops[at].
func partsOf(ops []weir.Op, at int) (from, to int) {
	l := ops[at].Limit
	for from = at; from > 0 && ops[from-1].Of == l && (ops[from-1].Part == weir.PartBan || ops[from-1].Part == weir.PartCeiling); {
		from--
	}
	for to = at + 1; to < len(ops) && ops[to].Of == l && (ops[to].Part == weir.PartThreshold || ops[to].Part == weir.PartPool); {
		to++
	}
	return from, to
}

// override makes ops, which carry out one limit, those of a variant of it.
func override(ops []weir.Op, with *weir.Limit) {
	for i := range ops {
		o := &ops[i]
		if o.Part != weir.PartLimit {
			o.Limit, o.Of = with.Part(o.Part), with
			continue
		}
		if p := slices.Index(o.Limit.Headroom, o.Headroom); p >= 0 {
			o.Headroom = with.Headroom[p]
		}
		o.Limit = with
	}
}

// replace puts instead in the place of s[begin:end], within the capacity of
// s if that is enough.
func replace(s []weir.Op, begin, end int, instead []weir.Op) []weir.Op {
	by := len(instead) - (end - begin)
	for range by {
		s = append(s, weir.Op{})
	}
	old := len(s) - max(by, 0)
	copy(s[end+by:], s[end:old])
	copy(s[begin:], instead)
	return s[:old+by]
}

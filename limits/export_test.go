package limits

import "github.com/weirlimit/weir"

// MatchTraced matches a request as Explain does.
func MatchTraced(s *Set, r *weir.Request) []weir.Op {
	d := domain{layers: layersOf(s, r.Domain)}
	return d.matchRequest(nil, r, &trace{x: s.Explain(r)})
}

// Unmark has all branches be walked as if they had a choice, and returns how many had none.
func Unmark(s *Set) (n int) {
	for _, l := range s.layers {
		n += unmark(&l.root)
	}
	return n
}

func unmark(lv *level) (n int) {
	for _, b := range lv.keys {
		if b.single != nil {
			n += 1 + unmark(&b.single.kids)
			b.single = nil
		}
	}
	return n
}

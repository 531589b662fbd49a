package admit

import "github.com/weirlimit/weir"

// Refunds appends to dst what gives back the cost of ops, which a request has met before.
// It reports whether permits are among ops: those are released, not given back. It returns
// weir.ErrRefund for a limit that takes no units back, and weir.ErrNode for one that each node
// counts alone, as nobody says which was charged.
//
// Whether units came from a key's own share or from the pool is not known any more: the
// pool's are given back, so that no key gets more than its own.
func Refunds(s weir.Store, dst, ops []weir.Op) (refunds []weir.Op, permits bool, err error) {
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Ban || o.Role == weir.Deny || o.Role == weir.Own {
			continue
		}
		_, alone := weir.NodeOf(s, o.Limit)
		switch t := o.Limit.Traits(); {
		case t&weir.Leases != 0:
			permits = true
		case t&(weir.Sketches|weir.Shapes) != 0:
			return dst, permits, weir.ErrRefund
		case alone:
			return dst, permits, weir.ErrNode
		default:
			dst = append(dst, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, Role: weir.Always, Verb: weir.Refund, Descriptor: o.Descriptor})
		}
	}
	return dst, permits, nil
}

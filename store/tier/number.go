package tier

import (
	"errors"
	"math"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// numbers are how many marks of a limit a node uses by turns, an epoch each: when the
// turn of one comes again, the store has forgotten it.
const numbers = 3

// A number names the next fetch of a lease to the shared store, so that a fetch whose
// answer was lost with its connection can be repeated. The store counts the fetches
// that it carries out by a mark, in the same call: the fetch of number n brings units
// only while fewer than n were counted. Where n were, the one that was not answered had
// been carried out: the node takes over what it brought.
//
// Invariant: of all fetches of one number at most one is ever carried out, also of
// those that arrive late.
//
// It belongs to the fetch that is under way. The zero value is that of a new lease.
type number struct {
	// epoch is that of the mark, by the node's monotonic time, 0 before the first fetch
	// that has a number, and counted how many fetches the mark has counted; -1: not known.
	epoch, counted int64
	// sure: no other fetch of the number counted+1 can be under way than those in lost.
	sure bool
	// lost is how many units the fetches of the number counted+1 asked for which were
	// not answered, the least of them; 0: there is none. The first was sent at sent, by
	// the node's time, and not before from by the store's.
	lost, sent, from int64
	// by is the plan that they asked by.
	by *plan
}

// turn goes over to the mark of the present epoch, unless a fetch of the one before is
// still to be repeated. The mark has counted nothing, unless the lease is new: an earlier
// one of the key may have used it.
func (n *number) turn(ticked, now int64) {
	if n.lost > 0 && now-n.sent > giveUpAfter {
		n.forget()
	}
	switch k := 1 + ticked/epoch; {
	case n.epoch == 0:
		n.epoch, n.counted = k, -1
	case k > n.epoch && n.lost == 0:
		n.epoch, n.counted, n.sure = k, 0, true
	}
}

// forget gives up what was not answered: what it brought, if anything, stays spent.
func (n *number) forget() { n.counted, n.sure, n.lost = -1, false, 0 }

// reload forgets what was not answered if its units are others under the plan p: charged
// at another price, or to a window of another length.
func (n *number) reload(p *plan) {
	if n.lost > 0 && (!p.costsAs(n.by) || p.limit.Period != n.by.limit.Period) {
		n.forget()
	}
}

// missed notes that a fetch of so many units by p was not answered. behind is how far
// the store's time is ahead of the node's at least.
func (n *number) missed(p *plan, units, sent, behind int64) {
	from := sent + behind
	switch {
	case n.counted < 0:
	case !n.sure, behind == math.MinInt64:
		n.forget()
	case n.lost == 0:
		n.lost, n.sent, n.from, n.by = units, sent, from, p
	default:
		n.lost = min(n.lost, units)
	}
}

// mark returns the op that counts a fetch, or looks how many were counted.
func (n *number) mark(p *plan, key string) weir.Op {
	o := weir.Op{Key: key, Limit: p.marks[n.epoch%numbers], Cost: 1, Headroom: markCount - n.counted - 1}
	if n.counted < 0 {
		o.Headroom, o.Role, o.Verb = 0, weir.Always, weir.Peek
	}
	return o
}

// newMarks fills in the marks of a leased limit. Windows that begin with the first
// request have none: when such a window began cannot be told of a fetch whose answer
// was lost.
func (p *plan) newMarks(node string) error {
	l := p.limit
	if l.Anchor == params.AnchorFirst && l.Algorithm == algorithm.FixedWindow {
		return nil
	}
	var marks [numbers]*weir.Limit
	for i := range marks {
		marks[i] = &weir.Limit{
			Name: l.Name + " fetches", Scope: l.Scope + "\x1ffetches " + string(rune('0'+i)) + " " + node, Algorithm: algorithm.FixedWindow,
			Count: markCount, Period: markLife, Params: params.Params{Anchor: params.AnchorFirst},
		}
		if err := marks[i].Compile(); err != nil {
			return err
		}
	}
	p.marks = &marks
	return nil
}

// errNumber: the shared store has counted other fetches than this node has sent.
var errNumber = errors.New("tier: the shared store does not know this node's fetches")

// askNumbered is ask under the number of e. If the fetch before was carried out and not
// answered, it brings what that has brought.
func (s *Store) askNumbered(e *lease, p *plan, units int64, take func([]weir.Op) (int64, error)) (asked, int64, error) {
	n := &e.number
	n.reload(p)
	var sent int64
	for range 3 {
		n.turn(s.link.ticked(), s.link.now())
		behind := s.behind.Load()
		ops := []weir.Op{n.mark(p, e.key), {Key: e.key, Limit: p.fetchBy(units), Cost: units}}
		var err error
		if sent, err = take(ops); err != nil {
			n.missed(p, units, sent, behind)
			return asked{}, sent, err
		}
		mark, o := &ops[0], ops[1]
		s.heard(o.Now, sent)
		counted, was := markCount-mark.Decision.Remaining, n.counted
		switch {
		case mark.Decision.Guarantee().Source == weir.FromSuccessor:
			// Another server answers, which has not seen the fetches before.
			n.forget()
			if o.Charged || !o.Decision.Allowed() || was < 0 {
				return asked{Op: o}, sent, nil
			}
		case was < 0:
			n.counted = counted
			return asked{Op: o}, sent, nil
		case o.Charged:
			n.counted, n.sure, n.lost = counted, true, 0
			return asked{Op: o}, sent, nil
		case counted <= was:
			return asked{Op: o}, sent, nil // the limit has too little
		default:
			lost, from := n.lost, n.from
			mine := lost > 0 && counted == was+1 && o.Now-from >= sent-n.sent
			begun := n.sent
			n.counted, n.lost = counted, 0
			if !mine {
				n.sure = false
				continue
			}
			if t := p.found(lost, begun, from, sent, o.Now); t.expiry > s.link.now() {
				o.Charged, o.Cost = true, lost
				return asked{Op: o, found: t}, sent, nil
			}
		}
	}
	return asked{}, sent, errNumber
}

// found returns the units of a fetch that was first sent at begun, not before from by
// the store's time, and was carried out since: as what it was at the earliest. The
// store's time was now when it was asked at sent.
func (p *plan) found(units, begun, from, sent, now int64) lot {
	t := lot{units: units, fetched: units, expiry: begun + p.life(units), charged: from}
	if p.bucket {
		t.receipt = from + max(p.inflowTime(units)-1, 0)
		return t
	}
	t.receipt = p.receiptAt(from)
	if by := p.lender.SpendBy(p.limit, t.receipt); by != math.MaxInt64 {
		t.expiry = sent + by - now
	}
	return t
}

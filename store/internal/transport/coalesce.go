package transport

import (
	"hash/maphash"
	"slices"

	"github.com/weirlimit/weir"
)

// maxSpends is how many spends of one key are sent in one call.
const maxSpends = 64

// Spends of one key that come while another is under way are sent in one call, in the
// order in which they came. All of them were waiting when the call was made, so the
// store might have met them in just that order: the decisions are those that each would
// have got alone.

// setKey lets other spends of the key join the call, if it is a spend that stands alone.
func (q *Queue) setKey(c *Call) {
	o := &c.Ops[0]
	if len(c.Ops) != 1 || !IsSpend(o) || o.Cost == 0 || o.Limit.Traits()&weir.Leases != 0 {
		return
	}
	c.key, c.limit = o.Key, o.Limit
	c.tag = max(maphash.String(q.seed, o.Key)^o.Limit.ID(), 1)
}

// joinBehind puts a spend behind the call under way for its key, and reports whether there is
// room. Requires: mu.
func (s *shard) joinBehind(first, c *Call) bool {
	if len(first.behind) >= s.q.opt.PerKey {
		first.behind = slices.DeleteFunc(first.behind, func(c *Call) bool { return c.left })
		if len(first.behind) >= s.q.opt.PerKey {
			return false
		}
	}
	first.behind = append(first.behind, c)
	return true
}

// mergeBehind lets the spends behind a call that is being sent go with it: as many in a row as
// have the same cost. As each is refused if one before it was, what they add up to can
// be told from the decisions of each. Requires: mu.
func (s *shard) mergeBehind(c *Call) {
	if len(c.behind) == 0 {
		return
	}
	n, o := 0, c.Ops[0]
	for _, f := range c.behind {
		if !f.left {
			if f.Ops[0].Cost != o.Cost || len(c.with) == maxSpends-1 || int64(len(c.with)+2) > weir.MaxCost/o.Cost {
				break
			}
			f.state, f.sent = sent, c.sent
			c.with = append(c.with, f)
			s.live--
		}
		n++
	}
	c.behind = slices.Delete(c.behind, 0, n)
	if len(c.with) == 0 {
		return
	}
	// Each decides for itself, one after the other.
	c.Ops[0].Role = weir.Always
	for range c.with {
		c.Ops = append(c.Ops, c.Ops[0])
	}
	s.q.stats.combined.Add(uint64(len(c.with)))
}

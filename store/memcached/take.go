package memcached

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A call is ops of one server on their way.
type call struct {
	*Store
	conn *slot
	ops  []weir.Op
	now  int64
	// deadline is when charging has to be done, end when taking back has.
	deadline, end time.Time

	taken    []taken // one for each op
	counters []*counter
	pass     bool // as settled
	cells    [2]int64
}

// A taken is what a call has done for one op.
type taken struct {
	*counter // nil for an op that refuses without being asked
	// earlier is the cost of ops of the same call on the same counter.
	earlier int64
	again   bool // an earlier op has the same counter
	// charged is what was added to the count, negative if it was taken off.
	charged int64
}

// findCounters checks ops and finds the counter of each.
func (c *call) findCounters() error {
	c.taken = make([]taken, len(c.ops))
	for i := range c.ops {
		o, t := &c.ops[i], &c.taken[i]
		o.Answer = weir.Answer{Decision: o.Decision, Now: c.now}
		if o.Role == weir.Deny {
			continue
		}
		if err := transport.CheckCost(o); err != nil {
			return err
		}
		if err := servable(o.Limit); err != nil {
			return err
		}
		k := new(counter)
		c.Store.locateCounter(k, o.Key, o.Limit, c.windowEnd(o.Limit))
		t.counter = k
		for j := range i {
			e := &c.taken[j]
			if e.counter == nil || e.key != k.key {
				continue
			}
			t.counter, t.again = e.counter, true
			if v := c.ops[j].Verb; v == weir.Spend || v == weir.Force {
				t.earlier = min(t.earlier+c.ops[j].Cost, weir.MaxCost+1)
			}
		}
		if t.earlier+o.Cost+o.Headroom > weir.MaxCost {
			return weir.ErrCost
		}
		if !t.again {
			var err error
			if k.expire, err = encodeExpiry(k.end-c.now, time.Now().Unix()); err != nil {
				return err
			}
			c.counters = append(c.counters, k)
		}
	}
	return nil
}

// windowEnd returns the end of the window of l that now lies in: the algorithm's
// own answer to a first unit.
func (c *call) windowEnd(l *weir.Limit) int64 {
	c.cells = [2]int64{}
	l.Algorithm.Step(c.cells[:], l, weir.Ask{Now: c.now, Cost: 1, Verb: weir.Force})
	return c.cells[0] >> weir.FractionBits
}

// decideByCount answers an ask of o from a count, as the algorithm does.
func (c *call) decideByCount(i int, count, cost int64, v weir.Verb) weir.Decision {
	o := &c.ops[i]
	c.cells = [2]int64{}
	if count > 0 {
		c.cells = [2]int64{c.taken[i].counter.end << weir.FractionBits, min(count, weir.MaxCost)}
	}
	return o.Limit.Algorithm.Step(c.cells[:], o.Limit, weir.Ask{Now: c.now, Cost: cost, Verb: v})
}

// decideOps decides. Where every op just has to allow it charges at once, and goes on
// only when that fails: it looks, settles and charges, and when somebody else was
// faster takes back and settles again by what it has learned.
//
// Each round that fails finds one more op refused than the one before, so there
// are no more rounds than ops.
func (c *call) decideOps() error {
	tried := c.isSpendOnly()
	if tried {
		c.pass = true
		for i := range c.ops {
			o := &c.ops[i]
			o.Answer = weir.Answer{Decision: weir.Decision{Limit: o.Limit}, Now: c.now, Charged: true}
		}
		if done, err := c.chargeSettled(); done || err != nil {
			return err
		}
	}
	// A refusal by the only counter has told what it holds.
	if !tried || len(c.counters) > 1 {
		if err := c.conn.readCounts(c.deadline, c.counters); err != nil {
			return err
		}
	}
	for range len(c.ops) + 1 {
		c.answerPeeks()
		c.pass = weir.Resolve(c.ops)
		if done, err := c.chargeSettled(); done || err != nil {
			return err
		}
	}
	return storeErrorf("ops of one request contend with each other: this cannot be, please report it")
}

// isSpendOnly reports whether all ops are spends that must allow, of different keys
// that are likely to have room.
func (c *call) isSpendOnly() bool {
	for i := range c.ops {
		o, t := &c.ops[i], &c.taken[i]
		if !transport.IsSpend(o) || o.Cost == 0 || o.Cost > o.Limit.Count || t.again || c.wasRefused(t.counter) {
			return false
		}
	}
	return true
}

// answerPeeks fills each op's answer to a Peek.
func (c *call) answerPeeks() {
	for _, k := range c.counters {
		k.seen = k.count
	}
	for i := range c.ops {
		o, t := &c.ops[i], &c.taken[i]
		if t.counter == nil {
			continue
		}
		cost := t.earlier + o.Cost + o.Headroom
		if o.Cost == 0 && o.Headroom == 0 {
			cost = 0
		}
		o.Answer = weir.Answer{Decision: c.decideByCount(i, t.count, cost, weir.Peek), Now: c.now}
	}
}

// chargeSettled does what was settled. It reports false if there was less room than was
// thought: then all is taken back, as it is after an error.
func (c *call) chargeSettled() (bool, error) {
	for i := range c.ops {
		o, t := &c.ops[i], &c.taken[i]
		if !o.Charged || t.counter == nil {
			continue
		}
		retry := o.Decision.RetryAfter
		fits, err := c.chargeOne(i)
		if err != nil || !fits {
			c.takeBack()
			return false, err
		}
		// What was refused for the sake of its reserve stays refused: the cost
		// alone would have passed.
		if retry != 0 && o.Decision.RetryAfter == 0 && o.Verb != weir.Refund {
			d := o.Decision
			d.RetryAfter = retry
			o.Answer = o.WithDecision(d)
		}
	}
	return true, nil
}

// chargeOne charges one op and describes it. It reports false if the request was
// to pass because of room that is no longer there.
func (c *call) chargeOne(i int) (bool, error) {
	o, t := &c.ops[i], &c.taken[i]
	verb := o.Commit()
	switch {
	case o.Cost == 0:
		o.Answer = o.WithDecision(c.decideByCount(i, t.seen, 0, verb))
		return true, nil
	case verb == weir.Refund:
		return true, c.refundOp(i)
	}
	count, err := c.conn.incrementKey(c.deadline, t.key, o.Cost, t.expire)
	if err != nil {
		return false, err
	}
	c.recordCount(t, o.Cost, count)
	switch {
	case c.reliesOn(i) && count+o.Headroom > o.Limit.Count:
		t.count = max(t.count, count-t.mine)
		return false, nil
	case verb == weir.Spend && count > o.Limit.Count:
		// Charged whatever it says, and it says that there is no room.
		o.Answer = o.WithDecision(c.decideByCount(i, count-o.Cost, o.Cost, weir.Spend))
		return true, c.undoCharge(t, o.Cost)
	}
	o.Answer = o.WithDecision(c.decideByCount(i, count-o.Cost, o.Cost, verb))
	// Counts end at MaxCost, or forced ones could come round to zero.
	if over := min(count-weir.MaxCost, o.Cost); over > 0 {
		return true, c.undoCharge(t, over)
	}
	return true, nil
}

// reliesOn reports whether the request passes because the i-th op has room.
func (c *call) reliesOn(i int) bool {
	o := &c.ops[i]
	if !c.pass || o.Verb != weir.Spend || !o.Decision.Allowed() {
		return false
	}
	switch o.Role {
	case weir.Enforce, weir.Own, weir.Shadow:
		return true
	case weir.Pool:
		return o.Borrowed
	}
	return false
}

// refundOp gives back to the window that is open; to one that is over there is
// nothing to give back.
func (c *call) refundOp(i int) error {
	o, t := &c.ops[i], &c.taken[i]
	if t.seen > 0 && (o.ID == 0 || o.ID == t.counter.end) {
		if err := c.subtractCost(c.deadline, t, min(o.Cost, t.seen)); err != nil {
			return err
		}
	}
	o.Answer = o.WithDecision(c.decideByCount(i, t.seen, 0, weir.Refund))
	return nil
}

// subtractCost takes cost off the counter of t.
func (c *call) subtractCost(by time.Time, t *taken, cost int64) error {
	count, err := c.conn.decrementKey(by, t.key, cost)
	if err != nil {
		return err
	}
	c.recordCount(t, -cost, count)
	return nil
}

// undoCharge takes back what was charged to the counter of t. Where that fails it is not
// tried again: it may have been done.
func (c *call) undoCharge(t *taken, cost int64) error {
	err := c.subtractCost(c.end, t, cost)
	if err != nil {
		t.charged -= cost
		c.kept.Add(1)
	}
	return err
}

func (c *call) recordCount(t *taken, charged, count int64) {
	t.charged += charged
	t.mine += charged
	t.seen = count
}

// takeBack undoes what was charged, with the time that was kept for it.
func (c *call) takeBack() {
	for i := range c.taken {
		t := &c.taken[i]
		if t.counter == nil || t.charged == 0 {
			continue
		}
		var err error
		if t.charged > 0 {
			_, err = c.conn.decrementKey(c.end, t.key, t.charged)
		} else {
			_, err = c.conn.incrementKey(c.end, t.key, -t.charged, t.expire)
		}
		// The answer that is under way stands all the same: what is kept makes
		// later ones refuse, and Stats tells.
		if err != nil {
			c.kept.Add(1)
		} else {
			c.undone.Add(1)
		}
		t.charged = 0
	}
	for _, k := range c.counters {
		k.mine = 0
	}
}

// remember notes which keys refused, so that the next request looks first.
func (c *call) remember() {
	for i := range c.ops {
		if t := &c.taken[i]; t.counter != nil && !t.again && c.ops[i].Verb == weir.Spend {
			c.noteRefused(t.counter, !c.ops[i].Decision.Allowed())
		}
	}
}

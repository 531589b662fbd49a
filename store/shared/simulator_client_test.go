package shared

import (
	"context"
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/neighbor"
	"github.com/weirlimit/weir/params"
)

// A client asks its node for decisions, one after the other, has permits, and gives back
// what it was charged.
type client struct {
	*node
	at      int // the limit that it asks for a while
	permits []held
	last    weir.Op // what it was charged last, and may give back
	ops     [2]weir.Op
	spare   *asking // of a request that has ended
	steps   func()  // step, which each start would allocate anew
}

// A held is a permit that a client has, until it is done.
type held struct{ id, units, done int64 }

// A reservation is a charge that is settled later, once, by whichever client comes.
type reservation struct {
	name   string // of its mark
	op     weir.Op
	back   int64 // units that are given back
	made   int64
	until  int64 // when the mark may be forgotten
	tries  int
	closed bool // the mark was set
}

// step asks for a decision, and has the next step come, until the client is to go.
func (c *client) step() {
	if c.isOver || c.closing {
		for _, p := range c.permits {
			c.release(p)
		}
		return
	}
	c.decide()
	c.start(c.machine, c.now+max(int64(c.ExpFloat64()*float64(c.pause)), 1), c.steps)
}

// decide asks for one decision, and releases the permits that are done.
func (c *client) decide() {
	for i := 0; i < len(c.permits); i++ {
		if p := c.permits[i]; c.now >= p.done {
			c.permits[i] = c.permits[len(c.permits)-1]
			c.permits = c.permits[:len(c.permits)-1]
			c.release(p)
		}
	}
	what := c.IntN(c.seldom)
	if what == 0 || c.isQuick && what%16 == 0 {
		c.at = c.asked[c.IntN(len(c.asked))]
	}
	c.decisions++
	switch {
	case c.at == atPermits:
		c.acquire()
	case what == 1 && c.layout != regions: // else they are settled where they were made
		c.reserve()
	case what <= 3 && len(c.reservations) > 0:
		c.settle()
	case what == 4 && c.last.Cost > 0:
		c.giveBack()
	case what <= 6, what <= 16 && c.layout != alone:
		c.takeTwo()
	case what < 32 || c.at == atTally:
		c.ops[0] = c.op(c.at)
		c.take(c.ops[:1])
	default:
		o := c.op(c.at)
		a := c.ask()
		d, err := c.store.TakeOne(a, o.Key, o.Limit, o.Cost)
		c.answered(a)
		o.Decision, o.Charged = d, err == nil && d.Allowed()
		c.note(&o, true)
	}
}

// op returns a spend by a limit.
func (c *client) op(at int) weir.Op {
	l := c.limits[at]
	return weir.Op{Key: l.Name, Limit: l, Cost: 1 + c.Int64N(2)*c.Int64N(2), Descriptor: marked}
}

// take asks for a decision and tells the oracles of what was charged. It reports whether
// the request may pass, and whether servers have decided it.
func (c *client) take(ops []weir.Op) (passes, byServer bool) {
	a, before := c.ask(), c.sureness
	err := c.store.Take(a, ops)
	if c.answered(a); err == nil {
		c.check(a, before, ops)
	}
	byServer = err == nil && !slices.ContainsFunc(ops, func(o weir.Op) bool { return isByPolicy(o.Decision) })
	if passes = err == nil && weir.Fold(ops).Allowed(); !passes {
		if at := c.limitOf(ops[0].Limit.ID()); len(ops) == 2 && ops[1].Role == weir.Shadow && (a.charged[at] > 0 || before != c.sureness) {
			c.truths[at].refund(c.homeAt(at).time(), ops[0].Cost, 0) // it is undone
		}
		return false, byServer
	}
	for i := range ops {
		o := &ops[i]
		if c.note(o, len(ops) == 1); o.Limit != c.marks && o.Verb == weir.Spend && o.Charged && !o.Decision.Degraded() && o.Limit.Traits()&weir.Leases == 0 {
			c.last = *o
		}
	}
	return true, byServer
}

// note tells the oracles of an op of a request that passes: alone, or with others.
func (c *client) note(o *weir.Op, isAlone bool) {
	at := c.limitOf(o.Limit.ID())
	if at < 0 || !o.Charged || o.Verb != weir.Spend || o.Limit.Traits()&weir.Leases != 0 {
		return
	}
	c.event("charged", c.index, int64(at), o.Cost)
	if !isByPolicy(o.Decision) {
		return // a server has noted it, or the node where it was drawn
	}
	if s := c.homeAt(at); !c.isSet && c.isSound(s) && c.now > s.slow+2*budget && (c.isHealthy && c.layout == alone || isAlone && c.layout != ring && c.layout != regions) {
		c.fail("%s is decided by policy, and the server is there", o.Limit.Name)
	}
	c.degraded++
	c.shares[at].admit(c.localTime(), o.Cost)
}

// takeTwo asks for a decision by two limits, of which one may be a shadow.
func (c *client) takeTwo() {
	other := (c.at + 1 + c.IntN(atPermits-1)) % atPermits
	if c.layout == regions && other == atStrict { // no region has it alone
		return
	}
	c.ops[0], c.ops[1] = c.op(c.at), c.op(other)
	if c.IntN(4) == 0 {
		c.ops[1].Role = weir.Shadow
	}
	c.take(c.ops[:2])
}

// giveBack gives back some of what was charged, at once or with another request.
func (c *client) giveBack() {
	o := c.last
	c.last = weir.Op{}
	if !c.isCurrent(&o) {
		return
	}
	back := o.Undo(1 + c.Int64N(o.Cost))
	back.Descriptor = marked
	c.refunded(&o, back.Cost)
	c.ops[0], c.ops[1] = c.op(c.at), back
	if c.IntN(2) == 0 {
		c.ops[0] = back
		c.take(c.ops[:1])
		return
	}
	c.take(c.ops[:2])
}

// isCurrent reports whether an op is of a limit as it is now.
func (f *fleet) isCurrent(o *weir.Op) bool { return f.limits[f.limitOf(o.Limit.ID())] == o.Limit }

// refunded tells the oracles that units are given back, before they are.
func (c *client) refunded(o *weir.Op, units int64) {
	at := c.limitOf(o.Limit.ID())
	c.event("refund", c.index, int64(at), units)
	c.truths[at].refund(c.homeAt(at).time(), units, o.Receipt())
	for _, n := range c.nodes {
		n.shares[at].refund(n.localTime(), units, 0)
	}
}

// reserve charges more than is used.
func (c *client) reserve() {
	if c.ops[0] = c.op(c.at); len(c.reservations) == 8 {
		return
	}
	c.ops[0].Cost = 2 + c.Int64N(4)
	if passes, _ := c.take(c.ops[:1]); passes && !c.ops[0].Decision.Degraded() {
		c.lastID++
		r := &reservation{name: "r" + strconv.FormatInt(c.lastID, 36), op: c.ops[0], made: c.now, until: c.now + 50_000_000}
		r.back = 1 + c.Int64N(r.op.Cost)
		c.reservations = append(c.reservations, r)
	}
}

// settle gives back the rest of a reservation, with a mark that this was done.
func (c *client) settle() {
	i := c.IntN(len(c.reservations))
	r := c.reservations[i]
	if r.tries++; r.tries > 4 || c.now > r.until || !c.isCurrent(&r.op) {
		c.reservations[i] = c.reservations[len(c.reservations)-1]
		c.reservations = c.reservations[:len(c.reservations)-1]
		return
	}
	if r.tries == 1 || c.homeOf(r.op.Key).lostAt >= r.made { // its mark may be lost
		c.refunded(&r.op, r.back)
	}
	ops := []weir.Op{{Key: neighbor.Key(r.op.Key, r.name), Limit: c.marks, Cost: 1, Descriptor: marked}, r.op.UndoRest(r.back)}
	ops[1].Descriptor = marked
	passes, byServer := c.take(ops)
	if c.event("settle", c.index, int64(r.tries)); passes && byServer {
		if r.closed && c.homeOf(r.op.Key).lostAt < r.made {
			c.fail("a reservation is settled twice")
		}
		r.closed = true
	}
}

// acquire asks for a permit, or for one that the client has once more.
func (c *client) acquire() {
	o := c.op(atPermits)
	c.lastID++
	o.ID, o.NewLease = c.lastID, true
	if len(c.permits) > 0 && c.IntN(3) == 0 {
		p := c.permits[c.IntN(len(c.permits))]
		o.ID, o.Cost, o.NewLease = p.id, p.units, false
	}
	from := c.now
	c.ops[0] = o
	passes, byServer := c.take(c.ops[:1])
	if !passes || !byServer {
		return
	}
	if c.ops[0].Decision.Guarantee().Source == weir.FromLease {
		from = c.now
	}
	c.event("acquired", c.index, o.ID)
	c.truths[atPermits].occupy(o.ID, o.Cost, from)
	for _, p := range c.permits {
		if p.id == o.ID {
			return
		}
	}
	if c.IntN(32) > 0 { // else it is lost
		c.permits = append(c.permits, held{o.ID, o.Cost, c.now + int64(c.ExpFloat64()*float64(c.holdFor))})
	}
}

// release gives a permit back.
func (c *client) release(p held) {
	c.truths[atPermits].leave(p.id)
	l := c.limits[atPermits]
	ops := []weir.Op{{Key: l.Name, Limit: l, Cost: p.units, ID: p.id, Role: weir.Always, Verb: weir.Refund, NewLease: true}}
	if err := c.store.Take(context.Background(), ops); err != nil {
		c.event("release lost", c.index, p.id)
	}
}

// policies are what a limit may be decided by while the server is out.
var errorPolicies = []params.StoreErrorPolicy{params.OnErrorLocal, params.OnErrorLocal, params.OnErrorDeny, params.OnErrorLastKnown}

package simulator

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A client asks its node for decisions, one after the other, and has permits.
type client struct {
	*node
	at      int // the limit that it asks for a while
	permits []held
	hold    lot.Hold
}

// A held is a permit that a client has, until it is done.
type held struct{ id, units, done int64 }

type clientKey struct{}

func (c *client) run() {
	for !c.isOver {
		c.decide()
		c.sleep(int64(c.ExpFloat64() * float64(c.pause)))
	}
	for _, p := range c.permits {
		c.release(p)
	}
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
	if c.IntN(16) == 0 {
		c.at = c.asked[c.IntN(len(c.asked))]
	}
	at := c.at
	l := c.limits[at]
	o := weir.Op{Key: l.Name, Limit: l, Cost: 1 + c.Int64N(2)*c.Int64N(2)}
	if l.Traits()&weir.Leases != 0 {
		c.lastID++
		o.ID = c.lastID
		if len(c.permits) > 0 && c.IntN(3) == 0 {
			p := c.permits[c.IntN(len(c.permits))]
			o.ID, o.Cost = p.id, p.units
		}
	}
	ctx := context.Context(context.Background())
	if c.oneOf(c.impatient) {
		ctx = &deadline{ctx, c.world, c.now + 1 + c.Int64N(c.patience)}
	}
	c.decisions++
	from := c.now
	if charged, byStore := c.ask(ctx, &o); charged {
		c.event("charged", c.index, int64(at), o.Cost)
		c.admit(at, &o, from, byStore)
	}
}

// ask decides as the phases of a decision do: it draws, waits for flights, and asks the
// store where it is to. It reports whether o was charged, and whether by the store.
func (c *client) ask(ctx context.Context, o *weir.Op) (charged, byStore bool) {
	ctx = c.queue.Begin(ctx)
	d := c.of(o.Limit)
	for d.Decider != nil {
		v, f := d.Draw(ctx, c.clock.Now(), o, &c.hold)
		switch v {
		case lot.Charged:
			if c.IntN(16) == 0 { // another limit refuses
				h := c.hold
				c.hold = lot.Hold{}
				c.sleep(c.Int64N(3000))
				d.Undo(c.clock.Now(), &h)
				return false, false
			}
			c.hold.Parts = c.hold.Parts[:0]
			return true, false
		case lot.Refused:
			return false, false
		case lot.Wait:
			if err := c.queue.Await(ctx, f.Flight); err != nil || f.Refused > 0 && o.Cost >= f.Refused {
				return false, false
			}
			continue
		}
		break
	}
	ops := []weir.Op{*o}
	if d.asked != nil {
		ops[0].Limit = d.asked(o.Cost)
	}
	sent, err := c.queue.Do(context.WithValue(ctx, clientKey{}, c), ops)
	if c.observe(ops, sent, err) != nil {
		return false, false
	}
	if d.Decider != nil {
		ops[0].Limit = o.Limit
		d.Learn(&ops[0], sent)
	}
	return ops[0].Decision.Allowed(), true
}

// admit tells the oracle what the client has got. What the store has decided it has told
// itself, but for permits.
func (c *client) admit(at int, o *weir.Op, from int64, byStore bool) {
	t := c.truths[at]
	switch {
	case o.ID != 0:
		if !byStore {
			from = c.now
		}
		t.occupy(o.ID, o.Cost, from)
		for _, p := range c.permits {
			if p.id == o.ID {
				return
			}
		}
		done := c.now + int64(c.ExpFloat64()*float64(c.holdFor))
		if c.IntN(32) > 0 { // else it is lost
			c.permits = append(c.permits, held{o.ID, o.Cost, done})
		}
	case !byStore:
		t.admit(c.server.time(), o.Cost)
		if o.Limit.Consistency.Mode == params.ConsistencyEventual {
			c.lookAtSlack(o.Limit)
		}
	}
}

// release gives a permit back, to the node or else to the store.
func (c *client) release(p held) {
	at := len(c.limits) - 1
	c.truths[at].leave(p.id)
	o := weir.Op{Key: c.limits[at].Name, Limit: c.limits[at], Cost: p.units, ID: p.id, Role: weir.Always, Verb: weir.Refund}
	if c.permit.Release(c.clock.Now(), &o) {
		return
	}
	ops := []weir.Op{o}
	_, err := c.queue.Later(ops)
	c.event("release", c.index, p.id)
	if err != nil && transport.MayRun(err) {
		c.event("release lost", c.index, p.id)
	}
}

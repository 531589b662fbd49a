package redis

import "github.com/weirlimit/weir"

// encodeCall returns the call that decides ops of one part at n, nil if there is nothing to ask.
func (d driver) encodeCall(n *pipeline, ops []weir.Op) (*call, error) {
	for i := range ops {
		if o := &ops[i]; o.Limit.Consistency.Pinned && d.nodes.isMoved(n, o.Key) {
			return nil, errLostPart
		}
	}
	var c *call
	var err error
	if isSingle(ops) {
		c, err = d.encodeSingle(ops)
	} else {
		c, err = d.encodeGroup(ops)
	}
	if c == nil || err != nil {
		return nil, err
	}
	d.appendTime(c)
	c.to = n
	return c, nil
}

// isSingle reports whether ops are one that stands alone: its answer is the request's.
func isSingle(ops []weir.Op) bool {
	return len(ops) == 1 && ops[0].Role == weir.Enforce && ops[0].Headroom == 0 && !ops[0].Penalize
}

func (d driver) encodeSingle(ops []weir.Op) (*call, error) {
	o := &ops[0]
	if uint64(o.Cost) > weir.MaxCost {
		return nil, weir.ErrCost
	}
	if err := d.refuses(o.Limit, o.AskID(), o.Verb); err != nil {
		return nil, err
	}
	pl, err := d.plans.planForLimit(o.Limit, d.readClock)
	if err != nil {
		return nil, err
	}
	if pl.family != nil && pl.family.isChanged(pl.version) {
		return d.encodeGroup(ops)
	}
	c := newCall(pl.row)
	if o.Verb != weir.Spend || pl.row == nil {
		c.script = pl.single
		c.args = append(c.args, verbs[o.Verb], formatID(o.AskID()))
	}
	c.single = pl
	c.keys = append(c.keys, d.opt.Prefix+":{"+tagForKey(o.Key)+pl.suffix)
	c.args = pl.appendSpan(c.args, o.Limit, o.Cost)
	c.args = append(c.args, pl.consts...)
	return c, nil
}

// decodeReply answers the ops of a call from its reply.
func (c *call) decodeReply(d driver) error {
	switch {
	case len(c.reply) == 0:
		return errReply
	case c.single != nil:
		return d.decodeSingle(c)
	}
	return d.decodeGroup(c)
}

func (d driver) decodeSingle(c *call) error {
	o, pl := &c.carrier.Ops[0], c.single
	if len(c.reply) != 1+pl.twin.States {
		return errReply
	}
	if isInsane(c.reply[1:]) {
		return errSpoilt
	}
	now, allowed := c.reply[0]>>1, c.reply[0]&1 == 1
	a := pl.algorithm.Describe(o.Limit, weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Verb}, allowed, c.reply[1:])
	d.labelMoved(c.to, o, &a)
	charged := o.Verb == weir.Force || o.Verb == weir.Refund || o.Verb == weir.Spend && a.Allowed()
	o.Answer = weir.Answer{Decision: a, Now: now, Charged: charged}
	return nil
}

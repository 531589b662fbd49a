package redis

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// gatherOps fills in w by ops of one part, and reports whether none refuses without being asked.
func (d driver) gatherOps(w *work, ops []weir.Op) (pass bool, err error) {
	w.all, pass = slices.Grow(w.all, len(ops)), true
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			pass = pass && (o.Decision.Allowed() || o.Verb == weir.Force || o.Verb == weir.Refund)
			continue
		}
		a, err := d.checkOp(o, w.all)
		if err != nil {
			return false, err
		}
		a.pool = i+1 < len(ops) && ops[i+1].Role == weir.Pool
		w.all = append(w.all, a)
	}
	for i := range w.all {
		w.group = append(w.group, &w.all[i])
	}
	return pass, nil
}

// encodeGroup returns the call that decides ops together, nil if none has to be asked.
func (d driver) encodeGroup(ops []weir.Op) (*call, error) {
	w := works.Get().(*work)
	pass, err := d.gatherOps(w, ops)
	if err == nil && len(w.group) == 0 {
		err = d.answerOps(ops, nil)
	}
	if err != nil || len(w.group) == 0 {
		w.recycle()
		return nil, err
	}
	var c *call
	row, ok := spendRow(w.group)
	if w.isRow = ok && pass; w.isRow {
		c = newCall(d.plans.scripts.rowScript(row, w.group))
		d.encodeRow(c, w.group)
	} else {
		var set uint64
		for _, a := range w.group {
			set |= 1 << a.plan.twin.number
			for _, e := range a.elders {
				set |= 1<<e.twin.number | withElders
			}
		}
		c = newCall(d.plans.scripts.multiScript(set))
		d.appendGroup(c, w.group, pass)
	}
	c.work = w
	return c, nil
}

// decodeGroup answers the ops of a call that are decided together.
func (d driver) decodeGroup(c *call) error {
	w, read := c.work, decodeGroup
	if w.isRow {
		read = decodeRow
	}
	if err := read(c, w.group); err != nil {
		return err
	}
	for i := range w.all {
		a := &w.all[i]
		d.labelMoved(c.to, a.Op, &a.decision)
		if a.renewed {
			c.carrier.Renewed = append(c.carrier.Renewed, make([]bool, len(w.all)-len(c.carrier.Renewed))...)
			c.carrier.Renewed[i] = true
		}
	}
	return d.answerOps(c.carrier.Ops, w.all)
}

// checkOp checks an op that follows earlier ones.
func (d driver) checkOp(o *weir.Op, earlier []asked) (asked, error) {
	if err := transport.CheckCost(o); err != nil {
		return asked{}, err
	}
	if err := d.refuses(o.Limit, o.ID, o.Verb); err != nil {
		return asked{}, err
	}
	pl, err := d.plans.planForLimit(o.Limit, d.readClock)
	if err != nil {
		return asked{}, err
	}
	t := tagForKey(o.Key)
	a := asked{Op: o, plan: pl, tag: t, look: o.Cost + o.Headroom, elders: pl.elderPlans(d.readClock)}
	for i := range earlier {
		e := &earlier[i]
		if e.tag != t || e.plan.suffix != pl.suffix {
			continue
		}
		e.shared, a.shared, a.again = true, true, true
		if transport.LeavesLessFor(e.Op, o) && o.Cost+o.Headroom > 0 {
			a.look = min(a.look+e.Cost, weir.MaxCost+1)
		}
	}
	if a.look > weir.MaxCost {
		return asked{}, weir.ErrCost
	}
	return a, nil
}

// The words that several.lua takes for the request and for each op.
const (
	wordsBefore = 2
	wordsOfOp   = 9
	// Of each elder, see changed.lua.
	wordsOfElder = 4
)

// appendGroup makes the keys and arguments of several.lua.
func (d driver) appendGroup(c *call, g []*asked, pass bool) {
	c.args = append(c.args, strconv.Itoa(len(g)), "0")
	if pass {
		c.args[1] = "1"
	}
	elders := len(c.args) + wordsOfOp*len(g)
	words := elders
	for _, a := range g {
		words += wordsOfElder * len(a.elders)
	}
	for len(c.args) < words {
		c.args = append(c.args, "")
	}
	for i, a := range g {
		c.keys = append(c.keys, d.opt.Prefix+":{"+a.tag+a.plan.suffix)
		consts := ""
		for j, e := range g[:i] {
			if e.plan == a.plan {
				consts = c.args[wordsBefore+wordsOfOp*j+5]
			}
		}
		if consts == "" {
			consts = strconv.Itoa(len(c.args))
			c.args = append(c.args, a.plan.consts...)
		}
		look, cost := strconv.Itoa(len(c.args)), ""
		c.args = a.plan.appendSpan(c.args, a.Limit, a.look)
		if cost = look; a.look != a.Cost {
			cost = strconv.Itoa(len(c.args))
			c.args = a.plan.appendSpan(c.args, a.Limit, a.Cost)
		}
		copy(c.args[wordsBefore+wordsOfOp*i:], []string{
			strconv.Itoa(a.plan.twin.number), a.encodeNeed(), a.encodeCharge(), verbs[a.Commit()], formatID(a.AskID()), consts, look, cost, a.encodeMode(),
		})
	}
	d.appendElders(c, g, elders)
}

// appendElders makes the keys of elders, and their words from an index on.
func (d driver) appendElders(c *call, g []*asked, at int) {
	for i, a := range g {
		for _, e := range a.elders {
			c.keys = append(c.keys, d.opt.Prefix+":{"+a.tag+e.suffix)
			copy(c.args[at:], []string{strconv.Itoa(i + 1), strconv.Itoa(e.twin.number), strconv.Itoa(len(c.args)), strconv.FormatInt(a.Cost, 10)})
			c.args, at = append(c.args, e.consts...), at+wordsOfElder
		}
	}
}

// The flags of several.lua.
const (
	flagFits = 1 << iota
	flagCharged
	flagAllowed
	flagBefore
)

// decodeGroup reads the reply of several.lua.
func decodeGroup(c *call, g []*asked) error {
	now, rest := c.reply[0]>>1, c.reply[1:]
	for _, a := range g {
		if len(rest) < 2 || rest[1] != int64(a.plan.twin.States) || int64(len(rest)-2) < rest[1] {
			return errReply
		}
		flags, n := rest[0], rest[1]
		state := rest[2 : 2+n]
		rest = rest[2+n:]
		if isInsane(state) {
			return errSpoilt
		}
		a.now, a.fits, a.charged = now, flags&flagFits != 0, flags&flagCharged != 0
		look := weir.Ask{Now: now, Cost: a.look, ID: a.ID, Verb: weir.Peek}
		if !a.charged {
			a.decision = a.plan.algorithm.Describe(a.Limit, look, a.fits, state)
			continue
		}
		a.renewed = a.Limit.Traits()&weir.Leases != 0 && state[len(state)-1] > 0
		spend := weir.Ask{Now: now, Cost: a.Cost, ID: a.ID, Verb: a.Commit()}
		a.decision = a.plan.algorithm.Describe(a.Limit, spend, flags&flagAllowed != 0, state)
		if flags&flagBefore == 0 {
			continue
		}
		// Refused and charged all the same, where the cost alone would have passed:
		// it stays refused.
		if int64(len(rest)) < n {
			return errReply
		}
		if a.Verb != weir.Refund {
			a.decision.RetryAfter = a.plan.algorithm.Describe(a.Limit, look, false, rest[:n]).RetryAfter
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return errReply
	}
	return nil
}

var errMismatch = errors.New("do all nodes run one version?")

// answerOps answers ops. The scripts have settled them: that weir.Resolve would have
// done the same is checked.
func (d driver) answerOps(ops []weir.Op, all []asked) error {
	now := d.readClock()
	for i := range all {
		a := &all[i]
		now = a.now
		look := weir.Decision{Limit: a.Limit}
		if !a.fits {
			look.RetryAfter = weir.Never
		}
		a.Answer = weir.Answer{Decision: look}
	}
	weir.Resolve(ops)
	var err error
	for i := range all {
		a := &all[i]
		if a.Charged != a.charged {
			err = fmt.Errorf("store redis: limit %q was charged %v where it should be %v: %w", a.Limit.Name, a.charged, a.Charged, errMismatch)
		}
		a.Answer = weir.Answer{Decision: a.decision, Charged: a.charged, Borrowed: a.Borrowed}
	}
	for i := range ops {
		o := &ops[i]
		o.Answer = weir.Answer{Decision: o.Decision, Now: now, Charged: o.Charged, Borrowed: o.Borrowed}
	}
	return err
}

// encodeRow makes the keys and arguments of the script of a row.
func (d driver) encodeRow(c *call, g []*asked) {
	for _, a := range g {
		c.keys = append(c.keys, d.opt.Prefix+":{"+a.tag+a.plan.suffix)
		c.args = a.plan.appendSpan(c.args, a.Limit, a.Cost)
		c.args = append(c.args, a.plan.consts...)
	}
}

// decodeRow reads the answer of a row.
func decodeRow(c *call, g []*asked) error {
	now, pass, rest := c.reply[0]>>1, c.reply[0]&1 == 1, c.reply[1:]
	for i, a := range g {
		n := a.plan.twin.States
		if len(rest) < n {
			return errReply
		}
		if isInsane(rest[:n]) {
			return errSpoilt
		}
		a.now, a.charged = now, pass
		a.fits = pass || c.bits>>(i+1)&1 == 1
		ask := weir.Ask{Now: now, Cost: a.Cost, ID: a.ID, Verb: weir.Peek}
		if pass {
			ask.Verb = weir.Spend
		}
		a.decision = a.plan.algorithm.Describe(a.Limit, ask, a.fits, rest[:n])
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return errReply
	}
	return nil
}

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/transport"
)

// asked is an op on its way to a script, and what came of it.
type asked struct {
	*weir.Op
	plan *plan
	tag  string
	at   place
	// look is what must be there: the cost, what is reserved, and what earlier ops
	// of the request take from the same key.
	look   int64
	again  bool // an earlier op has the same key
	shared bool // another op has the same key
	pool   bool // the op after this one is its pool

	now      int64
	fits     bool // allowed when it was looked at
	charged  bool
	renewed  bool // charged to a lease that was there before
	decision weir.Decision
}

// partsOf is a store whose keys are in several places, as requests of several see it.
type partsOf struct{ *Store }

// Part implements transport.Parts.
func (s partsOf) Part(key string) int { return s.nodes.place(tag(key)).slot }

// TakePart implements transport.Parts.
func (s partsOf) TakePart(ctx context.Context, ops []weir.Op) (renewed []bool, err error) {
	return s.decideOps(ctx, ops, true)
}

// LeavesTrace implements transport.Parts: only what algorithms lend can be given back
// without a trace, and of those not what a sliding window was charged: when its last unit
// came is not kept twice.
func (s partsOf) LeavesTrace(l *weir.Limit) bool {
	return l.Traits()&weir.Lends == 0 || l.Algorithm == algorithm.SlidingWindow
}

// Undone implements transport.Parts.
func (s partsOf) Undone(ops int, err error) {
	s.stats.givenBack.Add(uint64(ops))
	if err != nil {
		s.stats.lost.Add(uint64(max(ops, 1)))
	}
}

// MayRun implements transport.Parts.
func (s partsOf) MayRun(err error) bool {
	var late *TimeoutError
	if errors.As(err, &late) {
		return late.Sent
	}
	return !errors.Is(err, ErrBusy) && !Lost(err)
}

// work is what deciding several ops takes, used again.
type work struct {
	all   []asked
	group []*asked
}

var works = sync.Pool{New: func() any { return new(work) }}

// recycle forgets the request: it is the caller's.
func (w *work) recycle() {
	clear(w.all)
	clear(w.group)
	w.all, w.group = w.all[:0], w.group[:0]
	works.Put(w)
}

// gather makes the ops a group, and reports whether all are in one place.
func (w *work) gather() bool {
	same := true
	for i := range w.all {
		a := &w.all[i]
		same = same && a.at.slot == w.all[0].at.slot
		w.group = append(w.group, a)
	}
	return same
}

// takeSeveral decides ops together.
func (s *Store) takeSeveral(ctx context.Context, ops []weir.Op) error {
	_, err := s.decideOps(ctx, ops, false)
	return err
}

// decideOps decides ops, in one script where they are of one part. It returns
// which of them renewed a place that was taken before; nil: none.
func (s *Store) decideOps(ctx context.Context, ops []weir.Op, isPart bool) (renewed []bool, err error) {
	if s.closed.Load() {
		return nil, weir.ErrClosed
	}
	w := works.Get().(*work)
	defer w.recycle()
	all, pass := slices.Grow(w.all, len(ops)), true
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			pass = pass && (o.Decision.Allowed() || o.Verb == weir.Force || o.Verb == weir.Refund)
			continue
		}
		a, err := s.ask(o, all)
		if err != nil {
			return nil, err
		}
		a.pool = i+1 < len(ops) && ops[i+1].Role == weir.Pool
		all = append(all, a)
	}
	w.all = all
	if !w.gather() && !isPart {
		return nil, transport.Cross(ctx, ops, partsOf{s})
	}
	if err := s.takeGroup(ctx, w.group, pass); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].renewed {
			if renewed == nil {
				renewed = make([]bool, len(all))
			}
			renewed[i] = true
		}
	}
	return renewed, s.finish(ops, all)
}

// ask checks an op that follows earlier ones, and finds its place.
func (s *Store) ask(o *weir.Op, earlier []asked) (asked, error) {
	if uint64(o.Cost) > weir.MaxCost || uint64(o.Headroom) > weir.MaxCost || o.Cost+o.Headroom > weir.MaxCost {
		return asked{}, weir.ErrCost
	}
	if err := s.refuses(o.Limit, o.ID, o.Verb); err != nil {
		return asked{}, err
	}
	pl, err := s.plans.of(o.Limit, s.clock)
	if err != nil {
		return asked{}, err
	}
	t := tag(o.Key)
	a := asked{Op: o, plan: pl, tag: t, at: s.nodes.place(t), look: o.Cost + o.Headroom}
	for i := range earlier {
		e := &earlier[i]
		if e.tag != t || e.plan.suffix != pl.suffix {
			continue
		}
		e.shared, a.shared, a.again = true, true, true
		if spends(e.Op, o) && o.Cost+o.Headroom > 0 {
			a.look = min(a.look+e.Cost, weir.MaxCost+1)
		}
	}
	if a.look > weir.MaxCost {
		return asked{}, weir.ErrCost
	}
	return a, nil
}

// spends reports whether what earlier takes is no longer there for o, an op on
// the same key. Asking twice for one lease is asking once.
func spends(earlier, o *weir.Op) bool {
	if earlier.Verb == weir.Peek || earlier.Verb == weir.Refund {
		return false
	}
	return o.Limit.Traits()&weir.Leases == 0 || earlier.ID != o.ID
}

// takeGroup decides ops of one place together; pass is false if an op elsewhere
// refuses.
func (s *Store) takeGroup(ctx context.Context, g []*asked, pass bool) error {
	if len(g) == 0 {
		return nil
	}
	err := s.askGroup(ctx, g, pass)
	if err != nil && isSpoilt(err) {
		ops := make([]weir.Op, len(g))
		for i, a := range g {
			ops[i] = *a.Op
		}
		if s.repair(ctx, ops) {
			return s.askGroup(ctx, g, pass)
		}
	}
	return err
}

func (s *Store) askGroup(ctx context.Context, g []*asked, pass bool) error {
	c, read := s.callFor(g, pass)
	if _, _, err := s.do(ctx, g[0].at, c); err != nil {
		return err
	}
	err := explain(read(c, g))
	c.recycle()
	for _, a := range g {
		if a.at.moved {
			s.stats.moved.Add(1)
			a.decision.Limit = a.Limit.From(weir.FromSuccessor)
		}
	}
	return err
}

// callFor returns the call that decides g, and what reads its reply.
func (s *Store) callFor(g []*asked, pass bool) (*call, func(*call, []*asked) error) {
	if row, ok := rowOf(g); ok && pass {
		c := newCall(s.plans.scripts.ofRow(row, g))
		s.encodeRow(c, g)
		return c, decodeRow
	}
	var set uint64
	for _, a := range g {
		set |= 1 << a.plan.twin.number
	}
	c := newCall(s.plans.scripts.together(set))
	s.encode(c, g, pass)
	return c, decode
}

// The words that several.lua takes for the request and for each op.
const (
	wordsBefore = 2
	wordsOfOp   = 9
)

// encode makes the keys and arguments of several.lua.
func (s *Store) encode(c *call, g []*asked, pass bool) {
	c.args = append(c.args, strconv.Itoa(len(g)), "0")
	if pass {
		c.args[1] = "1"
	}
	for range wordsOfOp * len(g) {
		c.args = append(c.args, "")
	}
	for i, a := range g {
		c.keys = append(c.keys, s.opt.Prefix+":{"+a.tag+a.plan.suffix)
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
			strconv.Itoa(a.plan.twin.number), a.need(), a.charge(), verbs[a.Commit()], idText(a.AskID()), consts, look, cost, a.mode(),
		})
	}
}

// need returns what the op means for whether all pass, as weir.Resolve has it.
func (a *asked) need() string {
	switch a.Role {
	case weir.Enforce, weir.Ban:
		if a.Verb != weir.Force && a.Verb != weir.Refund {
			return "m"
		}
	case weir.Own:
		switch {
		case a.Verb == weir.Force:
		case a.pool:
			return "o"
		default:
			return "m"
		}
	}
	return "-"
}

// charge returns when the op is charged, as weir.Resolve has it.
func (a *asked) charge() string {
	switch {
	case a.Verb == weir.Peek:
		return "n"
	case a.Role == weir.Enforce && a.Penalize:
		return "a"
	case a.Role == weir.Shadow, a.Role == weir.Own:
		return "s"
	case a.Role == weir.Ban:
		return "b"
	}
	return "p"
}

// mode returns whether the script may look at the op by charging it, or must read
// its row again.
func (a *asked) mode() string {
	switch {
	case a.again:
		return "r"
	case a.plain() && !a.shared && !a.plan.twin.Collection:
		return "q"
	}
	return "-"
}

// plain reports whether the op is a spend that must allow, and no more.
func (a *asked) plain() bool {
	return a.Role == weir.Enforce && a.Verb == weir.Spend && a.Headroom == 0 && !a.Penalize
}

// The flags of several.lua.
const (
	flagFits = 1 << iota
	flagCharged
	flagAllowed
	flagBefore
)

// decode reads the reply of several.lua.
func decode(c *call, g []*asked) error {
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

// finish answers ops. The scripts have settled them: that weir.Resolve would have
// done the same is checked.
func (s *Store) finish(ops []weir.Op, all []asked) error {
	now := s.clock()
	for i := range all {
		a := &all[i]
		now = a.now
		a.Decision = weir.Decision{Limit: a.Limit}
		if !a.fits {
			a.Decision.RetryAfter = weir.Never
		}
	}
	weir.Resolve(ops)
	var err error
	for i := range all {
		a := &all[i]
		if a.Charged != a.charged {
			err = fmt.Errorf("store redis: limit %q was charged %v where it should be %v: do all nodes run one version?", a.Limit.Name, a.charged, a.Charged)
		}
		a.Charged = a.charged
		a.Decision = a.decision
	}
	for i := range ops {
		ops[i].Now = now
	}
	for i := range all {
		all[i].Now = all[i].now
	}
	return err
}

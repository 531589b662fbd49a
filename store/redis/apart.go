package redis

import (
	"context"
	"errors"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// apart decides ops whose keys are in several places, which no script sees
// together. It takes from one place after the other, and gives back when a later
// one refuses: so it may refuse too much for an instant, and never admits too
// much.
//
// Only what algorithms lend can be given back without a trace, see [weir.Lender],
// and of those not what a sliding window was charged: when its last unit came is
// not kept twice. Of others at most the place that comes last is taken from at once. Else all are
// looked at first. What a request gives back, a refund, comes after all of that.
type apart struct {
	store  *Store
	ctx    context.Context
	ops    []weir.Op
	all    []asked
	groups [][]*asked
}

// maxRounds is how often a request is looked at and tried that others overtake
// between the two.
const maxRounds = 3

func (t *apart) take(pass bool) error {
	slices.SortStableFunc(t.groups, func(a, b []*asked) int { return traces(a) - traces(b) })
	plain := pass && traces(t.groups[len(t.groups)-2]) == 0
	for i := range t.all {
		plain = plain && t.all[i].plain()
	}
	if plain {
		return t.takePlain()
	}
	return t.takeLooked()
}

// traces returns 1 if what g takes cannot be given back without a trace, else 0.
func traces(g []*asked) int {
	for _, a := range g {
		if a.Limit.Traits()&weir.Lends == 0 || a.Limit.Algorithm == algorithm.SlidingWindow {
			return 1
		}
	}
	return 0
}

// takePlain takes spends that must all allow.
func (t *apart) takePlain() error {
	for i, g := range t.groups {
		if err := t.store.takeGroup(t.ctx, g, true); err != nil {
			t.giveBack(t.groups[:i])
			return err
		}
		if refuses(g) {
			t.giveBack(t.groups[:i])
			return t.look(i)
		}
	}
	return nil
}

func refuses(g []*asked) bool {
	return slices.ContainsFunc(g, func(a *asked) bool { return a.need() != "-" && !a.fits })
}

// look asks all groups what a Peek says, but the one that has told.
func (t *apart) look(but int) error {
	for i, g := range t.groups {
		if i == but {
			continue
		}
		peeks := make([]*asked, len(g))
		for j, a := range g {
			o := *a.Op
			o.Verb, o.Role = weir.Peek, weir.Always
			p := *a
			p.Op = &o
			peeks[j] = &p
		}
		if err := t.store.takeGroup(t.ctx, peeks, true); err != nil {
			return err
		}
		for j, p := range peeks {
			a := g[j]
			a.now, a.fits, a.charged, a.decision = p.now, p.fits, false, p.decision
		}
	}
	return nil
}

// giveBack gives back what was charged in groups. What cannot be given back stays
// spent until it flows back by itself, and is counted.
func (t *apart) giveBack(groups [][]*asked) {
	ctx := context.WithoutCancel(t.ctx)
	for _, g := range groups {
		var ops []weir.Op
		for _, a := range g {
			if a.charged && !a.renewed && a.Verb != weir.Refund {
				done := *a.Op
				done.Now, done.Decision = a.now, a.decision
				undo := done.Undo(a.Cost)
				// Milliseconds ago: what has flowed in since is left out of account, or a
				// request that is refused would use up a fast bucket.
				undo.ChargedAt = 0
				ops = append(ops, undo)
			}
			a.charged = false
		}
		if len(ops) == 0 {
			continue
		}
		t.store.stats.givenBack.Add(uint64(len(ops)))
		if err := t.store.takeSeveral(ctx, ops); err != nil {
			t.store.stats.lost.Add(uint64(len(ops)))
		}
	}
}

// takeLooked looks at all ops, settles them, and charges what is to be charged.
// If another request came between, it begins anew. After maxRounds it is refused as
// it was overtaken last, and charged what a refusal charges, which nobody overtakes.
func (t *apart) takeLooked() error {
	for round := 0; ; round++ {
		if round < maxRounds {
			if err := t.look(-1); err != nil {
				return err
			}
		}
		for i := range t.all {
			a := &t.all[i]
			a.Decision = a.decision
		}
		pass := weir.Resolve(t.ops)
		overtaken, err := t.charge(pass)
		if err != nil || !overtaken {
			return err
		}
	}
}

// charge charges the settled ops, and reports whether one refuses now that was
// ready to allow. Then nothing is charged and the op is refused.
//
// What is given back comes last, when all that must allow has: it cannot be undone.
// If it fails and may have been done, the rest stays charged, so that whoever asks
// again, as the holder of a reservation does, does not get it twice.
func (t *apart) charge(pass bool) (overtaken bool, err error) {
	last := -1 // the place that is asked last of those where something is taken
	for i, g := range t.groups {
		if slices.ContainsFunc(g, func(a *asked) bool { return a.Charged && a.Verb != weir.Refund }) {
			last = i
		}
	}
	for i := range t.groups[:last+1] {
		// There all is decided in one script.
		refunds := i == last
		overtaken, err := t.chargeGroup(i, pass, func(a *asked) bool { return a.Verb != weir.Refund || refunds })
		if overtaken || err != nil {
			t.giveBack(t.groups[:i])
			return overtaken, err
		}
	}
	done := last >= 0 && slices.ContainsFunc(t.groups[last], refunds)
	for i := range t.groups {
		if i == last || !slices.ContainsFunc(t.groups[i], refunds) {
			continue
		}
		_, err := t.chargeGroup(i, pass, refunds)
		switch {
		case err == nil:
			done = true
		case !done && !mayRun(err):
			t.giveBack(t.groups)
			return false, err
		default:
			t.store.stats.lost.Add(1)
			return false, err
		}
	}
	return false, nil
}

func refunds(a *asked) bool { return a.Charged && a.Verb == weir.Refund }

// mayRun reports whether what got err may have been carried out.
func mayRun(err error) bool {
	var late *TimeoutError
	if errors.As(err, &late) {
		return late.Sent
	}
	return !errors.Is(err, ErrBusy) && !Lost(err)
}

// chargeGroup charges those of the settled ops of a place for which which is true,
// and reports whether one refuses now that was ready to allow: then none of them is
// charged and the op is refused.
func (t *apart) chargeGroup(i int, pass bool, which func(*asked) bool) (overtaken bool, err error) {
	var ops []weir.Op
	var from []*asked
	for _, a := range t.groups[i] {
		if !a.Charged || !which(a) {
			continue
		}
		o := *a.Op
		o.Penalize = false
		switch {
		case pass && a.carries():
			o.Role = weir.Enforce
		case a.Role != weir.Shadow:
			o.Role, o.Verb, o.Headroom = weir.Always, a.Commit(), 0
		}
		ops, from = append(ops, o), append(from, a)
	}
	if len(ops) == 0 {
		return false, nil
	}
	charged := make([]asked, 0, len(ops))
	for j := range ops {
		a, err := t.store.ask(&ops[j], charged)
		if err != nil {
			return false, err
		}
		charged = append(charged, a)
	}
	group := make([]*asked, len(charged))
	for j := range charged {
		group[j] = &charged[j]
	}
	if err := t.store.takeGroup(t.ctx, group, true); err != nil {
		return false, err
	}
	if pass && refuses(group) {
		for j, c := range charged {
			if from[j].charged = false; c.need() != "-" && !c.fits {
				t.overtake(from[j], c.decision)
			}
		}
		return true, nil
	}
	for j, c := range charged {
		from[j].took(&c)
	}
	return false, nil
}

// carries reports whether the request passed as this op had room: it must still
// have it.
func (a *asked) carries() bool {
	return a.fits && a.Verb == weir.Spend && (a.Role == weir.Enforce || a.Role == weir.Own || a.Role == weir.Pool && a.Borrowed)
}

// overtake notes that a refuses after all, and if it is an own share that its
// pool is not asked any more.
func (t *apart) overtake(a *asked, d weir.Decision) {
	a.fits, a.decision = false, d
	for i := range t.all[1:] {
		if pool := &t.all[i+1]; &t.all[i] == a && a.pool && pool.fits {
			pool.fits, pool.decision.RetryAfter = false, d.RetryAfter
		}
	}
}

// took notes that a was charged as c says. What was refused when it was looked at
// stays refused.
func (a *asked) took(c *asked) {
	looked := a.decision.RetryAfter
	if !c.charged {
		a.fits = c.fits
	}
	a.now, a.charged, a.renewed, a.decision = c.now, c.charged, c.renewed, c.decision
	if looked != 0 && a.decision.RetryAfter == 0 && a.Verb != weir.Refund {
		a.decision.RetryAfter = looked
	}
}

package region

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

// mostRounds is how often a call is made at most whose counters have moved on.
const mostRounds = 4

// An asking is a call on its way to the own store, with the counters of what regions count
// together: made again where these have moved on. Coalesced spends are made in a call each,
// as what is charged and what is counted must be the same. After one that is refused all
// are: the calls are few, as spends that are not leased are of few units, or large.
type asking struct {
	*Store
	ops    []weir.Op  // what has no answer yet
	each   bool       // they are coalesced
	undoes bool       // they give back what was charged a moment ago
	ends   clock.Node // until when it may be made again
	part   []weir.Op  // those of ops that are asked for now, one if they are coalesced
	one    [1]weir.Op
	all    []weir.Op // part with its companions: what is sent
	js     []joined
	sent   clock.Node
	round  int
	last   joined // what the last round has found
}

// A joined is an op of a call that regions count together.
type joined struct {
	*regional
	epoch *epochCounters
	op    int // which of the call
	own   int // the op of the region's counter; the one of what is reported follows it
	// reported is what was known to be when it was asked.
	reported int64
}

// isCapped reports whether an op was refused as the others must know more first, and
// isTurned whether it was charged in another window than its companion.
func isCapped(o *weir.Op) bool {
	return o.Verb == weir.Spend && !o.Decision.Allowed() && o.Decision.Guarantee().Source == weir.FromCounts
}

func (j *joined) isTurned(o *weir.Op) bool {
	return j.length == 0 && o.Charged && o.Verb != weir.Refund && o.Receipt() != j.epoch.end
}

// ask returns the call that decides ops, nil if regions count none of them together.
func (s *Store) ask(ops []weir.Op, undoes bool, ends clock.Node) (*asking, error) {
	for i := range ops {
		if r, err := s.of(&ops[i]); err != nil {
			return nil, err
		} else if r != nil {
			a := &asking{Store: s, ops: ops, each: len(ops) > 1 && isCoalesced(ops), undoes: undoes, ends: ends}
			return a, a.prepare()
		}
	}
	return nil, nil
}

// isCoalesced reports whether ops are spends of one key and cost that decide each for
// themselves, one after the other.
func isCoalesced(ops []weir.Op) bool {
	first := &ops[0]
	return first.Role == weir.Always && first.Verb == weir.Spend && !slices.ContainsFunc(ops, func(o weir.Op) bool {
		return o.Role != first.Role || o.Verb != first.Verb || o.Limit != first.Limit || o.Cost != first.Cost || o.Key != first.Key
	})
}

// prepare makes what is sent next: the ops that are asked for, with the companions of those
// that regions count together.
func (a *asking) prepare() error {
	if a.part = a.ops; a.each {
		a.part, a.one[0] = a.one[:], a.ops[0]
		a.one[0].Role = weir.Enforce
	}
	a.all, a.js = append(make([]weir.Op, 0, 3*len(a.part)), a.part...), a.js[:0]
	for i := range a.part {
		o := &a.part[i]
		r, err := a.of(o)
		if err != nil {
			return err
		} else if r == nil {
			continue
		}
		c, err := r.epoch(a.wall())
		if o.Verb == weir.Refund {
			c, err = r.epochOf(o, a.wall(), a.undoes)
		}
		if err != nil {
			return err
		} else if c == nil {
			continue
		}
		reported, held := a.table.known(outboundKey{a.tag(o.Key, o.Limit), c.end})
		j := joined{regional: r, epoch: c, op: i, own: len(a.all), reported: reported}
		if c == a.last.epoch {
			j.reported = max(j.reported, a.last.reported)
		}
		own := weir.Op{Key: o.Key, Limit: c.own, Cost: o.Cost, Role: o.Role, Verb: o.Verb}
		if o.Verb == weir.Spend {
			// It passes while the counter stays at most cap above what is reported.
			own.Headroom = min(max(counterMax-j.reported-r.cap, 0)+held, counterMax)
		}
		a.all = append(a.all, own, weir.Op{Key: o.Key, Limit: c.reported, Cost: 1, Role: weir.Always, Verb: weir.Peek})
		a.js = append(a.js, j)
	}
	a.sent = a.clock.Now()
	return nil
}

// hear takes over the answers to what was sent, and reports whether more is to be sent.
func (a *asking) hear() (more bool, err error) {
	copy(a.part, a.all)
	for i := range a.js {
		a.answer(&a.js[i])
	}
	if a.round++; a.round < mostRounds && len(a.part) == 1 && len(a.js) == 1 && a.clock.Now() < a.ends {
		if a.last = a.js[0]; a.mustRepeat() {
			return true, a.prepare()
		}
	}
	a.finish()
	if !a.each {
		return false, nil
	}
	o := a.one[0]
	for o.Role = weir.Always; len(a.ops) > 0; {
		a.ops[0], a.ops = o, a.ops[1:]
		if o.Decision.Allowed() {
			break
		}
	}
	if len(a.ops) == 0 {
		return false, nil
	}
	a.round, a.last = 0, joined{}
	return true, a.prepare()
}

// answer takes over what the counters of an op say, and refuses what the region may not
// admit before the others know more.
func (a *asking) answer(j *joined) {
	o, counted := &a.part[j.op], a.all[j.own:]
	own, reported := count(&counted[0]), count(&counted[1])
	a.clock.Observe(0, clock.Store(counted[0].Now), a.sent)
	a.table.update(j.regional, j.epoch, a.tag(o.Key, o.Limit), o.Key, own, reported, a.sent, a.clock.Now())
	if o.Verb != weir.Spend {
		return
	}
	switch d := &o.Decision; {
	case d.Allowed() && !counted[0].Decision.Allowed():
		*d = weir.Decision{Limit: o.Limit.From(weir.FromCounts), Remaining: max(min(d.Remaining, j.cap-(own-reported)), 0), RetryAfter: j.retry(o.Cost), ResetAfter: d.ResetAfter}
	case !d.Allowed() && o.Cost > j.cap:
		d.RetryAfter = weir.Never
	}
}

// mustRepeat reports whether a plain spend that stands alone is to be asked again: more
// is reported than was known, or its window has turned, and the units are given back.
func (a *asking) mustRepeat() bool {
	j, o := &a.last, &a.part[0]
	if o.Verb != weir.Spend || o.Role != weir.Enforce || o.Penalize || o.Headroom > 0 {
		return false
	}
	if !j.isTurned(o) {
		known := j.reported
		j.reported = count(&a.all[j.own+1])
		return isCapped(o) && j.reported > known
	}
	key := strings.Clone(o.Key)
	back, own := o.Undo(o.Cost), j.epoch.own // a is of the next round by then
	back.Key = key
	// What is not given back stays spent.
	return a.queue.Go(func() {
		_, _ = a.queue.Later([]weir.Op{back, {Key: key, Limit: own, Cost: back.Cost, Role: weir.Always, Verb: weir.Refund}})
	})
}

// finish counts what was refused, and what was charged in another window than it was
// counted in, as that has turned while the call was under way.
func (a *asking) finish() {
	for i := range a.js {
		j, o := &a.js[i], &a.part[a.js[i].op]
		if isCapped(o) {
			a.capped.Add(1)
		}
		if !j.isTurned(o) {
			continue
		}
		if c, err := j.ending(o.Receipt(), o.Now); err == nil {
			a.countTurned(j.regional, c, o)
		}
	}
}

package region

import (
	"context"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	ops := []weir.Op{{Key: key, Limit: l, Cost: cost}}
	err := s.Take(ctx, ops)
	return ops[0].Decision, err
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

// mostRounds is how often a call is made at most whose counters have moved on.
const mostRounds = 4

// Take implements weir.Store. It charges the own store with ops, and in the same call
// counts them for the other regions. What these must know of before is refused with the
// retry of a push, from weir.FromCounts.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	return asking{s, false, func(all []weir.Op) error { return s.own.Take(ctx, all) }}.takeOps(ops)
}

// An asking decides ops by calls of the own store.
type asking struct {
	*Store
	undoes bool // what was charged a moment ago
	call   func(all []weir.Op) error
}

// hasRegionalOp reports whether regions count some of ops together.
func (s *Store) hasRegionalOp(ops []weir.Op) bool {
	return slices.ContainsFunc(ops, func(o weir.Op) bool {
		r, err := s.regionalOf(&o)
		return r != nil || err != nil
	})
}

// takeOps decides ops, again where their counters have moved on meanwhile.
func (a asking) takeOps(ops []weir.Op) error {
	if len(ops) > 1 && isCoalesced(ops) && a.hasRegionalOp(ops[:1]) {
		return a.takeEach(ops)
	}
	var last joined
	for round := 1; ; round++ {
		all, js, err := a.accompany(ops, last)
		if err != nil {
			return err
		}
		if len(js) == 0 {
			return a.call(ops)
		}
		sent := a.clock.Now()
		if err := a.call(all); err != nil {
			return err
		}
		own := &all[js[0].own]
		a.clock.Observe(a.queue.ShardOfKey(own.Key), clock.Store(own.Now), sent)
		copy(ops, all)
		for i := range js {
			a.answerOp(&js[i], &ops[js[i].op], all, sent)
		}
		if last = js[0]; round == mostRounds || len(ops) > 1 || !a.mustRepeat(&last, &ops[0], all) {
			a.finishOps(js, ops)
			return nil
		}
	}
}

// isCoalesced reports whether ops are spends of one key and cost that decide each for
// themselves, one after the other.
func isCoalesced(ops []weir.Op) bool {
	first := &ops[0]
	return first.Role == weir.Always && first.Verb == weir.Spend && !slices.ContainsFunc(ops, func(o weir.Op) bool {
		return o.Role != first.Role || o.Verb != first.Verb || o.Limit != first.Limit || o.Cost != first.Cost || o.Key != first.Key
	})
}

// takeEach decides coalesced spends in a call each, as what is charged and what is counted
// must be the same. After one that is refused all are: the calls are few, as spends that
// are not leased are of few units, or large.
func (a asking) takeEach(ops []weir.Op) error {
	for i := range ops {
		o := &ops[i]
		if i > 0 && !ops[i-1].Decision.Allowed() {
			*o = ops[i-1]
			continue
		}
		o.Role = weir.Enforce
		err := a.takeOps(ops[i : i+1])
		if o.Role = weir.Always; err != nil {
			return err
		}
	}
	return nil
}

// accompany returns ops with the companions of those that regions count together. Last
// is what the last round has found.
func (a asking) accompany(ops []weir.Op, last joined) (all []weir.Op, js []joined, err error) {
	for i := range ops {
		o := &ops[i]
		r, err := a.regionalOf(o)
		if err != nil {
			return nil, nil, err
		} else if r == nil {
			continue
		}
		c, err := r.epochAt(a.storeTime())
		if o.Verb == weir.Refund {
			c, err = r.epochOf(o, a.storeTime(), a.undoes)
		}
		if err != nil {
			return nil, nil, err
		} else if c == nil {
			continue
		}
		if all == nil {
			all = append(make([]weir.Op, 0, 3*len(ops)), ops...)
		}
		reported, held := a.table.knownUnits(outboundKey{a.counterTag(o.Key, o.Limit), c.end})
		j := joined{regional: r, epoch: c, op: i, own: len(all), reported: reported}
		if c == last.epoch {
			j.reported = max(j.reported, last.reported)
		}
		own := weir.Op{Key: o.Key, Limit: c.own, Cost: o.Cost, Role: o.Role, Verb: o.Verb}
		if o.Verb == weir.Spend {
			// It passes while the counter stays at most cap above what is reported.
			own.Headroom = min(max(counterMax-j.reported-r.cap, 0)+held, counterMax)
		}
		all = append(all, own, weir.Op{Key: o.Key, Limit: c.reported, Cost: 1, Role: weir.Always, Verb: weir.Peek})
		js = append(js, j)
	}
	return all, js, nil
}

// answerOp takes over what the counters of an op say, and refuses what the region may not
// admit before the others know more.
func (a asking) answerOp(j *joined, o *weir.Op, all []weir.Op, sent clock.Node) {
	own, reported := counterValue(&all[j.own]), counterValue(&all[j.own+1])
	a.table.updateKey(j.regional, j.epoch, a.counterTag(o.Key, o.Limit), o.Key, own, reported, sent, a.clock.Now())
	if o.Verb != weir.Spend {
		return
	}
	d := o.Decision
	switch {
	case d.Allowed() && !all[j.own].Decision.Allowed():
		d = weir.Decision{Limit: o.Limit.From(weir.FromCounts), Remaining: max(min(d.Remaining, j.cap-(own-reported)), 0), RetryAfter: j.retryAfter(o.Cost), ResetAfter: d.ResetAfter}
	case !d.Allowed() && o.Cost > j.cap:
		d.RetryAfter = weir.Never
	}
	o.Answer = o.WithDecision(d)
}

// isCapped reports whether an op was refused as the others must know more first, and
// isTurned whether it was charged in another window than its companion.
func isCapped(o *weir.Op) bool {
	return o.Verb == weir.Spend && !o.Decision.Allowed() && o.Decision.Guarantee().Source == weir.FromCounts
}

func (j *joined) isTurned(o *weir.Op) bool {
	return j.length == 0 && o.Charged && o.Verb != weir.Refund && o.Receipt() != j.epoch.end
}

// mustRepeat reports whether a plain spend that stands alone is to be asked again: more
// is reported than was known, or its window has turned, and the units are given back.
func (a asking) mustRepeat(j *joined, o *weir.Op, all []weir.Op) bool {
	if !transport.IsSpend(o) {
		return false
	}
	if !j.isTurned(o) {
		known := j.reported
		j.reported = counterValue(&all[j.own+1])
		return isCapped(o) && j.reported > known
	}
	key := strings.Clone(o.Key)
	back, own := o.Undo(o.Cost), j.epoch.own // j is of the next round by then
	back.Key = key
	// What is not given back stays spent.
	return a.queue.Go(func() {
		_, _ = a.queue.DecideInBackground([]weir.Op{back, {Key: key, Limit: own, Cost: back.Cost, Role: weir.Always, Verb: weir.Refund}})
	})
}

// finishOps counts what was refused, and what was charged in another window than it was
// counted in, as that has turned while the call was under way.
func (a asking) finishOps(js []joined, ops []weir.Op) {
	for i := range js {
		j, o := &js[i], &ops[js[i].op]
		if isCapped(o) {
			a.capped.Add(1)
		}
		if !j.isTurned(o) {
			continue
		}
		if c, err := j.epochEnding(o.Receipt(), o.Now); err == nil {
			a.countTurned(j.regional, c, o)
		}
	}
}

// countTurned counts an op in the window that charged it, in the background: until then
// this node spends as many fewer in it. The counter of the window that is over stays too
// high, which costs nothing there.
func (s *Store) countTurned(r *regional, c *epochCounters, o *weir.Op) {
	k := outboundKey{s.counterTag(o.Key, o.Limit), c.end}
	charge := weir.Op{Key: strings.Clone(o.Key), Limit: c.own, Cost: o.Cost, Role: weir.Always, Verb: weir.Force}
	s.table.holdUnits(k, charge.Cost)
	s.queue.Go(func() {
		ops := []weir.Op{charge}
		sent, err := s.queue.DecideInBackground(ops)
		if err != nil {
			s.log.Warn("units charged at the end of a window not sent to other regions: the store is unavailable", "limit", r.limit.Name, "units", charge.Cost, "error", err)
			return // they are held until the window ends
		}
		s.table.updateKey(r, c, k.tag, charge.Key, counterValue(&ops[0]), 0, sent, s.clock.Now())
		s.table.holdUnits(k, -charge.Cost)
	})
}

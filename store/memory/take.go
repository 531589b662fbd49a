package memory

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/sketch"
)

const (
	// smallCall is how many ops a call may have without allocating.
	smallCall = 16
	// mostOps is how many ops most calls have at most.
	mostOps = 4
)

// A taken is an op on its way: where its key is kept, one way or another.
type taken struct {
	slot
	// earlier is the cost of ops of the same call on the same key and limit.
	earlier  int64
	again    bool           // an earlier op has the same key and limit
	window   *sketch.Window // of an approximate limit
	overflow *overflow      // for a key without a row
	full     bool           // no room was found for a row
}

// Take implements weir.Store. Up to sixteen ops do not allocate. Ops on the same
// key and limit are decided as a sequence.
func (s *Store) Take(_ context.Context, ops []weir.Op) error {
	switch n := len(ops); {
	case n == 1 && ops[0].Role == weir.Enforce && ops[0].Headroom == 0 && !ops[0].Penalize:
		return s.takeSingle(&ops[0])
	case n == 2 && s.takePair((*[2]weir.Op)(ops)):
		return nil
	case n <= mostOps:
		// Clearing room for more would take longer than deciding.
		var all [mostOps]taken
		var locks [mostOps]*segment
		return s.takeAll(ops, all[:n], locks[:0])
	case n <= smallCall:
		var all [smallCall]taken
		var locks [smallCall]*segment
		return s.takeAll(ops, all[:n], locks[:0])
	default:
		return s.takeAll(ops, make([]taken, n), make([]*segment, 0, n))
	}
}

// takeAll decides ops in three moves, under the locks of all their segments. all
// and locks lend their memory.
func (s *Store) takeAll(ops []weir.Op, all []taken, locks lockSet) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	if err := s.locate(ops, all); err != nil {
		return err
	}
	locks = s.hold(ops, all, locks)
	now := s.nowAmong(locks)
	for i := range ops {
		s.look(&ops[i], &all[i], now)
	}
	weir.Resolve(ops)
	moved := false
	for i := range ops {
		if !ops[i].Charged {
			continue
		}
		p := &all[i]
		if p.found && !moved && p.table.slabs == nil {
			p.chargeSlot(&ops[i], now)
			continue
		}
		found := p.found
		s.charge(&ops[i], p, now)
		// A row that was made may stand where that of a later op was.
		moved = moved || p.found != found
	}
	locks.unlock()
	return nil
}

// takeSingle takes an op that stands alone: its answer is the request's.
func (s *Store) takeSingle(o *weir.Op) error {
	if err := checkCost(o); err != nil {
		return err
	}
	d, now, err := s.one(o.Key, o.Limit, weir.Ask{Cost: o.Cost, ID: o.AskID(), Verb: o.Verb})
	if err != nil {
		return err
	}
	o.Decision, o.Now, o.Borrowed = d, now, false
	switch o.Verb {
	case weir.Spend:
		o.Charged = d.Allowed()
	case weir.Peek:
		o.Charged = false
	case weir.Force:
		o.Charged = true
	case weir.Refund:
		o.Charged = !estimated(d)
	}
	return nil
}

// estimated reports whether a sketch answered for a key that has no room.
func estimated(d weir.Decision) bool { return d.Guarantee().Source == weir.FromSketch }

func checkCost(o *weir.Op) error {
	if uint64(o.Cost) > weir.MaxCost || uint64(o.Headroom) > weir.MaxCost || o.Cost+o.Headroom > weir.MaxCost {
		return weir.ErrCost
	}
	return nil
}

// locate checks ops and finds the table and the tag of each.
func (s *Store) locate(ops []weir.Op, all []taken) error {
	for i := range ops {
		o, p := &ops[i], &all[i]
		if o.Role == weir.Deny {
			continue
		}
		if err := checkCost(o); err != nil {
			return err
		}
		p.table = s.table(o.Limit)
		if p.table == nil || o.Limit.Traits()&(weir.Sketches|weir.Leases) != 0 {
			a := weir.Ask{ID: o.ID, Verb: o.Verb}
			if err := s.refuses(o.Limit, &a); err != nil {
				return err
			}
		}
		p.tag = s.tag(o.Key, o.Limit)
		if o.Limit.Traits()&weir.Sketches != 0 {
			w, err := s.sketches.window(o.Limit)
			if err != nil {
				return err
			}
			p.window = w
			p.table = s.tables[1]
		}
		for j := range i {
			e := &all[j]
			if e.tag != p.tag || e.table != p.table {
				continue
			}
			p.again = true
			if spends(&ops[j], o) {
				p.earlier = min(p.earlier+ops[j].Cost, weir.MaxCost+1)
			}
		}
		if p.earlier+o.Cost+o.Headroom > weir.MaxCost {
			return weir.ErrCost
		}
	}
	return nil
}

// spends reports whether what earlier takes is no longer there for o, an op on
// the same key. Asking twice for one lease is asking once.
func spends(earlier, o *weir.Op) bool {
	if earlier.Verb == weir.Peek || earlier.Verb == weir.Refund {
		return false
	}
	return o.Limit.Traits()&weir.Leases == 0 || earlier.ID != o.ID
}

// hold locks the segments of all ops and sees to it that every op has its row,
// or room for one, or a sketch.
func (s *Store) hold(ops []weir.Op, all []taken, locks lockSet) lockSet {
	for {
		locks = locks[:0]
		for i := range all {
			if p := &all[i]; p.table != nil {
				p.segment = p.table.segment(p.tag)
				locks = locks.with(p.segment)
			}
		}
		locks.lock()
		p, need := s.lacking(ops, all)
		if p == nil {
			return locks
		}
		locks.unlock()
		if need == 0 {
			continue // a segment has split or merged meanwhile
		}
		// With nothing else locked: growing takes its time.
		g := p.table.lock(p.tag)
		now := s.nowIn(g)
		if int(g.used)+need > g.limit() {
			p.full = !p.table.makeRoom(g, need, now)
		} else {
			p.full = p.table.slabs != nil
		}
		g.mu.Unlock()
		if p.full {
			l := ops[p.index(all)].Limit
			if s.sketches.of(l, now) == nil {
				s.sketches.open(l, now)
			}
		}
	}
}

func (p *taken) index(all []taken) int {
	for i := range all {
		if &all[i] == p {
			return i
		}
	}
	return -1
}

// lacking returns the first op that cannot go on, and how many rows its segment
// needs; none if it has to be looked up anew.
func (s *Store) lacking(ops []weir.Op, all []taken) (*taken, int) {
	for i := range all {
		p := &all[i]
		if p.table == nil {
			continue
		}
		if !p.segment.covers(p.tag) {
			return p, 0
		}
		if p.window != nil {
			continue
		}
		p.overflow = nil
		if p.at, p.found = p.segment.find(p.tag); p.found {
			continue
		}
		need := 0
		for j := range all[:i+1] {
			if q := &all[j]; q.segment == p.segment && !q.found && !q.again && q.window == nil && q.overflow == nil {
				need++
			}
		}
		if int(p.segment.used)+need <= p.segment.limit() && p.table.holds(ops[i].Limit) {
			continue
		}
		if !p.full {
			return p, need
		}
		if p.overflow = s.sketches.of(ops[i].Limit, s.now()); p.overflow == nil {
			return p, need
		}
	}
	return nil, 0
}

// look fills the answer to a Peek.
func (s *Store) look(o *weir.Op, p *taken, now int64) {
	o.Now = now
	if p.table == nil {
		return
	}
	a := weir.Ask{Now: now, Cost: p.earlier + o.Cost + o.Headroom, ID: o.ID, Verb: weir.Peek}
	if o.Cost == 0 && o.Headroom == 0 {
		a.Cost = 0
	}
	switch {
	case p.found && p.table.slabs == nil:
		o.Decision = o.Limit.Algorithm.Step(p.segment.row(p.at), o.Limit, a)
	case p.window != nil:
		o.Decision = stepWindow(p.window, p.tag, o.Limit, a)
	case p.overflow != nil:
		p.find(now)
		o.Decision = p.estimate(p.overflow, o.Limit, a)
		s.overflowed.Add(1)
	default:
		p.find(now)
		if !p.ready(o, a) {
			p.overflow = refusing
			o.Decision = refuseNew(o.Limit, a)
			return
		}
		o.Decision, _ = p.step(o.Limit, a, true)
	}
}

// ready makes the row of a growing key as long as charging it will need, and
// reports false if the store is full: charging must not fail.
func (p *taken) ready(o *weir.Op, a weir.Ask) bool {
	if p.table.slabs == nil || o.Verb == weir.Peek || o.Verb == weir.Refund {
		return true
	}
	a.Verb = o.Verb
	_, ok := p.begin(o.Limit, a, false)
	if !p.found {
		p.table.wipe(p.segment, p.at)
	}
	return ok
}

// chargeSlot does what Resolve decided to a row that look has found.
func (p *taken) chargeSlot(o *weir.Op, now int64) {
	retry := o.Decision.RetryAfter
	a := weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Commit()}
	o.Decision = o.Limit.Algorithm.Step(p.segment.row(p.at), o.Limit, a)
	keepRefusal(o, retry)
}

// charge does what Resolve decided.
func (s *Store) charge(o *weir.Op, p *taken, now int64) {
	if p.table == nil {
		return
	}
	retry := o.Decision.RetryAfter
	a := weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Commit()}
	switch {
	case p.window != nil:
		// Others may have raised the estimate since the look; the key itself has
		// spent nothing, so what was allowed still is.
		if a.Verb == weir.Spend {
			a.Verb = weir.Force
		}
		o.Decision = stepWindow(p.window, p.tag, o.Limit, a)
		o.Decision.RetryAfter = retry
	case p.overflow != nil:
		if a.Verb == weir.Refund || !p.overflow.keeps() {
			o.Charged = false
			return
		}
		a.Verb = weir.Force
		p.find(now)
		o.Decision = p.estimate(p.overflow, o.Limit, a)
		o.Decision.RetryAfter = retry
	default:
		p.find(now)
		o.Decision, _ = p.step(o.Limit, a, true)
		keepRefusal(o, retry)
	}
}

// keepRefusal keeps an op refused that was charged though it was refused for the
// sake of its reserve: the cost alone would have passed.
func keepRefusal(o *weir.Op, retry time.Duration) {
	if retry != 0 && o.Decision.RetryAfter == 0 && o.Verb != weir.Refund {
		o.Decision.RetryAfter = retry
	}
}

// A lockSet is segments in the order of their numbers, each once. It is passed
// and returned by value, so that its array stays on the stack.
type lockSet []*segment

func (k lockSet) with(g *segment) lockSet {
	i := len(k)
	for i > 0 && k[i-1].num > g.num {
		i--
	}
	if i > 0 && k[i-1] == g {
		return k
	}
	k = append(k, nil)
	copy(k[i+1:], k[i:])
	k[i] = g
	return k
}

func (k lockSet) lock() {
	for _, g := range k {
		g.mu.Lock()
	}
}

func (k lockSet) unlock() {
	for _, g := range k {
		g.mu.Unlock()
	}
}

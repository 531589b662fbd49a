package tier

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// A tally is what a node has admitted of a key on its own and not yet told the
// shared store.
//
// Invariant: untold + telling <= share, and all nodes' shares of a key together
// are at most what the limit may be overshot by. Once the store has counted the
// whole limit, a node that asks hears that nothing is left; until it asks it
// admits at most its share. So the limit is overshot by no more than all shares,
// whatever the load, and however long nobody can ask.
type tally struct {
	known     bool
	remaining int64 // on the shared store, when it was last asked
	untold    int64 // less than none: a credit
	// telling is what the push under way tells; it is told again, under the same
	// number, until it is known to have been counted.
	telling int64
	push    int64 // its number
	mark    *weir.Limit
	since   int64 // when it was first sent
	// counted: push is what mark says. A key that was forgotten, or whose mark has
	// changed, looks before it tells.
	counted bool
	// share is how many units may be untold until shareEnd; shareBy names it to
	// the store.
	share, shareEnd, shareBy int64
	receipt                  int64 // of what is charged to the present window
	dirty                    bool  // it is in the list of what is to be told
}

// open returns how many units may be admitted without a word to the store.
func (t *tally) open(now int64) int64 {
	if !t.known || now >= t.shareEnd {
		return 0
	}
	own := t.untold + t.telling
	return min(t.share-own, t.remaining-own)
}

// takesBack reports whether cost units of the present window can be taken back here.
// What the store was told of already is a credit, for as much as the share.
func (t *tally) takesBack(p *plan, cost, receipt int64) bool {
	return (p.flows() && receipt != 0 || receipt == t.named(p)) && t.untold-cost >= -t.share
}

// named returns the receipt by which what is charged to the present window is given
// back to the store. The store was told of units of a sliding window after they were
// spent: they are among those of their sub-window and later.
func (t *tally) named(p *plan) int64 { return t.receipt - p.counting.batch }

// untell takes back cost units. Beyond what the store was not told of they are a
// credit: the next units that are spent are not told. That of a bucket ends when the
// units have flowed back on the store. Requires: takesBack.
func (t *tally) untell(p *plan, cost, receipt int64) {
	if p.flows() && (t.untold >= 0 || receipt < t.receipt) {
		t.receipt = receipt
	}
	t.untold -= cost
}

// endCredit forgets a credit whose window is over, or whose units have flowed back,
// by the store's time wall.
func (t *tally) endCredit(p *plan, wall int64) {
	if t.untold < 0 && wall >= min(t.receipt, p.lender.SpendBy(p.limit, t.receipt)) {
		t.untold = 0
	}
}

// told reports whether the store knows of all that was admitted.
func (t *tally) told() bool { return t.untold <= 0 && t.telling == 0 }

// near reports whether it is time to tell the store, before the next interval:
// half the share is used, or an eighth when four fifths of the limit are. Where
// units trickle in the latter says nothing: a limit that is in use is always nearly
// used up.
func (t *tally) near(p *plan) bool {
	own := t.untold + t.telling
	return own*2 >= t.share || own*8 >= t.share && p.trickle == 0 && (t.remaining-own)*5 < p.limit.Burst
}

const (
	// epoch is how long pushes are counted by one mark, in microseconds, and
	// markLife how long a mark remembers them after the first.
	epoch    = 60_000_000
	markLife = 90 * time.Second
	// giveUpAfter is how long a push is repeated. Later its mark may be forgotten.
	giveUpAfter = 20_000_000
	// markCount is the count of a mark: more pushes than there can be.
	markCount = 1 << 40
)

// counting is what the plan of an eventual limit adds.
type counting struct {
	// slack is the limit by which nodes get their shares from the store.
	slack *weir.Limit
	// marks count a node's pushes of a key, in epochs by turns: push n is counted
	// only while fewer than n have been. One that is repeated, or comes late, is
	// not counted twice; should a mark be forgotten too early, one may be, so that
	// too little is admitted and never too much.
	marks    [2]*weir.Limit
	interval int64 // microseconds
	// batch is how long a sub-window is by which receipts are told, zero where the
	// store tells by the same.
	batch int64
	// most is the limit with all that it may be overshot by, on the same counters:
	// by what it has left is seen by how much the limit was. Nil if such a limit
	// would have counters of its own.
	most *weir.Limit
}

// count fills the plan of an eventual limit, or makes it strict if it cannot be
// overshot by anything.
func (p *plan) count(node string) error {
	l := p.limit
	over := min(l.Overshoot(), l.Burst)
	if l.Algorithm != algorithm.FixedWindow {
		// Where one window of shares meets the next, both may be in use: what was
		// admitted by the old ones counts on in the new.
		over /= 2
	}
	if over == 0 || l.Anchor == params.AnchorFirst {
		p.mode = params.ConsistencyStrict
		return nil
	}
	if l.Algorithm != algorithm.FixedWindow && l.Algorithm != algorithm.SlidingSubwindows && l.Algorithm != algorithm.SlidingWindow {
		p.trickle = l.Burst
	}
	p.lender = l.Algorithm.(weir.Lender)
	// What is spent within a sub-window has one receipt.
	if err := p.setGrain(0); err != nil {
		return err
	}
	c := &counting{interval: micros.Of(l.Consistency.SyncInterval)}
	if p.grained != nil {
		c.batch = p.spendBy(0)
	}
	if c.interval == 0 {
		c.interval = 100_000
	}
	period := l.Period
	if refill := time.Duration(float64(l.Burst) / float64(l.Count) * float64(l.Period)); refill > period {
		period = min(refill.Truncate(time.Microsecond)+time.Microsecond, weir.MaxPeriod)
	}
	c.slack = &weir.Limit{
		Name: l.Name + " slack", Scope: l.Scope + "\x1fslack", Algorithm: algorithm.FixedWindow, Count: over, Period: period,
		Params: params.Params{Anchor: l.Anchor, Phase: l.Phase, Calendar: l.Calendar, Location: l.Location},
	}
	errs := []error{c.slack.Compile()}
	for i, half := range []string{"even", "odd"} {
		c.marks[i] = &weir.Limit{
			Name: l.Name + " pushes", Scope: l.Scope + "\x1fpushes " + half + " " + node, Algorithm: algorithm.FixedWindow,
			Count: markCount, Period: markLife, Params: params.Params{Anchor: params.AnchorFirst},
		}
		errs = append(errs, c.marks[i].Compile())
	}
	c.most = more(l)
	p.ttl = max(c.interval, (time.Second).Microseconds())
	p.brief = p.ttl
	p.source, p.counting = weir.FromCounts, c
	return errors.Join(errs...)
}

// spendCounted decides a spend of an eventual limit: by what the node knows, if
// its share allows, else by the shared store.
func (s *Store) spendCounted(ctx context.Context, p *plan, tag uint64, key string, cost int64) (weir.Decision, int64, error) {
	g := s.leases.shard(tag)
	ctx = s.link.Begin(ctx)
	for {
		g.mu.Lock()
		now := s.link.now()
		e := s.leases.add(g, tag, key, p, now)
		if e == nil || s.shareOf(p) < cost {
			g.mu.Unlock()
			break
		}
		if e.tally == nil {
			e.tally = &tally{}
		}
		if d, ok := s.spendTally(g, e, cost, now); ok {
			g.mu.Unlock()
			return d, s.wall(), nil
		}
		f := e.fetch
		if f == nil {
			t := e.tally
			if t.told() && t.known && now < t.shareEnd {
				// It has told all it knows, and too little is left: only the
				// store can say until when.
				g.mu.Unlock()
				break
			}
			var err error
			if f, err = s.startSync(g, e); err != nil {
				g.mu.Unlock()
				return weir.Decision{}, 0, err
			}
		}
		g.mu.Unlock()
		if err := s.link.Await(ctx, f.Flight); err != nil {
			return weir.Decision{}, 0, err
		}
	}
	sent := s.link.now()
	d, now, err := s.spendStrict(ctx, p, p.limit, tag, key, cost)
	if err != nil {
		return d, now, err
	}
	s.knows(tag, key, cost, p, d, sent)
	return d, now, nil
}

// counted says of a decision of the shared store on an eventual limit that it may
// be overshot all the same.
func (p *plan) counted(d weir.Decision) weir.Decision {
	if p.counting != nil && d.Limit == p.limit {
		d.Limit = p.limit.From(weir.FromCounts)
	}
	return d
}

// shareOf returns how many units a node may leave untold, as one of all that
// there are.
func (s *Store) shareOf(p *plan) int64 { return p.counting.slack.Count / s.nodes.count() }

// spendTally decides a spend by what the node knows, if it can. It does not
// allocate. Requires: g.mu.
func (s *Store) spendTally(g *leaseShard, e *lease, cost, now int64) (weir.Decision, bool) {
	t := e.tally
	if t == nil {
		return weir.Decision{}, false
	}
	g.touch(e, now)
	if t.untold < 0 {
		t.endCredit(e.plan, s.wall())
	}
	if t.open(now) < cost {
		if e.refuses(cost, now) {
			s.refusals.Recalled.Add(1)
			return e.refusal(now), true
		}
		if e.plan.limit.Consistency.Optimistic && !t.known && t.untold+cost <= s.shareOf(e.plan) {
			t.untold += cost
			s.soon(e)
			return e.describe(now), true
		}
		return weir.Decision{}, false
	}
	t.untold += cost
	s.spentHeld.Add(1)
	if e.fetch == nil && t.near(e.plan) {
		if _, err := s.startSync(g, e); err == nil {
			return e.describe(now), true
		}
	}
	s.soon(e)
	return e.describe(now), true
}

// knows notes what the shared store has left, as it has just said to a spend.
// Where units trickle in, a refusal stands for an interval: what has come in by
// then is spent together.
func (s *Store) knows(tag uint64, key string, cost int64, p *plan, d weir.Decision, sent int64) {
	g := s.leases.shard(tag)
	g.mu.Lock()
	defer g.mu.Unlock()
	e, now := g.get(tag, key, p.limit), s.link.now()
	if e == nil || e.tally == nil {
		return
	}
	e.heardOf(d, sent, now)
	if e.refused, e.ask = 0, 0; d.RetryAfter <= 0 {
		return
	}
	e.refused, e.retry = cost, later(now, micros.Of(d.RetryAfter))
	if p.trickle > 0 {
		e.retry = max(e.retry, now+p.counting.interval)
	}
	e.ask = min(e.retry, now+p.ttl)
}

// more returns l with all that it may be overshot by, on the same counters, or nil.
func more(l *weir.Limit) *weir.Limit {
	most := &weir.Limit{
		Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Burst: l.Burst + l.Overshoot(), Params: l.Params,
	}
	if l.Algorithm != algorithm.TokenBucket && l.Algorithm != algorithm.LeakyBucket {
		most.Count, most.Burst = l.Count+l.Overshoot(), 0
	}
	if err := most.Compile(); err != nil || most.ID() != l.ID() {
		return nil
	}
	return most
}

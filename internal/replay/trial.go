package replay

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/store/memory"
)

// trial is what is tried.
type trial struct {
	*Tried
	// now is the log's clock, in microseconds. It never goes back.
	now int64
	// clock is the same for the store, which looks at it by itself too.
	clock   atomic.Int64
	store   *memory.Store
	limiter *weir.Limiter
	request *weir.Request
	// meetsHeld: the request meets a limit on concurrency.
	meetsHeld bool
	tallies   map[*weir.Counters]*tally
	order     []*tally

	// sum is what is counted of requests.
	sum                     Outcome
	clients, refusedClients distinct
	series                  series
}

func newTrial(what *Tried, maxBytes int64) (*trial, error) {
	t := &trial{Tried: what, tallies: make(map[*weir.Counters]*tally), request: new(weir.Request)}
	for _, p := range what.Set.Refs() {
		one, err := newTally(p)
		if err != nil {
			return nil, err
		}
		t.tallies[p.Limit.Counters()] = one
		t.order = append(t.order, one)
	}
	t.store = memory.New(memory.Options{MaxBytes: maxBytes, Now: t.clock.Load})
	var err error
	if t.limiter, err = weir.New(t.store, what.Set.Without(t.noteHeld), weir.Options{}); err != nil {
		return nil, errors.Join(err, t.store.Close())
	}
	return t, nil
}

// noteHeld reports whether a limit is on concurrency, and notes that the request meets one: a
// log does not tell when its requests ended.
func (t *trial) noteHeld(l *weir.Limit) bool {
	isHeld := l.Traits()&weir.Leases != 0
	t.meetsHeld = t.meetsHeld || isHeld
	return isHeld
}

// decideLine decides the request of a line, and reports whether it was refused.
func (t *trial) decideLine(l *accesslog.Line, client uint64) (bool, error) {
	t.now = max(t.now, l.Time)
	t.clock.Store(t.now)
	r := t.request
	r.Reset()
	r.Domain = t.Domain
	if !t.Ask(r, l) {
		r.Reset()
		r.Domain = t.Domain
	}
	t.meetsHeld = false
	d, err := t.limiter.Decide(context.Background(), r)
	if t.meetsHeld {
		t.sum.Unended++
	}
	if err != nil {
		return false, err
	}
	t.clients.addHash(client)
	ops := r.Ops()
	if len(ops) == 0 {
		t.sum.Unlimited++
	}
	t.tallyOps(ops, d)
	p := t.series.pointAt(t.now)
	if !d.Allowed() {
		p.refused++
		t.sum.Refused++
		t.refusedClients.addHash(client)
		return true, nil
	}
	p.allowed++
	if r.Soft() {
		t.sum.Soft++
	}
	if r.Delay() > 0 {
		t.sum.Delayed++
	}
	return false, nil
}

// tallyOps takes in what each limit said.
func (t *trial) tallyOps(ops []weir.Op, d weir.Decision) {
	var last *tally
	for i := range ops {
		op := &ops[i]
		one := t.tallies[op.Limit.Counters()]
		if one == nil {
			continue
		}
		if one != last { // the parts of a limit stand side by side
			one.met++
			one.demand.addUnits(hashOf(op.Key), t.now, op.Cost)
			last = one
		}
		if op.Outcome != weir.Uncounted {
			one.addDecision(op, t.now, op.Decision.Limit == d.Limit)
		}
	}
}

func (t *trial) close() error { return t.store.Close() }

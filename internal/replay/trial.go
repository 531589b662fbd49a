package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/replay/facts"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// trial is one set of rules that is tried, or the gateway of a configuration.
type trial struct {
	set     *rules.Set
	gateway *Gateway
	domain  string
	plan    *plan
	untold  [][]string
	// now is the log's clock, in microseconds. It never goes back.
	now int64
	// clock is the same for the store, which looks at it by itself too.
	clock   atomic.Int64
	store   *memory.Store
	limiter *weir.Limiter
	request *weir.Request
	tallies map[*weir.Counters]*tally
	order   []*tally

	refused, soft, delayed, unlimited int64
	// unended counts the requests that met a limit on concurrency.
	unended                 int64
	clients, refusedClients distinct
	series                  series
}

func newTrial(set *rules.Set, gateway *Gateway, opt *Options) (*trial, error) {
	t := &trial{set: set, gateway: gateway, tallies: make(map[*weir.Counters]*tally), request: new(weir.Request)}
	var limits []rules.LimitRef
	if gateway != nil {
		t.domain, limits = gateway.Domain, gateway.Limits
	} else if err := t.planSet(opt); err != nil {
		return nil, err
	} else {
		limits = set.LimitRefs()
	}
	for _, p := range limits {
		one, err := newTally(p)
		if err != nil {
			return nil, err
		}
		t.tallies[p.Limit.Counters()] = one
		t.order = append(t.order, one)
	}
	t.store = memory.New(memory.Options{MaxBytes: opt.MaxBytes, Now: t.clock.Load})
	var err error
	if t.limiter, err = weir.New(t.store, t, weir.Options{}); err != nil {
		return nil, errors.Join(err, t.store.Close())
	}
	return t, nil
}

// planSet plans what the limits of the set are asked about a line.
func (t *trial) planSet(opt *Options) (err error) {
	if t.domain, err = t.set.Domain(opt.Domain); err != nil {
		return err
	}
	if t.plan, t.untold, err = newPlan(t.set, t.domain, opt); err != nil {
		return err
	}
	if len(t.plan.descriptors) == 0 {
		return fmt.Errorf("no rule of domain %s can be tried: lines have %s, and the rules need %s: name the field of a JSON log that has it (--field tenant=request.headers.X-Tenant), or one value for all lines (--set tenant=acme)",
			t.domain, strings.Join(facts.Known(), ", "), wanted(t.untold))
	}
	return nil
}

// wanted lists the keys that lines do not tell.
func wanted(lists [][]string) string {
	var keys []string
	for _, list := range lists {
		for _, key := range list {
			if !slices.Contains(keys, key) && !slices.Contains(facts.Known(), key) {
				keys = append(keys, key)
			}
		}
	}
	return strings.Join(keys, ", ")
}

// Match implements weir.Rules: it is the set's, without limits on concurrency, for
// a log does not tell when its requests ended.
func (t *trial) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	from := len(dst)
	if t.gateway != nil {
		dst = t.gateway.Rules.Match(dst, r)
	} else {
		dst = t.set.Match(dst, r)
	}
	kept := dst[:from]
	for _, op := range dst[from:] {
		if op.Limit == nil || op.Limit.Traits()&weir.Leases == 0 {
			kept = append(kept, op)
		}
	}
	if len(kept) < len(dst) {
		t.unended++
	}
	return kept
}

// decide decides the request of a line, and reports whether it was refused.
func (t *trial) decide(l *accesslog.Line, client uint64) (bool, error) {
	t.now = max(t.now, l.Time)
	t.clock.Store(t.now)
	r := t.request
	r.Reset()
	r.Domain = t.domain
	if t.gateway == nil {
		t.plan.fill(r, l)
	} else if !t.gateway.Ask(r, l) {
		r.Reset()
		r.Domain = t.domain
	}
	d, err := t.limiter.Decide(context.Background(), r)
	if err != nil {
		return false, err
	}
	t.clients.add(client)
	ops := r.Ops()
	if len(ops) == 0 {
		t.unlimited++
	}
	t.tally(ops, d)
	p := t.series.at(t.now)
	if !d.Allowed() {
		p.refused++
		t.refused++
		t.refusedClients.add(client)
		return true, nil
	}
	p.allowed++
	if r.Soft() {
		t.soft++
	}
	if r.Delay() > 0 {
		t.delayed++
	}
	return false, nil
}

// tally takes in what each limit said.
func (t *trial) tally(ops []weir.Op, d weir.Decision) {
	var last *tally
	for i := range ops {
		op := &ops[i]
		one := t.tallies[op.Limit.Counters()]
		if one == nil {
			continue
		}
		if one != last { // the parts of a limit stand side by side
			one.met++
			last = one
		}
		if op.Outcome != weir.Uncounted {
			one.add(op, t.now, op.Decision.Limit == d.Limit)
		}
	}
}

func (t *trial) close() error { return t.store.Close() }

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
	files  []string
	rules  weir.Rules
	domain string
	// ask is that of [Gateway], or what newPlan makes of the rules.
	ask    func(*weir.Request, *accesslog.Line) bool
	untold [][]string
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
	t := &trial{tallies: make(map[*weir.Counters]*tally), request: new(weir.Request)}
	if gateway == nil {
		p, err := t.plan(set, opt)
		if err != nil {
			return nil, err
		}
		gateway = p
	} else {
		t.files = []string{gateway.File}
	}
	t.domain, t.rules, t.ask = gateway.Domain, gateway.Rules, gateway.Ask
	for _, p := range gateway.Limits {
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

// plan returns a set as a gateway would ask it: about all that lines tell.
func (t *trial) plan(set *rules.Set, opt *Options) (*Gateway, error) {
	domain, err := set.Domain(opt.Domain)
	if err != nil {
		return nil, err
	}
	p, untold, err := newPlan(set, domain, opt)
	if err != nil {
		return nil, err
	}
	if len(p.descriptors) == 0 {
		return nil, fmt.Errorf("no rule of domain %s can be tried: lines have %s, and the rules need %s: name the field of a JSON log that has it (--field tenant=request.headers.X-Tenant), or one value for all lines (--set tenant=acme)",
			domain, strings.Join(facts.Known(), ", "), wanted(untold))
	}
	t.files, t.untold = set.Files(), untold
	return &Gateway{Domain: domain, Rules: set, Limits: set.LimitRefs(), Ask: func(r *weir.Request, l *accesslog.Line) bool {
		p.fill(r, l)
		return true
	}}, nil
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
	dst = t.rules.Match(dst, r)
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
	if !t.ask(r, l) {
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

package weir

import (
	"context"
	"fmt"
)

// Take spends cost units of key: a request with the single entry ("key", key).
// A cost of zero looks and spends nothing. It does not allocate.
//
// Take is for [Limits]. Where the rules have no limit for that entry, and do not
// exempt it (see [Catalog]), it returns ErrNoKey. With any error the Decision is
// the zero Decision, which refuses.
func (l *Limiter) Take(ctx context.Context, key string, cost int64) (Decision, error) {
	if cost < 0 || cost > MaxCost {
		return Decision{}, ErrCost
	}
	if l.only == nil {
		return l.takeRequest(ctx, key, cost)
	}
	d, err := l.store.TakeOne(ctx, key, l.only, cost)
	if err == nil && d.Limit == nil {
		err = errUndecided
	}
	if err != nil {
		return Decision{}, err
	}
	countOne(l.only, d)
	return d, nil
}

// TakeBy spends cost units by the rules of a domain: a request with one descriptor, whose
// entries are given as keys and values in turn, in the order of the rules.
//
//	d, err := lim.TakeBy(ctx, "api", 1, "plan", "free", "user", id)
//
// A cost of zero looks and spends nothing. Values that no rule limits pass. Where no rule
// looks at the keys, or at the domain, the error is ErrNoRule, if the rules can tell (see
// [Catalog]); it is ErrNoRequest for entries that are no pairs, and else what Decide
// returns. With any error the Decision is the zero Decision, which refuses. It does not
// allocate. For several descriptors, or a concurrency limit, use Decide.
func (l *Limiter) TakeBy(ctx context.Context, domain string, cost int64, entries ...string) (Decision, error) {
	switch {
	case cost < 0 || cost > MaxCost:
		return Decision{}, ErrCost
	case len(entries) == 0 || len(entries)%2 != 0:
		return Decision{}, fmt.Errorf("%w: entries are a key, its value, and so on, and there are %d texts", ErrNoRequest, len(entries))
	}
	r := l.Acquire()
	defer l.Recycle(r)
	r.Domain, r.entries = domain, r.entries[:0]
	for i := 0; i < len(entries); i += 2 {
		r.entries = append(r.entries, Entry{entries[i], entries[i+1]})
	}
	r.takeEntries(cost)
	d, err := l.Decide(ctx, r)
	if err != nil || len(r.ops) > 0 {
		return d, err
	}
	if c, ok := l.rules.(Catalog); ok {
		if why := c.Misspelt(r); why != "" {
			return Decision{}, fmt.Errorf("%w: %s", ErrNoRule, why)
		}
	}
	return d, nil
}

// TakeLimit spends cost units of key under limit, which must be compiled,
// without asking the rules: for limits that come with a call. What their Mode says
// holds as under rules. A cost of zero looks, spends nothing and is not counted. Observers are told as of any request,
// but that Op.Now is zero, since the store does not tell its time. It does not
// allocate. It returns ErrNotCompiled for a limit that is nil or not compiled;
// with any error the Decision is the zero Decision, which refuses.
func (l *Limiter) TakeLimit(ctx context.Context, key string, limit *Limit, cost int64) (Decision, error) {
	if cost < 0 || cost > MaxCost {
		return Decision{}, ErrCost
	}
	if limit == nil || !limit.compiled {
		return Decision{}, ErrNotCompiled
	}
	if !limit.isSimple || limit.Headroom != nil {
		return l.takeMode(ctx, key, limit, cost)
	}
	d, err := l.store.TakeOne(ctx, key, limit, cost)
	if err == nil && d.Limit == nil {
		err = errUndecided
	}
	if err != nil {
		d = Decision{}
	} else if cost > 0 {
		countOne(limit, d)
	}
	if len(l.observers) > 0 {
		l.notifyObservers(key, limit, cost, d, err)
	}
	return d, err
}

// takeMode is TakeLimit for a limit that is met as several ops, or not as one that
// must allow.
func (l *Limiter) takeMode(ctx context.Context, key string, limit *Limit, cost int64) (Decision, error) {
	r := l.Acquire()
	defer l.Recycle(r)
	r.entries = append(r.entries[:0], Entry{"key", key})
	r.takeEntries(cost)
	r.ops = limit.Append(r.ops, key, cost, r)
	d, err := l.decideOps(ctx, r)
	for _, o := range l.observers {
		o.Observe(r, d, err)
	}
	return d, err
}

// notifyObservers tells observers of a decision that was made without ops.
func (l *Limiter) notifyObservers(key string, limit *Limit, cost int64, d Decision, err error) {
	r := l.Acquire()
	o := Op{Key: key, Limit: limit, Cost: cost, Answer: Answer{Decision: d, Charged: d.Allowed() && cost > 0}}
	if cost == 0 {
		o.Verb = Peek
	}
	r.Cost, r.Verb = cost, o.Verb
	r.ops = append(r.ops, o)
	if err == nil {
		r.ops[0].Outcome = outcome(r.ops, 0)
	}
	for _, obs := range l.observers {
		obs.Observe(r, d, err)
	}
	r.ops[0].Key = "" // the caller's, which may be a buffer that is used again
	l.Recycle(r)
}

func (l *Limiter) takeRequest(ctx context.Context, key string, cost int64) (Decision, error) {
	r := l.Acquire()
	defer l.Recycle(r)
	r.entries = append(r.entries[:0], Entry{"key", key})
	r.takeEntries(cost)
	d, err := l.Decide(ctx, r)
	if err == nil && len(r.ops) == 0 && !l.exempts(r) {
		return Decision{}, ErrNoKey
	}
	return d, err
}

// takeEntries makes an empty r one descriptor of its entries, which spends cost, or looks
// if that is zero.
func (r *Request) takeEntries(cost int64) {
	r.Descriptors = append(r.Descriptors, Descriptor{Entries: r.entries})
	r.Cost = cost
	if cost == 0 {
		r.Verb = Peek
	}
}

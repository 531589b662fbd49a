package ours

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

// Observed is a kind of decision that is measured with an observer and without.
type Observed struct {
	Name string
	// keys take turns.
	keys    int
	refuses bool
	// AimPart is the most that observing may add, as a part of the decision alone,
	// and AimAdded in nanoseconds. Zero means that it is not bounded so.
	AimPart, AimAdded float64
}

// ObservedCases lists them. Of many refused keys none is hot, so that each decision
// is told by itself, until the observer's ring is full.
var ObservedCases = []Observed{
	{Name: "allowed, one key", keys: 1, AimPart: 0.10},
	{Name: "refused, one key", keys: 1, refuses: true, AimAdded: 100},
	{Name: "refused, 16,384 keys in turn", keys: 1 << 14, refuses: true, AimAdded: 100},
}

// Open returns a function that decides once and reports whether the answer is as
// expected, for one goroutine; and one that ends it.
func (c Observed) Open(observed bool) (ask func() bool, done func() error, err error) {
	limit := weir.PerDay(1<<50, algorithm.TokenBucket)
	if c.refuses {
		limit = weir.PerDay(1, algorithm.TokenBucket)
	}
	if err := limit.Compile(); err != nil { // before roll-ups are made of it
		return nil, nil, err
	}
	var opt weir.Options
	stop := func() error { return nil }
	if observed {
		o, err := event.New(event.Options{Queue: taker{}, Limits: func() []limits.Ref { return []limits.Ref{{Limit: limit}} }})
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx) }()
		stop = func() error { cancel(); return <-ended }
		opt.Observers = []weir.Observer{o}
	}
	store := memory.New(memory.Options{})
	done = func() error { return errors.Join(stop(), store.Close()) }
	limiter, err := weir.New(store, weir.Limits{limit}, opt)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	ask = c.ask(limiter)
	if !c.refuses {
		return ask, done, nil
	}
	for range c.keys {
		if ask() {
			return nil, nil, errors.Join(fmt.Errorf("%s: the first request of a key was refused", c.Name), done())
		}
	}
	return ask, done, nil
}

func (c Observed) ask(l *weir.Limiter) func() bool {
	ctx := context.Background()
	entries := make([]weir.Entry, c.keys)
	for i := range entries {
		entries[i] = weir.Entry{Key: "user", Value: load.Key(i)}
	}
	next := 0
	return func() bool {
		r := l.Acquire()
		r.Facts = visitor
		next = (next + 1) & (c.keys - 1)
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: entries[next : next+1]})
		d, err := l.Decide(ctx, r)
		l.Recycle(r)
		return err == nil && passes(d) != c.refuses
	}
}

// taker is a queue that takes all.
type taker struct{}

func (taker) Publish(context.Context, []event.Event) error { return nil }
func (taker) Close() error                                 { return nil }

// visitor is a client of whom all is known.
var visitor = &client{addr: netip.MustParseAddr("203.0.113.77")}

type client struct{ addr netip.Addr }

func (c *client) Address() netip.Addr { return c.addr }
func (*client) Method() string        { return "GET" }
func (*client) Host() string          { return "api.example.com" }
func (*client) Path() string          { return "/v1/orders/17/items" }
func (*client) User() string          { return "user-8f3a9c" }
func (*client) Tier() string          { return "gold" }
func (*client) Agent() string {
	return "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
}

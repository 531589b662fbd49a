package event_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/event"
	"github.com/weirlimit/weir/store/memory"
)

// What it costs to be observed, on decisions that allow and that refuse: compare
// the lines with and without.
func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct {
		name     string
		count    int64
		keys     int
		observed bool
		facts    weir.Facts
	}{
		{"allowed/alone", 1 << 50, 1, false, nil}, {"allowed/observed", 1 << 50, 1, true, someone},
		{"refused/alone", 1, 1, false, nil}, {"refused/observed", 1, 1, true, someone},
		// Of many keys, so that none is hot: most find the ring full.
		{"scattered/alone", 1, 1 << 14, false, nil}, {"scattered/observed", 1, 1 << 14, true, someone},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := weir.PerDay(c.count, algorithm.TokenBucket)
			if err := l.Compile(); err != nil { // before roll-ups are made of it
				b.Fatal(err)
			}
			s := memory.New(memory.Options{})
			defer s.Close()
			var opt weir.Options
			dropped := func() uint64 { return 0 }
			if c.observed {
				o, err := event.New(event.Options{Queue: &kept{}, Limits: func() []event.Series { return []event.Series{{Limit: l}} }})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error)
				go func() { ended <- o.Run(ctx) }()
				defer func() {
					cancel()
					if err := <-ended; err != nil {
						b.Error(err)
					}
				}()
				opt.Observers = []weir.Observer{o}
				dropped = func() uint64 { return o.Loss().Dropped }
			}
			lim, err := weir.New(s, weir.Limits{l}, opt)
			if err != nil {
				b.Fatal(err)
			}
			entries := make([]weir.Entry, c.keys)
			for i := range entries {
				entries[i] = weir.Entry{Key: "key", Value: fmt.Sprintf("203.0.%d.%d", i>>8, i&255)}
			}
			var r weir.Request
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				r.Reset()
				r.Facts = c.facts
				i = (i + 1) & (c.keys - 1)
				r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: entries[i : i+1]})
				if _, err := lim.Decide(context.Background(), &r); err != nil {
					b.Fatal(err)
				}
			}
			// What is dropped costs less than what is told.
			b.ReportMetric(float64(dropped())/float64(b.N), "dropped/op")
		})
	}
}

// someone is a client of whom all is known.
var someone = &client{
	addr: netip.MustParseAddr("203.0.113.77"), method: "GET", host: "api.example.com", path: "/v1/orders/17/items",
	user: "user-8f3a9c", tier: "gold",
	agent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
}

type client struct {
	addr                                  netip.Addr
	method, host, path, user, tier, agent string
}

func (c *client) Address() netip.Addr { return c.addr }
func (c *client) Method() string      { return c.method }
func (c *client) Host() string        { return c.host }
func (c *client) Path() string        { return c.path }
func (c *client) User() string        { return c.user }
func (c *client) Tier() string        { return c.tier }
func (c *client) Agent() string       { return c.agent }

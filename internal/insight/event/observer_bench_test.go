package event

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

// What it costs to tell a refusal that is not hot, with and without facts, and to
// take it in again.
func BenchmarkObserve(b *testing.B) {
	all := known{
		address: netip.MustParseAddr("203.0.113.77"), method: "GET", host: "api.example.com", path: "/v1/orders/17/items",
		user: "user-8f3a9c", tier: "gold",
		agent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
	}
	for _, c := range []struct {
		name  string
		facts weir.Facts
	}{{"alone", nil}, {"facts", &all}} {
		b.Run(c.name, func(b *testing.B) {
			const keys = 4096
			s := memory.New(memory.Options{})
			defer s.Close()
			l := weir.PerDay(1, algorithm.TokenBucket)
			lim, err := weir.New(s, weir.Limits{l}, weir.Options{})
			if err != nil {
				b.Fatal(err)
			}
			var requests [keys]weir.Request
			var decisions [keys]weir.Decision
			for i := range requests {
				r := &requests[i]
				r.Descriptors = []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: fmt.Sprintf("198.51.%d.%d", i>>8, i&255)}}}}
				for range 2 {
					if decisions[i], err = lim.Decide(context.Background(), r); err != nil {
						b.Fatal(err)
					}
				}
				r.Facts = c.facts
			}
			o, err := New(Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return nil }})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%keys == 0 {
					b.StopTimer()
					o.drainRing()
					o.merge.takeRecords()
					b.StartTimer()
				}
				o.Observe(&requests[i%keys], decisions[i%keys], nil)
			}
			b.StopTimer()
			if l := o.Loss(); l != (Loss{}) {
				b.Fatalf("lost %+v", l)
			}
		})
	}
}

// How fast the ring is emptied.
func BenchmarkDrain(b *testing.B) {
	l := weir.PerDay(1, algorithm.TokenBucket)
	if err := l.Compile(); err != nil {
		b.Fatal(err)
	}
	o, err := New(Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	all := known{address: netip.MustParseAddr("203.0.113.77"), method: "GET", host: "api.example.com", path: "/v1/orders/17/items", user: "user-8f3a9c"}
	const keys = 4096
	b.ResetTimer()
	for n := 0; n < b.N; n += keys {
		b.StopTimer()
		if n%(64*keys) == 0 {
			o.merge.takeRecords()
		}
		for i := range keys {
			s, at := o.ring.claimSlot()
			s.limit, s.now, s.hash, s.outcome = l, 1, uint64(i), weir.Refused
			s.setKey("203.0.113.77")
			s.facts.known = true
			o.taker.takeFacts(&s.facts, all, &o.hash)
			s.commit(at)
		}
		b.StartTimer()
		o.drainRing()
	}
}

// How long records of as many clients as there can be are put into words, while
// the ring fills.
func BenchmarkTell(b *testing.B) {
	l := weir.PerDay(1, algorithm.TokenBucket)
	if err := l.Compile(); err != nil {
		b.Fatal(err)
	}
	o, err := New(Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return []limits.Ref{{Limit: l}} }})
	if err != nil {
		b.Fatal(err)
	}
	all := known{address: netip.MustParseAddr("203.0.113.77"), method: "GET", host: "api.example.com", path: "/v1/orders/17/items", user: "user-8f3a9c", agent: "curl/8"}
	const clients = 20_000
	b.ReportAllocs()
	for n := 0; n < b.N; n += clients {
		b.StopTimer()
		for i := range clients {
			s, at := o.ring.claimSlot()
			s.limit, s.now, s.hash, s.outcome = l, 1, uint64(i), weir.Refused
			s.setKey("203.0.113.77")
			o.taker.takeFacts(&s.facts, all, &o.hash)
			s.commit(at)
			if i%4096 == 4095 || i == clients-1 {
				o.drainRing()
			}
		}
		b.StartTimer()
		if got := len(o.reportRecords()); got != clients {
			b.Fatalf("%d records", got)
		}
	}
}

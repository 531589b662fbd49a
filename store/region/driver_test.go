package region_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/region"
	"github.com/weirlimit/weir/store/shared"
)

// A server that stalls opens its own breaker. The keys of the others are decided by them,
// and are counted by the other region.
func TestStalledServerIsOutAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		own, other, local := newServers(t, 2, nil), newServers(t, 2, nil), newServers(t, 1, nil).shards[0]
		r, err := region.New(own, region.Options{Name: "a", Peers: []region.Peer{{Name: "b", Store: other}}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := shared.New(r, shared.Options{Local: local})
		if err != nil {
			t.Fatal(err)
		}
		l := compiled(t, weir.PerDay(40, algorithm.FixedWindow), func(l *weir.Limit) {
			l.Name, l.Consistency.Mode, l.Consistency.MaxOvershoot = "limit", params.ConsistencyEventual, 20
		})
		decide := func(shard string) (degraded int) {
			for i := range 20 {
				d, err := s.TakeOne(context.Background(), fmt.Sprint(shard, i), l, 1)
				if err != nil || !d.Allowed() {
					t.Error(d, err)
				} else if d.Guarantee().Degraded {
					degraded++
				}
			}
			return degraded
		}
		for _, x := range []struct {
			stalls   bool
			degraded int
		}{{false, 0}, {true, 20}, {false, 0}} {
			own.stalls[1].Store(x.stalls)
			other.stalls[1].Store(x.stalls)
			time.Sleep(2 * time.Second)
			if a, b := decide("a"), decide("b"); a != 0 || b != x.degraded || s.Stats().BreakerOpen {
				t.Errorf("one server stalls %v: %d and %d decisions without them, open %v", x.stalls, a, b, s.Stats().BreakerOpen)
			}
			if a := decide("a"); a != 0 {
				t.Errorf("one server stalls %v: %d decisions of the other without it", x.stalls, a)
			}
			time.Sleep(time.Second)
			for _, p := range r.Stats().Peers {
				if p.Open {
					t.Errorf("one server stalls %v: the other region is out", x.stalls)
				}
			}
			if n := counted(t, other.shards[0], "a0", l); n == 0 {
				t.Errorf("one server stalls %v: the other region counts nothing", x.stalls)
			}
		}
		if err := errors.Join(s.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		for _, shards := range [][]int{own.opened, other.opened} {
			for _, shard := range shards {
				if shard != 1 {
					t.Errorf("breakers of %d have opened", shards)
				}
			}
		}
		if len(own.opened) == 0 {
			t.Error("no breaker has opened")
		}
	})
}

// A region decides the same whether it is asked directly or driven by a queue, and its
// store counts the same.
func TestDrivenDecidesTheSame(t *testing.T) {
	for seed := range uint64(12) {
		bubble.Test(t, func(t *testing.T) {
			stores, regions, q := newPair(t, 1)
			rnd := rand.New(rand.NewPCG(seed, 1))
			var limits []*weir.Limit
			for i, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket, algorithm.FixedWindow, algorithm.Concurrency} {
				limits = append(limits, compiled(t, &weir.Limit{Name: fmt.Sprint("limit", i), Algorithm: a, Count: 12, Period: 20 * time.Second}, func(l *weir.Limit) {
					if l.Consistency.Mode, l.Consistency.MaxOvershoot = params.ConsistencyEventual, 6; i > 2 {
						l.Consistency.Mode = params.ConsistencyLocal
					}
				}))
			}
			hold := func(stalls bool) {
				for i := range stores {
					stores[i][1].stalls[0].Store(stalls)
				}
			}
			hold(true)
			var charged []weir.Op
			newOp := func() weir.Op {
				if len(charged) > 0 && rnd.IntN(4) == 0 {
					i := rnd.IntN(len(charged))
					o := charged[i]
					charged = slices.Delete(charged, i, i+1)
					return o.Undo(o.Cost)
				}
				o := weir.Op{Key: string(rune('a' + rnd.IntN(3))), Limit: limits[rnd.IntN(len(limits))], Cost: rnd.Int64N(3), ID: 1 + rnd.Int64N(1000)}
				o.Verb = []weir.Verb{weir.Spend, weir.Spend, weir.Spend, weir.Force, weir.Peek}[rnd.IntN(5)]
				o.Role = []weir.Role{weir.Enforce, weir.Enforce, weir.Always, weir.Shadow}[rnd.IntN(4)]
				o.Headroom = max(rnd.Int64N(8)-5, 0)
				return o
			}
			for range 200 {
				ops := []weir.Op{newOp()}
				for rnd.IntN(3) == 0 {
					ops = append(ops, newOp())
				}
				if rnd.IntN(4) == 0 { // coalesced
					ops[0].Role, ops[0].Verb, ops[0].Headroom = weir.Always, weir.Spend, 0
					ops = slices.Repeat(ops[:1], 1+rnd.IntN(4))
				}
				driven := slices.Clone(ops)
				err := regions[0].Take(context.Background(), ops)
				_, drivenErr := q.DecideInBudget(context.Background(), driven)
				if (err == nil) != (drivenErr == nil) {
					panic(fmt.Sprint(seed, err, drivenErr))
				}
				for i := range ops {
					a, b := &ops[i], &driven[i]
					if err == nil && (a.Decision != b.Decision || a.Charged != b.Charged || a.Now != b.Now || a.Role != b.Role) {
						panic(fmt.Sprintf("seed %d: %+v, driven %+v", seed, *a, *b))
					}
					if err == nil && a.Charged && a.Verb != weir.Refund {
						charged = append(charged, *a)
					}
				}
				// The other region answers between decisions alone, so that what is known of
				// it does not depend on which goroutine came first.
				if rnd.IntN(5) == 0 {
					hold(false)
					time.Sleep(3 * time.Second)
					hold(true)
				}
				time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
				synctest.Wait()
			}
			hold(false)
			time.Sleep(3 * time.Second) // probes end
			q.Close()
			if a, b := regions[0].Stats(), regions[1].Stats(); a.Capped == 0 || a.Capped != b.Capped {
				t.Errorf("seed %d: %+v, driven %+v", seed, a, b)
			}
			for i := range regions {
				if err := regions[i].Close(); err != nil {
					t.Error(err)
				}
			}
			for _, key := range []string{"a", "b", "c"} {
				for _, l := range limits[:4] {
					if a, b := counted(t, stores[0][0].shards[0], key, l), counted(t, stores[1][0].shards[0], key, l); a != b {
						t.Errorf("seed %d: the store counts %d of %s, driven %d", seed, a, l.Name, b)
					}
				}
			}
		})
	}
}

// A charge that is given back as another part of the store refuses the request is no longer
// counted for the other region.
func TestRollbackOverParts(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		bubble.Test(t, func(t *testing.T) {
			stores, regions, q := newPair(t, 2)
			l := compiled(t, weir.PerHour(100, a), func(l *weir.Limit) {
				l.Name, l.Consistency.Mode, l.Consistency.MaxOvershoot = "limit", params.ConsistencyEventual, 40
			})
			full := compiled(t, weir.PerHour(1, algorithm.FixedWindow), func(l *weir.Limit) { l.Name, l.Consistency.Mode = "full", params.ConsistencyLocal })
			passed := 0
			time.Sleep(time.Minute) // since the epoch has begun
			for range 30 {
				ops := []weir.Op{{Key: "a", Limit: l, Cost: 3}, {Key: "b", Limit: full, Cost: 1}}
				if _, err := q.DecideInBudget(context.Background(), ops); err != nil {
					t.Fatal(err)
				}
				if ops[0].Charged {
					passed++
				}
				time.Sleep(time.Second)
			}
			q.Close()
			for i := range regions {
				if err := regions[i].Close(); err != nil {
					t.Error(err)
				}
			}
			for i, name := range []string{"own", "other"} {
				if n := counted(t, stores[1][i].shards[0], "a", l); passed != 1 || n > 3 {
					t.Errorf("%s: the %s region counts %d units of %d requests", a.Name(), name, n, passed)
				}
			}
		})
	}
}

// Calls that regions count nothing of go to the own driver as they are.
func TestPlainCallsAreHandedThrough(t *testing.T) {
	own := newServers(t, 1, nil)
	r, err := region.New(own, region.Options{Name: "a", Peers: []region.Peer{{Name: "b", Store: own}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, tuning := r.Driver()
	l := compiled(t, weir.PerDay(40, algorithm.FixedWindow), func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyLocal })
	c := &transport.Call{Ops: []weir.Op{{Key: "a", Limit: l, Cost: 1}}, Within: time.Second}
	calls, through := []*transport.Call{c}, handedThrough{servers: own}
	if n := testing.AllocsPerRun(100, func() { tuning.Send(&through, 0, calls) }); n != 0 || through.last != c {
		t.Errorf("%v allocations", n)
	}
}

// handedThrough is a driver that notes what it gets.
type handedThrough struct {
	*servers
	last *transport.Call
}

func (h *handedThrough) Send(_ int, calls []*transport.Call) { h.last = calls[0] }

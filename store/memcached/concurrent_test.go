package memcached_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memcached"
)

const clients = 64

// nodes opens n stores on the same servers: so many nodes of a fleet.
func nodes(t *testing.T, n int, o memcached.Options) []*memcached.Store {
	var all []*memcached.Store
	for range n {
		all = append(all, open(t, o))
	}
	return all
}

// TestAdmitsExactly: 64 clients of four nodes together admit the limit, on one
// key and on many, and not one more or less.
func TestAdmitsExactly(t *testing.T) {
	fleet := nodes(t, 4, memcached.Options{Servers: []string{server(t), server(t)}})
	hot, many := yearly(t, "hot", 100), yearly(t, "many", 3)
	var passed atomic.Int64
	var each3 [200]atomic.Int64
	each(clients, func(w int) {
		s := fleet[w%len(fleet)]
		for range 8 {
			if d, err := s.TakeOne(t.Context(), "k", hot, 1); err != nil {
				t.Error(err)
			} else if d.Allowed() {
				passed.Add(1)
			}
		}
		for k := range each3 {
			if (k+w)%8 == 0 {
				if d, err := s.TakeOne(t.Context(), fmt.Sprint(k), many, 1); err != nil {
					t.Error(err)
				} else if d.Allowed() {
					each3[k].Add(1)
				}
			}
		}
	})
	if n := passed.Load(); n != 100 {
		t.Errorf("%d passed a limit of 100", n)
	}
	for k := range each3 {
		if n := each3[k].Load(); n != 3 {
			t.Errorf("%d passed the limit of 3 of key %d", n, k)
		}
	}
	// What was charged and refused has been taken back.
	left(t, fleet[0], "k", hot, 0)
}

// TestCostsNeverPassTheLimit: with costs of every size what is admitted stays
// within the limit, and what was refused is taken back to the last unit.
func TestCostsNeverPassTheLimit(t *testing.T) {
	fleet := nodes(t, 4, memcached.Options{Servers: []string{server(t)}})
	for round := range 10 {
		l := yearly(t, fmt.Sprint("costs", round), 101)
		var passed atomic.Int64
		each(clients, func(w int) {
			r := rand.New(rand.NewPCG(uint64(w), uint64(round)))
			for range 8 {
				cost := 1 + r.Int64N(30)
				d, err := fleet[w%len(fleet)].TakeOne(t.Context(), "k", l, cost)
				if err != nil {
					t.Error(err)
				} else if d.Allowed() {
					passed.Add(cost)
				}
			}
		})
		if n := passed.Load(); n > 101 || n < 72 {
			t.Errorf("%d units passed a limit of 101", n)
		}
		left(t, fleet[0], "k", l, 101-passed.Load())
	}
	undone := uint64(0)
	for _, s := range fleet {
		undone += s.Stats().Undone
	}
	if undone == 0 {
		t.Error("nobody was too late: the clients did not contend")
	}
}

// TestSeveralLimits: requests under three limits on three servers charge all or
// none, in any order and in every role.
func TestSeveralLimits(t *testing.T) {
	fleet := nodes(t, 2, memcached.Options{Servers: []string{server(t), server(t), server(t)}})
	const keys, perKey, perGroup, total = 16, 10, 40, 90
	one, group, all := yearly(t, "key", perKey), yearly(t, "group", perGroup), yearly(t, "all", total)
	var passed [keys]atomic.Int64
	each(clients, func(w int) {
		r := rand.New(rand.NewPCG(uint64(w), 1))
		for n := range 2 * keys {
			k := (n + w) % keys
			ops := []weir.Op{{Key: fmt.Sprint(k), Limit: one, Cost: 1}, {Key: fmt.Sprint(k % 3), Limit: group, Cost: 1}, {Key: "", Limit: all, Cost: 1}}
			r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
			if n%4 == 0 {
				ops = append(ops, weir.Op{Key: "kept", Limit: all, Cost: 0}) // makes it look first
			}
			if err := fleet[w%len(fleet)].Take(t.Context(), ops); err != nil {
				t.Error(err)
				return
			}
			if ops[0].Charged != ops[1].Charged || ops[1].Charged != ops[2].Charged {
				t.Errorf("charged in part: %+v", ops)
			}
			if ops[0].Charged {
				passed[k].Add(1)
			}
		}
	})
	var sum int64
	var groups [3]int64
	for k := range passed {
		n := passed[k].Load()
		left(t, fleet[0], fmt.Sprint(k), one, perKey-n)
		groups[k%3] += n
		sum += n
	}
	for g, n := range groups {
		left(t, fleet[0], fmt.Sprint(g), group, perGroup-n)
	}
	if sum > total {
		t.Errorf("%d requests passed together, %d is the most", sum, total)
	}
	left(t, fleet[0], "", all, total-sum)
}

// TestElasticUnderContention: the own share passes whatever the pool says, and
// what is borrowed beside it never brings the pool above its count.
func TestElasticUnderContention(t *testing.T) {
	fleet := nodes(t, 2, memcached.Options{Servers: []string{server(t)}})
	for round := range 5 {
		own, pool := yearly(t, fmt.Sprint("own", round), 2), yearly(t, fmt.Sprint("pool", round), 20)
		var kept, borrowed atomic.Int64
		each(clients, func(w int) {
			for range 2 {
				ops := []weir.Op{{Key: "k", Limit: own, Cost: 1, Role: weir.Own}, {Key: "", Limit: pool, Cost: 1, Role: weir.Pool}}
				if err := fleet[w%len(fleet)].Take(t.Context(), ops); err != nil {
					t.Error(err)
				}
				switch {
				case ops[1].Borrowed:
					borrowed.Add(1)
				case ops[0].Charged:
					kept.Add(1)
				}
			}
		})
		// A share that was refused for an instant can pass after the pool is empty.
		if k, b := kept.Load(), borrowed.Load(); k != 2 || b > 20 || k+b < 20 || k+b > 22 {
			t.Errorf("%d passed on a share of 2, and %d more on a pool of 20", k, b)
		}
	}
}

// TestRefusalsWriteNothing: but for the first, a refusal is one look.
func TestRefusalsWriteNothing(t *testing.T) {
	addr := server(t)
	s := open(t, memcached.Options{Servers: []string{addr}})
	l := yearly(t, "one", 1)
	for i := range 50 {
		if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil || d.Allowed() != (i == 0) {
			t.Fatalf("request %d: %+v, %v", i, d, err)
		}
	}
	if n := s.Stats().Undone; n != 1 {
		t.Errorf("%d refusals wrote, want only the first", n)
	}
	// Room that was given back is found again.
	ops := take(t, s, weir.Op{Key: "k", Limit: l, Cost: 1, Verb: weir.Refund})
	if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil || !d.Allowed() || !ops[0].Charged {
		t.Errorf("after a refund: %+v, %v", d, err)
	}
}

// TestRefusedBySecond: when a later limit refuses, the earlier one is given back
// and says what it has.
func TestRefusedBySecond(t *testing.T) {
	fleet := nodes(t, 2, memcached.Options{Servers: []string{server(t), server(t)}})
	wide, narrow := yearly(t, "wide", 10), yearly(t, "narrow", 1)
	take(t, fleet[0], weir.Op{Key: "k", Limit: wide, Cost: 4}, weir.Op{Key: "k", Limit: narrow, Cost: 1})
	for range 2 { // charges first, then looks first
		ops := take(t, fleet[1], weir.Op{Key: "k", Limit: wide, Cost: 2}, weir.Op{Key: "k", Limit: narrow, Cost: 1})
		if ops[0].Charged || !ops[0].Decision.Allowed() || ops[0].Decision.Remaining != 6 ||
			ops[1].Charged || ops[1].Decision.Allowed() || ops[1].Decision.Remaining != 0 {
			t.Errorf("%+v", ops)
		}
	}
	left(t, fleet[0], "k", wide, 6)
}

// TestClocksApart: nodes whose clocks differ count some requests in one window
// and some in the next, and each window keeps its limit; a clock that goes back
// finds the counts of the window that it goes back to.
func TestClocksApart(t *testing.T) {
	addr := server(t)
	var clock atomic.Int64
	clock.Store(start)
	const period, skew = 10_000_000, 2_000_000
	l := fixed(t, "short", 5, 10*time.Second, params.Params{})
	onTime := open(t, memcached.Options{Servers: []string{addr}, Now: clock.Load})
	ahead := open(t, memcached.Options{Servers: []string{addr}, Now: func() int64 { return clock.Load() + skew }})
	windows := map[int64]int64{}
	for n := range 100 {
		s := []*memcached.Store{onTime, ahead}[n%2]
		if o := take(t, s, weir.Op{Key: "k", Limit: l, Cost: 1})[0]; o.Charged {
			windows[o.Receipt()]++
		}
		clock.Add(300_000)
	}
	clock.Store(start)
	for n := range 3 {
		if o := take(t, onTime, weir.Op{Key: "k", Limit: l, Cost: 1})[0]; o.Charged {
			t.Error("a window that was full has room after the clock went back")
		}
		clock.Add(int64(n) * period)
	}
	for end, n := range windows {
		if n > 5 {
			t.Errorf("the window that ends at %d admitted %d of 5", end, n)
		}
	}
	if len(windows) < 4 {
		t.Errorf("only %d windows were met", len(windows))
	}
}

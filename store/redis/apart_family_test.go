package redis

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A counted limit is one of a request over several places, and what the test knows
// of its counter.
type countedLimit struct {
	*weir.Limit
	key string
	net atomic.Int64 // charged less given back
}

// apartLimits are limits on keys of several places, all of them scarce but those
// that count refusals.
type apartLimits struct {
	enforced, bans, soft, shadows, own, pool, penalties, forced, places []*countedLimit
	all                                                                 []*countedLimit
	ids                                                                 atomic.Int64
}

func newApartLimits(t *testing.T, keys []string, algorithms ...weir.Algorithm) *apartLimits {
	t.Helper()
	a := &apartLimits{}
	add := func(list *[]*countedLimit, name string, count int64) {
		for i, key := range keys {
			c := &countedLimit{Limit: weir.PerDay(count, algorithms[i%len(algorithms)]), key: key}
			switch {
			case count >= 1<<40:
				c.Algorithm = algorithm.FixedWindow
			case name == "places":
				c.Algorithm = algorithm.Concurrency
			}
			c.Name, c.Scope = name, fmt.Sprint(name, i)
			if err := c.Compile(); err != nil {
				t.Fatal(err)
			}
			*list, a.all = append(*list, c), append(a.all, c)
		}
	}
	add(&a.enforced, "enforced", 3)
	add(&a.bans, "ban", 1<<40)
	add(&a.soft, "soft", 2)
	add(&a.shadows, "shadow", 2)
	add(&a.own, "own", 2)
	add(&a.pool, "pool", 4)
	add(&a.penalties, "penalty", 2)
	add(&a.forced, "forced", 1<<40)
	add(&a.places, "places", 4)
	return a
}

// request returns the ops of a random request, and the limit of each.
func (a *apartLimits) request(r *rand.Rand) (ops []weir.Op, of []*countedLimit) {
	add := func(list []*countedLimit, at int, o weir.Op) {
		c := list[at%len(list)]
		o.Key, o.Limit, o.Cost = c.key, c.Limit, 1
		ops, of = append(ops, o), append(of, c)
	}
	at := r.IntN(len(a.enforced))
	for i := range a.enforced {
		if r.IntN(2) == 0 {
			add(a.bans, at+i, weir.Op{Role: weir.Ban})
		}
		add(a.enforced, at+i, weir.Op{Role: weir.Enforce, Headroom: int64(r.IntN(4) / 3)})
	}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(2) {
			add(a.places, r.IntN(9), weir.Op{Role: weir.Enforce, ID: a.ids.Add(1)})
		}
	}
	switch r.IntN(6) {
	case 0:
		add(a.soft, r.IntN(9), weir.Op{Role: weir.Soft})
	case 1:
		add(a.shadows, r.IntN(9), weir.Op{Role: weir.Shadow})
	case 2:
		add(a.own, r.IntN(9), weir.Op{Role: weir.Own})
		add(a.pool, r.IntN(9), weir.Op{Role: weir.Pool})
	case 3:
		add(a.penalties, r.IntN(9), weir.Op{Role: weir.Enforce, Penalize: true})
	case 4:
		add(a.forced, r.IntN(9), weir.Op{Role: weir.Always, Verb: weir.Force})
	}
	return ops, of
}

// decided checks that what was charged is what the answers of the ops say.
func decided(ops []weir.Op) error {
	again := make([]weir.Op, len(ops))
	copy(again, ops)
	pass := weir.Resolve(again)
	for i := range ops {
		if ops[i].Charged != again[i].Charged {
			return fmt.Errorf("op %d of %d: charged %v, want %v (all pass: %v): %+v", i, len(ops), ops[i].Charged, again[i].Charged, pass, ops)
		}
	}
	return nil
}

// TestFamilyApartIsDecided sends requests of all roles over several places, many at
// once, so that they overtake each other: each is decided, and charged all or none.
func TestFamilyApartIsDecided(t *testing.T) {
	t.Parallel()
	callers, each1 := 24, 40
	switch {
	case os.Getenv("WEIR_SOAK") != "":
		callers, each1 = 64, 2000
	case testing.Short():
		each1 = 15
	}
	f := func(url string, keysOf func(*Store) []string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			s := open(t, url, Options{Timeout: long})
			a := newApartLimits(t, keysOf(s), algorithm.FixedWindow, algorithm.SlidingSubwindows, algorithm.SlidingLog)
			var passed, refused, held atomic.Int64
			each(callers, func(caller int) {
				r := rand.New(rand.NewPCG(uint64(caller), 4))
				for range each1 {
					ops, of := a.request(r)
					if err := s.Take(t.Context(), ops); err != nil {
						t.Errorf("%v: %+v", err, ops)
						return
					}
					if err := decided(ops); err != nil {
						t.Error(err)
						return
					}
					var undo []weir.Op
					pass := false
					for i := range ops {
						o := &ops[i]
						if !o.Charged {
							continue
						}
						of[i].net.Add(1)
						if o.Role == weir.Enforce && !o.Penalize {
							pass = true
						}
						if of[i].Count < 1<<40 {
							undo = append(undo, o.Undo(1))
							of[i].net.Add(-1)
						}
					}
					if !pass {
						refused.Add(1)
					} else {
						passed.Add(1)
						if n := held.Add(1); n > 3 {
							t.Errorf("%d requests passed a limit of 3", n)
						}
						runtime.Gosched() // to others that pass meanwhile
						held.Add(-1)
					}
					if len(undo) > 0 {
						if err := s.Take(t.Context(), undo); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
			if t.Failed() {
				return
			}
			for _, c := range a.all {
				if got, want := remaining(t, s, c.key, c.Limit), c.Burst-c.net.Load(); got != want {
					t.Errorf("%s of %q: %d left, want %d", c.Name, c.key, got, want)
				}
			}
			st := s.Stats()
			t.Logf("%d passed, %d refused, %+v", passed.Load(), refused.Load(), st)
			if passed.Load() == 0 || refused.Load() == 0 || st.Rollbacks == 0 {
				t.Error("nothing was contended")
			}
		}
	}
	ring := newRing(t, 2)
	t.Run("ring", f(urlOf("redis+ring", ring), func(s *Store) []string { return onEach(t, s) }))
	nodes := servertest.RedisCluster(t, 3)
	t.Run("cluster", f(urlOf("redis+cluster", nodes[:1]), func(*Store) []string { return []string{"ann", "bob", "cid"} }))
}

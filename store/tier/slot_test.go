package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

// places is a concurrency limit on a fleet, and who has a place. Its test fails as
// soon as more are taken than there are.
type places struct {
	*fleet
	limit *weir.Limit

	mu                 sync.Mutex
	until              map[int64]time.Time // by holder
	units              map[int64]int64
	next               int64
	most               int64
	got, asked, failed int64
}

// atOnce returns a limit of so many at once on n nodes.
func atOnce(t *testing.T, n int, count int64, ttl time.Duration, opt tier.Options) *places {
	t.Helper()
	f := newFleet(t, n, opt)
	f.shared.delay.Store(int64(time.Millisecond))
	l := compiled(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: count, Period: ttl}, func(l *weir.Limit) {
		leased(l)
		l.Consistency.OnStoreError = weir.OnErrorDeny
	})
	return &places{fleet: f, limit: l, until: map[int64]time.Time{}, units: map[int64]int64{}}
}

// name returns the name of a new holder.
func (p *places) name() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	return p.next
}

// acquire asks for a place, or for one again. The holder has it from when he is told,
// for the limit's period from when he asked.
func (p *places) acquire(s weir.Store, id, units int64) bool {
	p.Helper()
	asked := time.Now()
	ops := []weir.Op{{Key: "k", Limit: p.limit, Cost: units, ID: id}}
	if err := s.Take(context.Background(), ops); err != nil {
		p.Errorf("acquire: %v", err)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if ops[0].Decision.Guarantee().Degraded {
		p.failed++
	}
	if !ops[0].Decision.Allowed() {
		return false
	}
	p.got++
	// Clocks tell whole microseconds: he stops before his is over by any of them.
	p.until[id], p.units[id] = asked.Add(p.limit.Period-2*time.Microsecond), units
	now, taken := time.Now(), int64(0)
	for id, end := range p.until {
		if end.After(now) {
			taken += p.units[id]
		}
	}
	p.most = max(p.most, taken)
	if taken > p.limit.Count {
		p.Errorf("%d places are taken of %d", taken, p.limit.Count)
	}
	return true
}

func (p *places) release(s weir.Store, id int64) {
	p.Helper()
	p.mu.Lock()
	delete(p.until, id)
	p.mu.Unlock()
	ops := []weir.Op{{Key: "k", Limit: p.limit, Cost: 1, ID: id, NewLease: true, Role: weir.Always, Verb: weir.Refund}}
	if err := s.Take(context.Background(), ops); err != nil {
		p.Errorf("release: %v", err)
	}
}

// load lets each node get requests for d, each of which holds its place for a
// random time around hold; one in lost never gives it back.
func (p *places) load(perNode int, d, hold time.Duration, lost int) {
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for i, s := range p.nodes {
		for j := range perNode {
			r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			wg.Go(func() {
				for time.Now().Before(end) {
					id, units := p.name(), 1+r.Int64N(2)*r.Int64N(2)
					if p.acquire(s, id, units) {
						time.Sleep(time.Duration(r.ExpFloat64() * float64(hold)))
						if lost == 0 || r.IntN(lost) > 0 {
							p.release(s, id)
						}
						continue
					}
					time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
				}
			})
		}
	}
	wg.Wait()
}

// Offered more than there are, a fleet never has more places taken than the limit,
// takes nearly all of them, and asks the store far less than once a request.
func TestLeasedPlaces(t *testing.T) {
	for _, nodes := range fleets() {
		virtual(t, fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			p := atOnce(t, nodes, 100, time.Second, tier.Options{})
			p.load(128/nodes, 2*time.Second, 20*time.Millisecond, 0)
			// Decided strictly each question and each return is a call.
			saved := float64(p.asked+p.got) / float64(p.shared.calls.Load())
			t.Logf("%d of %d got a place, %d at most at once, %.1f to a call", p.got, p.asked, p.most, saved)
			if p.most < 98 || p.failed != 0 || saved < 5 || p.got < 5_000 {
				t.Errorf("%d of 100 were taken at most, %d in all, %d degraded, %.1f to a call", p.most, p.got, p.failed, saved)
			}
		})
	}
}

// The same with holders that never come back, and whatever the store does meanwhile.
func TestTheoremPlacesUnderFaults(t *testing.T) {
	for name, x := range map[string]fault{"none": none, "tenth": tenth, "lost": lost, "down": down, "stall": stall} {
		for seed := range drawn(t, 1, 20) {
			virtual(t, fmt.Sprint(name, " ", seed), func(t *testing.T) {
				p := atOnce(t, 4, 40, 800*time.Millisecond, tier.Options{NodeTTL: time.Minute})
				r := rand.New(rand.NewPCG(seed, 3))
				stop := time.Now().Add(6 * time.Second)
				p.Cleanup(func() { p.shared.set(none) })
				go func() {
					for time.Now().Before(stop) {
						p.shared.set(x)
						time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
						p.shared.set(none)
						time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
					}
				}()
				p.load(25, 10*time.Second, 30*time.Millisecond, 50)
				t.Logf("%d of %d got a place, %d degraded, %d at most at once", p.got, p.asked, p.failed, p.most)
				if p.most < 30 || p.got < 1000 {
					t.Errorf("%d got a place, at most %d at once", p.got, p.most)
				}
			})
		}
	}
}

// Places that nobody takes are given back, on the way and on Close, and none while
// they are taken.
func TestPlacesAreReturned(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := atOnce(t, 2, 100, 10*time.Second, tier.Options{})
		s := p.nodes[0]
		for id := range int64(40) {
			if !p.acquire(s, id+1, 1) {
				t.Fatal("refused")
			}
		}
		if st := s.Stats(); st.LeaseUnits == 0 || st.LeaseKeys != 1 {
			t.Errorf("nothing is held beyond what is taken: %+v", st)
		}
		time.Sleep(3 * time.Second)
		if left := p.left("k", p.limit); left != 60 {
			t.Errorf("%d are left of 100 of which 40 are taken", left)
		}
		for id := range int64(30) {
			p.release(s, id+1)
		}
		time.Sleep(3 * time.Second)
		if left, st := p.left("k", p.limit), s.Stats(); left != 90 || st.Stranded != 0 {
			t.Errorf("%d are left of 100 of which 10 are taken: %+v", left, st)
		}
		for id := range int64(10) {
			p.release(s, 31+id)
			p.acquire(s, 41+id, 1)
			p.release(s, 41+id)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left := p.left("k", p.limit); left != 100 {
			t.Errorf("%d are left of 100 after Close", left)
		}
	})
}

// The places of a node that has crashed come back when its leases end, and not before
// the time of those who have them is over.
func TestCrashedNodeLosesItsPlaces(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		const ttl = 8 * time.Second
		p := atOnce(t, 2, 80, ttl, tier.Options{})
		store := &without{Store: p.shared.Store, scope: p.limit.Scope}
		p.shared.Store = store
		for range 50 {
			p.acquire(p.nodes[0], p.name(), 1)
		}
		held := 80 - p.left("k", p.limit)
		if held <= 50 {
			t.Fatalf("%d are held, 50 are taken: nothing is tested", held)
		}
		// It renews nothing and gives nothing back.
		store.held.Store(held)
		crashed := time.Now()
		for time.Since(crashed) < ttl*5/4 {
			for id := p.name(); p.acquire(p.nodes[1], id, 1); id = p.name() {
			}
			time.Sleep(100 * time.Millisecond)
		}
		for range 80 {
			p.acquire(p.nodes[1], p.name(), 1)
		}
		if p.most != 80 {
			t.Errorf("%d of 80 at most", p.most)
		}
		got := 0
		for range 100 {
			if p.acquire(p.nodes[1], p.name(), 1) {
				got++
			}
		}
		time.Sleep(ttl)
		for range 100 {
			if p.acquire(p.nodes[1], p.name(), 1) {
				got++
			}
		}
		if got < 78 {
			t.Errorf("only %d of 80 places came back", got)
		}
	})
}

// without is a store that has nothing given back to it once something is held, as if
// whoever holds it had crashed.
type without struct {
	weir.Store
	scope string
	held  atomic.Int64
}

func (w *without) Take(ctx context.Context, ops []weir.Op) error {
	if w.held.Load() > 0 && ops[0].Limit.Scope == w.scope && ops[0].Role == weir.Always && (ops[0].Verb == weir.Refund || ops[0].Cost < w.held.Load()) && len(ops) == 1 {
		return nil
	}
	return w.Store.Take(ctx, ops)
}

// A lot whose answer was lost is given back as soon as the store answers again.
func TestUnansweredPlacesAreGivenBack(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := atOnce(t, 1, 100, 10*time.Minute, tier.Options{})
		p.shared.set(lost)
		if p.acquire(p.nodes[0], 1, 1) || p.failed != 1 {
			t.Error("a place without an answer")
		}
		p.shared.set(none)
		time.Sleep(time.Second)
		if left := p.left("k", p.limit); left != 100 {
			t.Errorf("%d of 100 are left, none is taken", left)
		}
	})
}

// A node that was paused hands out nothing of what has ended meanwhile.
func TestPausedNodeHandsOutNothingLate(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := atOnce(t, 2, 64, 2*time.Second, tier.Options{})
		for range 20 {
			p.acquire(p.nodes[0], p.name(), 1)
		}
		before := p.nodes[0].Stats().Held
		// It is not asked for so long that all that it holds has ended, and before its
		// sweeper has looked the other has got everything.
		time.Sleep(5 * time.Second)
		for range 100 {
			p.acquire(p.nodes[1], p.name(), 1)
		}
		for range 100 {
			p.acquire(p.nodes[0], p.name(), 1)
		}
		if p.most != 64 || before == 0 {
			t.Errorf("%d of 64 at most, %d were handed out before", p.most, before)
		}
	})
}

// A place that is renewed stays, a name that asks twice has one place, and what is
// given back twice is given back once.
func TestPlacesByName(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := atOnce(t, 1, 32, time.Second, tier.Options{})
		s := p.nodes[0]
		for range 20 {
			for id := range int64(32) {
				if !p.acquire(s, id+1, 1) {
					t.Fatalf("holder %d lost its place", id+1)
				}
			}
			if p.acquire(s, 99, 1) {
				t.Fatal("a place too many")
			}
			time.Sleep(300 * time.Millisecond)
		}
		p.release(s, 7)
		p.release(s, 7)
		time.Sleep(100 * time.Millisecond)
		if !p.acquire(s, 99, 1) || p.acquire(s, 98, 1) {
			t.Error("one place was given back")
		}
		ops := []weir.Op{{Key: "k", Limit: p.limit, Cost: 1, ID: 8, Verb: weir.Peek}}
		if err := s.Take(context.Background(), ops); err != nil || !ops[0].Decision.Allowed() {
			t.Errorf("a look by who has a place: %+v, %v", ops[0].Decision, err)
		}
	})
}

// A request that another limit refuses has no place, unless it had one before.
func TestPlacesGoWithTheirRequest(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := atOnce(t, 1, 40, 10*time.Second, tier.Options{})
		s := p.nodes[0]
		few := compiled(t, weir.PerMinute(3, algorithm.FixedWindow), strict)
		both := func(id int64) bool {
			ops := []weir.Op{{Key: "k", Limit: p.limit, Cost: 1, ID: id}, {Key: "k", Limit: few, Cost: 1}}
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			return weir.Fold(ops).Allowed()
		}
		for id := range int64(3) {
			if !both(id + 1) {
				t.Fatal("refused")
			}
		}
		for id := range int64(10) {
			if both(id + 1) {
				t.Fatal("passed")
			}
		}
		time.Sleep(2 * time.Second)
		if left := p.left("k", p.limit); left != 37 {
			t.Errorf("%d of 40 are left, 3 are taken", left)
		}
	})
}

// A limit that does not say leased is decided by the store, so that a place can be
// given back to any node.
func TestPlacesAreStrictUnlessTold(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := atOnce(t, 2, 40, 10*time.Second, tier.Options{})
		p.limit = compiled(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: 40, Period: 10 * time.Second}, nil)
		for id := range int64(40) {
			if !p.acquire(p.nodes[0], id+1, 1) {
				t.Fatal("refused")
			}
		}
		for id := range int64(40) {
			p.release(p.nodes[1], id+1)
		}
		for id := range int64(40) {
			if !p.acquire(p.nodes[1], id+101, 1) {
				t.Fatal("refused")
			}
		}
	})
}

// Limits that are reloaded, strict by turns, lose no place.
func TestPlacesStayAcrossReloads(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := atOnce(t, 2, 40, 10*time.Second, tier.Options{})
		s := p.nodes[0]
		version := func(m weir.ConsistencyMode) *weir.Limit {
			return compiled(t, &weir.Limit{Name: "at once", Algorithm: algorithm.Concurrency, Count: 40, Period: 10 * time.Second},
				func(l *weir.Limit) { l.Consistency.Mode = m })
		}
		for round := range int64(6) {
			p.limit = version([]weir.ConsistencyMode{weir.ConsistencyLeased, weir.ConsistencyStrict}[round%2])
			for id := range int64(20) {
				if !p.acquire(s, 100*round+id+1, 1) {
					t.Fatal("refused")
				}
			}
			p.limit = version([]weir.ConsistencyMode{weir.ConsistencyStrict, weir.ConsistencyLeased}[round%2])
			for id := range int64(20) {
				p.release(s, 100*round+id+1)
			}
			time.Sleep(3 * time.Second)
			if left := p.left("k", p.limit); left != 40 {
				t.Errorf("round %d: %d of 40 are left, none is taken", round, left)
			}
		}
	})
}

// A leased concurrency limit whose count is lowered by a reload, while all places are
// taken and wanted, holds the new count as soon as those who have a place above it have
// finished; and raised again, the larger one.
func TestFamilyReloadOfPlaces(t *testing.T) {
	for seed := range drawn(t, fewer(3, 1), 30) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 23))
			p := atOnce(t, 1+r.IntN(3), 200, time.Minute, tier.Options{})
			version := func(n int64) *weir.Limit {
				return compiled(t, &weir.Limit{Name: "places", Algorithm: algorithm.Concurrency, Count: n, Period: time.Minute}, func(l *weir.Limit) {
					leased(l)
					l.Consistency.OnStoreError = weir.OnErrorDeny
				})
			}
			var mu sync.Mutex
			limit, taken, most := version(200), int64(0), int64(0)
			now := func() *weir.Limit {
				mu.Lock()
				defer mu.Unlock()
				return limit
			}
			// watch begins to note how many places are taken at most.
			watch := func() {
				mu.Lock()
				defer mu.Unlock()
				most = 0
			}
			var wg sync.WaitGroup
			end := make(chan struct{})
			for i := range 300 {
				rnd := rand.New(rand.NewPCG(seed, uint64(i)+100))
				s := p.nodes[i%len(p.nodes)]
				wg.Go(func() {
					for {
						select {
						case <-end:
							return
						default:
						}
						// What is granted to a caller that was answered before is given back.
						o := weir.Op{Key: "k", Limit: now(), Cost: 1, ID: p.name(), NewLease: true}
						ops := []weir.Op{o}
						if err := s.Take(t.Context(), ops); err != nil {
							t.Error(err)
							return
						}
						if !ops[0].Decision.Allowed() {
							time.Sleep(time.Duration(rnd.Int64N(int64(50 * time.Millisecond))))
							continue
						}
						mu.Lock()
						taken++
						most = max(most, taken)
						mu.Unlock()
						time.Sleep(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
						mu.Lock()
						taken--
						mu.Unlock()
						back := weir.Op{Key: "k", Limit: now(), Cost: 1, ID: o.ID, NewLease: true, Role: weir.Always, Verb: weir.Refund}
						if err := s.Take(t.Context(), []weir.Op{back}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for range 4 {
				n := 30 + r.Int64N(171)
				mu.Lock()
				limit = version(n)
				mu.Unlock()
				// Those who have a place finish, and nodes give back what is too much.
				time.Sleep(2 * time.Second)
				watch()
				time.Sleep(3 * time.Second)
				mu.Lock()
				// Each of several nodes holds some that none of its callers has just now.
				if most > n || most < n*2/3 {
					t.Errorf("%d places were taken at most, of %d", most, n)
				}
				mu.Unlock()
			}
			close(end)
			wg.Wait()
		})
	}
}

package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// permits is a concurrency limit on a fleet, and its holders. Its test fails when
// more are taken than there are.
type permits struct {
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
func newPermits(t *testing.T, newNode New, n int, count int64, ttl time.Duration, opt Options) *permits {
	t.Helper()
	f := newFleet(t, newNode, n, opt)
	f.shared.delay.Store(int64(time.Millisecond))
	l := compiled(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: count, Period: ttl}, func(l *weir.Limit) {
		leased(l)
		l.Consistency.OnStoreError = params.OnErrorDeny
	})
	return &permits{fleet: f, limit: l, until: map[int64]time.Time{}, units: map[int64]int64{}}
}

// name returns the name of a new holder.
func (p *permits) name() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	return p.next
}

// acquire asks for a permit, or for one again. The holder has it from the answer,
// for the limit's period from when he asked.
func (p *permits) acquire(s weir.Store, id, units int64) bool {
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
	// Clocks count whole microseconds: the holder stops before its permit ends by any of them.
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

func (p *permits) release(s weir.Store, id int64) {
	p.Helper()
	p.mu.Lock()
	delete(p.until, id)
	p.mu.Unlock()
	ops := []weir.Op{{Key: "k", Limit: p.limit, Cost: 1, ID: id, NewLease: true, Role: weir.Always, Verb: weir.Refund}}
	if err := s.Take(context.Background(), ops); err != nil {
		p.Errorf("release: %v", err)
	}
}

// load lets each node get requests for d, each of which holds its permit for a
// random time around hold; one in lost never gives it back.
func (p *permits) load(perNode int, d, hold time.Duration, lost int) {
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

// Remaining returns how many permits are free on the store.
func (p *permits) Remaining() int64 { return p.left("k", p.limit) }

// Offered more than there are, a fleet never has more permits taken than the limit,
// takes nearly all of them, and asks the store far less than once a request.
func testPermitCount(t *testing.T, newNode New) {
	for _, nodes := range fleets() {
		virtual(t, fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			p := newPermits(t, newNode, nodes, 100, time.Second, Options{})
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
func testPermitFaults(t *testing.T, newNode New) {
	for name, x := range map[string]fault{"none": none, "tenth": tenth, "lost": lost, "down": down, "stall": stall} {
		for seed := range drawn(t, 1, 20) {
			virtual(t, fmt.Sprint(name, " ", seed), func(t *testing.T) {
				p := newPermits(t, newNode, 4, 40, 800*time.Millisecond, Options{NodeTTL: time.Minute})
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

// A permit that is renewed stays, a name that asks twice has one, and what is
// returned twice is returned once.
func testPermitNames(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		p := newPermits(t, newNode, 1, 32, time.Second, Options{})
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

package sharedtest

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
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// without is a store that drops what is returned to it once something is held, as if
// the node had crashed.
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

// Free permits are returned, as time passes and on Close, and none while
// they are taken.
func testIdlePermits(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		p := newPermits(t, newNode, 2, 100, 10*time.Second, Options{})
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

// The permits of a node that has crashed come back when its leases end, and not before
// the time of those who have them is over.
func testCrashedNodePermits(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		const ttl = 8 * time.Second
		p := newPermits(t, newNode, 2, 80, ttl, Options{})
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

// A lot whose answer was lost is returned when the store answers again.
func testLostPermits(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		p := newPermits(t, newNode, 1, 100, 10*time.Minute, Options{})
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
func testPausedNodePermits(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		p := newPermits(t, newNode, 2, 64, 2*time.Second, Options{})
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

// Callers leave while they acquire permits, by deadlines and by leaving, alone and with
// other limits, and the store answers late, not in time, or not at all for a while.
// Permits whose callers did not hear of them are returned long before
// their time is over; the others are kept, and never more than the limit.
func testLatePermits(t *testing.T, newNode New) {
	for seed := range drawn(t, 1, 40) {
		for _, kind := range []string{"patient", "prompt", "late", "stalls", "loses answers"} {
			for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased} {
				virtual(t, fmt.Sprint(kind, " ", mode, " ", seed), func(t *testing.T) { runLateCallers(t, newNode, kind, mode, seed) })
			}
		}
	}
}

func runLateCallers(t *testing.T, newNode New, kind string, mode params.ConsistencyMode, seed uint64) {
	p := newPermits(t, newNode, 2, 40, time.Hour, Options{Prompt: kind == "prompt"})
	p.limit = compiled(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: 40, Period: time.Hour}, func(l *weir.Limit) {
		l.Consistency.Mode, l.Consistency.OnStoreError = mode, params.OnErrorDeny
	})
	wide := compiled(t, weir.PerDay(1<<40, algorithm.FixedWindow), strict)
	delay := 4 * time.Millisecond
	if kind == "late" {
		delay = 25 * time.Millisecond // and the budget is 20
	}
	p.shared.delay.Store(int64(delay))
	var mu sync.Mutex
	kept, left := map[int64]int{}, 0
	var wg sync.WaitGroup
	if kind == "stalls" || kind == "loses answers" {
		wg.Go(func() {
			for range 3 {
				time.Sleep(100 * time.Millisecond)
				p.shared.set(map[string]fault{"stalls": stall, "loses answers": lost}[kind])
				time.Sleep(60 * time.Millisecond)
				p.shared.set(none)
			}
		})
	}
	for c := range 12 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(c)))
			for range 20 {
				ctx, cancel := impatient(rnd, 12*time.Millisecond, delay)
				if kind == "late" && rnd.IntN(2) == 0 {
					ctx = context.Background() // it is refused by policy, and stays
				}
				id, node := p.name(), rnd.IntN(2)
				ops := []weir.Op{{Key: "k", Limit: p.limit, Cost: 1 + rnd.Int64N(2), ID: id, NewLease: true}}
				if rnd.IntN(3) == 0 {
					ops = append(ops, weir.Op{Key: "k", Limit: wide, Cost: 1})
				}
				err := p.nodes[node].Take(ctx, ops)
				cancel()
				got := err == nil && weir.Fold(ops).Allowed()
				mu.Lock()
				if !got {
					left++
				} else if kept[id] = node; len(kept) > 40 {
					t.Errorf("%d places are taken of 40", len(kept))
				}
				mu.Unlock()
				if got {
					time.Sleep(time.Duration(rnd.Int64N(int64(20 * time.Millisecond))))
					if rnd.IntN(20) > 0 {
						mu.Lock()
						delete(kept, id)
						mu.Unlock()
						p.release(p.nodes[node], id)
					}
				}
			}
		})
	}
	wg.Wait()
	p.shared.delay.Store(0)
	time.Sleep(5 * time.Second)
	// Each node has returned what it does not use.
	for id, node := range kept {
		p.release(p.nodes[node], id)
	}
	// All are free within 20 minutes, and stay so for longer than any call is made again: a
	// node's clocks tick through each minute, so no more pass than it takes.
	for end := time.Now().Add(20 * time.Minute); p.Remaining() != 40 && time.Now().Before(end); {
		time.Sleep(5 * time.Second)
	}
	time.Sleep(3 * time.Minute)
	if n := p.Remaining(); n != 40 {
		t.Errorf("%d of 40 places are free, nobody has one; %d callers left or were refused", n, left)
	}
	if left == 0 {
		t.Error("no caller left: nothing was tested")
	}
}

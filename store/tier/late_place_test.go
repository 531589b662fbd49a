package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

// Callers leave while they acquire places, by deadlines and by going, alone and beside
// other limits, and the store answers late, not in time, or not at all for a while.
// Places that are granted to those who were not told so are given back long before
// their time is over; those that were told so are kept, and never more than there are.
func TestFamilyLatePlacesAreGivenBack(t *testing.T) {
	for seed := range drawn(t, 1, 40) {
		for _, kind := range []string{"patient", "prompt", "late", "stalls", "loses answers"} {
			for _, mode := range []weir.ConsistencyMode{weir.ConsistencyStrict, weir.ConsistencyLeased} {
				virtual(t, fmt.Sprint(kind, " ", mode, " ", seed), func(t *testing.T) { latePlaces(t, kind, mode, seed) })
			}
		}
	}
}

func latePlaces(t *testing.T, kind string, mode weir.ConsistencyMode, seed uint64) {
	p := atOnce(t, 2, 40, time.Hour, tier.Options{Prompt: kind == "prompt"})
	p.limit = compiled(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: 40, Period: time.Hour}, func(l *weir.Limit) {
		l.Consistency.Mode, l.Consistency.OnStoreError = mode, weir.OnErrorDeny
	})
	beside := compiled(t, weir.PerDay(1<<40, algorithm.FixedWindow), strict)
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
					ops = append(ops, weir.Op{Key: "k", Limit: beside, Cost: 1})
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
	// Each node has given back what it does not use, and what is kept is there.
	for id, node := range kept {
		p.release(p.nodes[node], id)
	}
	time.Sleep(20 * time.Minute)
	if n := p.Remaining(); n != 40 {
		t.Errorf("%d of 40 places are free, nobody has one; %d callers left or were refused", n, left)
	}
	if left == 0 {
		t.Error("no caller left: nothing was tested")
	}
}

// Remaining returns how many places are free on the store.
func (p *places) Remaining() int64 { return p.left("k", p.limit) }

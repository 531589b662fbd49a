package tier_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

// TestFamilyAtMost: whatever nodes admit together in a period is no more than the
// number that each decision states, in each consistency; of a limit that each node
// counts alone, and of a sketch, which no nodes share, what one node admits. Nothing is called exact whose number is above
// its count.
func TestFamilyAtMost(t *testing.T) {
	consistencies := map[string]func(*weir.Limit){
		"strict":   strict,
		"leased":   func(l *weir.Limit) { l.Consistency.Mode = weir.ConsistencyLeased },
		"loose":    func(l *weir.Limit) { l.Consistency.Mode, l.Consistency.Loose = weir.ConsistencyLeased, true },
		"default":  func(*weir.Limit) {},
		"eventual": eventual(7),
		"local":    func(l *weir.Limit) { l.Consistency.Mode = weir.ConsistencyLocal },
	}
	for _, a := range algorithm.All {
		if a.Name() == algorithm.Concurrency.Name() {
			continue // it bounds what is held at once
		}
		if testing.Short() && !slices.Contains(lenders(), a) {
			continue
		}
		for word, set := range consistencies {
			for seed := range drawn(t, 1, 20) {
				virtual(t, fmt.Sprint(a.Name(), ", ", word, " ", seed), func(t *testing.T) {
					l := weir.PerMinute([]int64{5, 60, 1000}[seed%3], a)
					if testing.Short() {
						l.Period = 12 * time.Second
					}
					if a.Name() == algorithm.Approximate.Name() {
						l.Sketch = weir.SketchOptions{Width: 1024, Depth: 2, BloomBits: 1 << 12, BloomHashes: 2}
					}
					set(l)
					if l.Compile() != nil {
						t.Skip("the algorithm does not count so")
					}
					f := newFleet(t, 3, tier.Options{})
					raid(f, l, rand.New(rand.NewPCG(seed, 3)))
				})
			}
		}
	}
}

// raid spends what is left on the nodes of f, in turns and at edges.
func raid(f *fleet, l *weir.Limit, r *rand.Rand) {
	type spend struct {
		at, units int64
	}
	// sums are of what was spent within the last period.
	spent, sums, admitted := make([][]spend, len(f.nodes)), make([]int64, len(f.nodes)), int64(0)
	least := make([]int64, len(f.nodes))
	for i := range least {
		least[i] = weir.Unbounded
	}
	most := make([]int64, len(f.nodes))
	stop := time.Now().Add(5 * l.Period)
	for steps := 0; steps < 4000 && time.Now().Before(stop); steps++ {
		at := r.IntN(len(f.nodes))
		cost := int64(1)
		if r.IntN(4) == 0 {
			cost = r.Int64N(l.Count) + 1
		}
		d := f.take(f.nodes[at], "k", l, cost)
		g := d.Guarantee()
		if g.Degraded {
			f.Fatalf("the store answers, and the decision is degraded: %s", d)
		}
		if g.Exact && g.AtMost > l.Count {
			f.Fatalf("exact, and %s", g)
		}
		now := time.Now()
		place := 0
		if g.Source == weir.FromLocal || g.Source == weir.FromSketch {
			place = at
		}
		least[place] = min(least[place], g.AtMost)
		if d.Allowed() {
			admitted += cost
			us := now.UnixMicro() // the resolution of stores
			spent[place] = append(spent[place], spend{us, cost})
			sums[place] += cost
			for spent[place][0].at <= us-weir.Micros(l.Period) {
				sums[place] -= spent[place][0].units
				spent[place] = spent[place][1:]
			}
			most[place] = max(most[place], sums[place])
			continue
		}
		switch r.IntN(5) {
		case 0: // another node may have units
		case 1:
			time.Sleep(time.Duration(r.Int64N(int64(l.Period / 4))))
		case 2: // the next edge
			time.Sleep(now.Truncate(l.Period).Add(l.Period).Sub(now))
		case 3:
			time.Sleep(now.Truncate(l.Period).Add(l.Period).Sub(now) - time.Duration(r.Int64N(int64(time.Second))))
		case 4:
			if d.RetryAfter > 0 {
				time.Sleep(min(d.RetryAfter, l.Period))
			}
		}
	}
	if admitted < l.Count {
		f.Errorf("only %d were admitted", admitted)
	}
	for i := range most {
		if most[i] > least[i] {
			f.Errorf("%d in a period, and decisions say at most %d", most[i], least[i])
		}
	}
}

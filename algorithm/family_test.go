package algorithm_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// A raid is a sequence of moves against one key. The search changes moves at random
// and keeps what gets more units into one period.
type raid []move

type move struct {
	kind uint8
	arg  uint16
}

const raidKinds = 12

// An attacker plays raids and keeps the books.
type attacker struct {
	l        *weir.Limit
	refunds  bool // the algorithm gives back only what stops to count for it
	setBack  bool // a clock that goes back gives nothing
	cells    []int64
	now      int64
	label    int64 // when the last unit counts as spent: never before the one before
	spends   []taken
	most     int64
	left     int64
	retry    int64
	reset    int64
	admitted int
}

// taken is units that passed, less those given back.
type taken struct{ at, units, receipt int64 }

// play returns the most units that any half-open interval of one period saw.
func (k *attacker) play(all raid) int64 {
	k.cells, k.spends, k.most = newRow(k.l), nil, 0
	k.now = 1_700_000_000_000_000
	k.label = 0
	k.look()
	for _, m := range all {
		if k.do(m); k.now > 1<<51 {
			break // no stamp lies so far ahead
		}
	}
	return k.most
}

func (k *attacker) look() {
	d := k.ask(weir.Ask{Now: k.now, Cost: max(k.left, 1), Verb: weir.Peek})
	k.left, k.retry, k.reset = d.Remaining, micros.Of(max(d.RetryAfter, 0)), micros.Of(d.ResetAfter)
}

func (k *attacker) ask(a weir.Ask) weir.Decision {
	if g, ok := k.l.Algorithm.(weir.Grower); ok {
		if need := g.Room(k.cells, k.l, a); need > len(k.cells) {
			k.cells = append(k.cells, make([]int64, need-len(k.cells))...)
		}
	}
	return k.l.Algorithm.Step(k.cells, k.l, a)
}

// take tries to spend n units, and counts what one period has then seen.
func (k *attacker) take(n int64) {
	if n < 1 || n > weir.MaxCost {
		return
	}
	d := k.ask(weir.Ask{Now: k.now, Cost: n})
	k.left = d.Remaining
	if d.Allowed() {
		k.label = max(k.label, k.now)
		k.spends = append(k.spends, taken{k.label, n, k.now + micros.Of(d.ResetAfter)})
		k.admitted++
		from := k.label - micros.Of(k.l.Period)
		var sum int64
		for i := len(k.spends) - 1; i >= 0 && k.spends[i].at > from; i-- {
			sum += k.spends[i].units
		}
		k.most = max(k.most, sum)
	}
	k.retry, k.reset = micros.Of(max(d.RetryAfter, 0)), micros.Of(d.ResetAfter)
}

func (k *attacker) do(m move) {
	period, n := micros.Of(k.l.Period), int64(m.arg)
	edge := func(step int64) {
		// A little before or after the next edge.
		step = max(step, 1)
		k.now = max(k.now, k.now+step-k.now%step+n%5-2)
	}
	switch m.kind % raidKinds {
	case 0, 1:
		k.look()
		k.take(k.left)
	case 2:
		k.look()
		k.take(1 + k.left*n>>16)
	case 3:
		k.take(1)
	case 4:
		// The next unit that becomes free, and then whatever is there.
		k.take(k.left + 1)
		k.now += k.retry
		k.look()
		k.take(k.left)
	case 5:
		edge(period)
	case 6:
		edge((period + 59) / 60)
	case 7:
		edge([]int64{(period + 39) / 40, period / 10, period / 2, period / 7}[n%4])
	case 8:
		k.now += period * n >> 16
	case 9:
		k.now += []int64{period - 1, period, period + 1, k.reset, max(k.reset-1, 0), k.retry}[n%6]
	case 10:
		// Gives back some of what was spent, by its receipt, and spends it again.
		if !k.refunds || len(k.spends) == 0 {
			return
		}
		s := &k.spends[len(k.spends)-1-int(n)%min(len(k.spends), 8)]
		back := s.units - s.units*(n%3)/4
		k.ask(weir.Ask{Now: k.now, Cost: back, ID: s.receipt, Verb: weir.Refund})
		s.units -= back
	case 11:
		// What is forgotten does not come back with the clock.
		if k.look(); k.setBack && k.reset > 0 {
			k.now = max(k.now-period*(n%100)/150, 0)
		}
	}
}

// A claim is a limit that states how many units any period sees.
func claims(r *rand.Rand) []attacker {
	var all []attacker
	add := func(a weir.Algorithm, most int64, refunds, setBack bool, p params.Params) {
		for range 2 {
			l := &weir.Limit{Algorithm: a, Count: someCount(r, most), Period: somePeriod(r), Params: p}
			if a == algorithm.TokenBucket || a == algorithm.LeakyBucket {
				l.Burst = someCount(r, 1<<30)
			}
			if l.Compile() == nil {
				// Not both: a unit that was given back no longer holds the clock.
				back := r.IntN(2) == 0
				all = append(all, attacker{l: l, refunds: refunds && !back, setBack: setBack && back})
			}
		}
	}
	add(algorithm.TokenBucket, 1<<40, false, false, params.Params{})
	add(algorithm.LeakyBucket, 1<<40, false, false, params.Params{})
	add(algorithm.LeakyQueue, 10_000, false, false, params.Params{Free: 3})
	add(algorithm.FixedWindow, 1<<50, true, true, params.Params{})
	add(algorithm.FixedWindow, 1<<50, true, true, params.Params{Anchor: params.AnchorFirst})
	for range 3 {
		add(algorithm.SlidingWindow, 1<<53, true, true, params.Params{})
		add(algorithm.SlidingWindow, 20, true, true, params.Params{})
		add(algorithm.SlidingWindow, 16_384, true, true, params.Params{Grain: r.IntN(5)})
	}
	add(algorithm.SlidingCounter, 1<<50, true, true, params.Params{})
	add(algorithm.SlidingSubwindows, 1<<50, true, true, params.Params{Precision: 2 + r.IntN(100)})
	add(algorithm.SlidingSubwindows, 1<<50, true, true, params.Params{Form: params.Weighted})
	add(algorithm.SlidingSubwindows, 1<<50, true, true, params.Params{Form: params.Lenient})
	add(algorithm.SlidingLog, 500, true, true, params.Params{})
	add(algorithm.Lockout, 1<<50, false, true, params.Params{})
	return all
}

// TestFamilyNeverMoreThanWritten searches for traffic that gets more units into one
// period than the limit states, against every algorithm that states it.
func TestFamilyNeverMoreThanWritten(t *testing.T) {
	const length, rounds = 40, 60
	reached := map[string]float64{}
	for life := range lives(t, 25, 2500) {
		r := rand.New(rand.NewPCG(uint64(life), 44))
		for _, k := range claims(r) {
			some := func() move { return move{uint8(r.IntN(raidKinds)), uint16(r.IntN(1 << 16))} }
			best := make(raid, length)
			for i := range best {
				best[i] = some()
			}
			most := k.play(best)
			for range rounds {
				next := slices.Clone(best)
				for range 1 + r.IntN(4) {
					next[r.IntN(length)] = some()
				}
				got := k.play(next)
				if got >= most {
					best, most = next, got
				}
				if most > k.l.Envelope {
					t.Fatalf("life %d: %s, %d per %s (%+v, set back %v): %d units in one period, %d are stated: %v", life, k.l.Algorithm.Name(),
						k.l.Count, k.l.Period, k.l.Params, k.setBack, most, k.l.Envelope, best)
				}
			}
			name := k.l.Algorithm.Name()
			reached[name] = max(reached[name], float64(most)/float64(k.l.Envelope))
		}
	}
	// An attacker who gets nowhere proves nothing.
	for _, a := range algorithm.All {
		if a == algorithm.Approximate || a == algorithm.Concurrency {
			continue // the one has no cells, the other states how many at once
		}
		if share := reached[a.Name()]; share < 0.9 {
			t.Errorf("%s: the attack reached %.2f of what is stated", a.Name(), share)
		}
	}
}

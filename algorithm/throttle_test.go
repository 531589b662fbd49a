package algorithm_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

func throttleLimit(t *testing.T, burst, count int64, period time.Duration) *weir.Limit {
	t.Helper()
	l := &weir.Limit{Name: "throttle", Algorithm: algorithm.Throttle, Count: count, Period: period, Burst: burst}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestThrottleKeepsTheInstant: a limit with a small burst neither forgets nor
// mends what a key owes under a larger one.
func TestThrottleKeepsTheInstant(t *testing.T) {
	const now = int64(1_700_000_000_000_000)
	hour, tenth := throttleLimit(t, 100, 1, time.Minute), throttleLimit(t, 1, 10, time.Second)
	if hour.Layout != tenth.Layout || hour.Cells != tenth.Cells || hour.ID() != tenth.ID() {
		t.Fatal("the two do not share a row")
	}
	cells := make([]int64, hour.Cells)
	step := func(l *weir.Limit, cost int64) weir.Decision {
		return l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: cost})
	}
	if d := step(hour, 50); !d.Allowed() || d.ResetAfter != 50*time.Minute {
		t.Fatalf("%+v", d)
	}
	if d := step(tenth, 1); d.Allowed() || d.ResetAfter != 50*time.Minute || d.RetryAfter != 50*time.Minute || d.Remaining != 0 {
		t.Errorf("%+v", d)
	}
	if d := step(hour, 0); d.Remaining != 50 || d.ResetAfter != 50*time.Minute {
		t.Errorf("%+v", d)
	}
}

// TestThrottleIsExact: at any rate, the bucket admits what one of rational
// numbers does. A limit of whole nanoseconds, or one of floating point, does not.
func TestThrottleIsExact(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		count, burst := r.Int64N(1<<r.IntN(40))+1, r.Int64N(1<<r.IntN(20))+1
		period := time.Duration(r.Int64N(3600)+1) * time.Second
		l := &weir.Limit{Name: "t", Algorithm: algorithm.Throttle, Count: count, Period: period, Burst: burst}
		if l.Compile() != nil {
			continue // decades to refill
		}
		now := int64(1_700_000_000_000_000)
		per := big.NewRat(int64(period/time.Microsecond), count) // microseconds of a unit
		full := new(big.Rat).Mul(per, big.NewRat(burst, 1))
		tat, cells := big.NewRat(now, 1), make([]int64, l.Cells)
		for range 100 {
			now += r.Int64N(1 << r.IntN(24))
			cost := r.Int64N(burst+1) + r.Int64N(2)
			base := new(big.Rat).Set(tat)
			if at := big.NewRat(now, 1); base.Cmp(at) < 0 {
				base = at
			}
			next := new(big.Rat).Add(base, new(big.Rat).Mul(per, big.NewRat(cost, 1)))
			edge := new(big.Rat).Add(big.NewRat(now, 1), full)
			want := next.Cmp(edge) <= 0
			d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: cost})
			if d.Allowed() != want {
				t.Fatalf("%d of %d/%s burst %d: %+v, want allowed %v", cost, count, period, burst, d, want)
			}
			if want {
				tat, base = next, next
			}
			left := new(big.Rat).Quo(new(big.Rat).Sub(edge, base), per)
			if n := new(big.Int).Quo(left.Num(), left.Denom()); n.IsInt64() && n.Int64() != d.Remaining {
				t.Fatalf("remaining %d, want %s", d.Remaining, n)
			}
		}
	}
}

package memory_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/store/memory"
)

// TestFastWaysDecideAlike: two spends decided by takePair get the answers that they get
// beside an op that keeps it from deciding them, and more than two are decided alike.
func TestFastWaysDecideAlike(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.Of(t), 14))
	var now atomic.Int64
	now.Store(1_700_000_000_000_000)
	fast, slow := memory.New(memory.Options{Now: now.Load}), memory.New(memory.Options{Now: now.Load})
	defer fast.Close()
	defer slow.Close()
	limit := func(name string, count int64, a weir.Algorithm) *weir.Limit {
		l := &weir.Limit{Name: name, Algorithm: a, Count: count, Period: 100 * time.Millisecond}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	var limits []*weir.Limit
	for i, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.LeakyQueue} {
		limits = append(limits, limit(fmt.Sprint(a.Name()), int64(5+3*i), a))
	}
	beside := limit("beside", 1, algorithm.FixedWindow)
	passed, refused := 0, 0
	for range 50_000 {
		now.Add(rnd.Int64N(10_000))
		ops := make([]weir.Op, 2+rnd.IntN(3))
		for i := range ops {
			ops[i] = weir.Op{Key: fmt.Sprint("k", rnd.IntN(3)), Limit: limits[rnd.IntN(len(limits))], Cost: rnd.Int64N(4)}
		}
		other := append(append([]weir.Op(nil), ops...), weir.Op{Key: "none", Limit: beside, Cost: 1, Role: weir.Always, Verb: weir.Peek})
		if err := fast.Take(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		if err := slow.Take(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		for i := range ops {
			if ops[i] != other[i] {
				t.Fatalf("op %d of %d: fast %+v\nin three moves %+v", i, len(ops), ops[i], other[i])
			}
		}
		if weir.Fold(ops).Allowed() {
			passed++
		} else {
			refused++
		}
	}
	if passed < 5000 || refused < 5000 {
		t.Errorf("%d passed, %d were refused: too few to tell", passed, refused)
	}
}

package memory_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

// Requests that share one of their two limits, or both, and name them in either order,
// do not wait for each other, and each spend counts once.
func TestPairsInEitherOrder(t *testing.T) {
	const askers, each, keys = 8, 50_000, 3
	s := memory.New(memory.Options{Now: func() int64 { return 1_700_000_000_000_000 }})
	defer s.Close()
	first, second := weir.PerHour(1_000_000, algorithm.FixedWindow), weir.PerHour(1_000_000, algorithm.SlidingWindow)
	first.Name, second.Name = "first", "second"
	for _, l := range []*weir.Limit{first, second} {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	names := [keys]string{"a", "b", "c"}
	var all sync.WaitGroup
	for w := range askers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			ops := make([]weir.Op, 2)
			for n := range each {
				a := weir.Op{Key: names[n%keys], Limit: first, Cost: 1}
				b := weir.Op{Key: names[r.IntN(keys)], Limit: second, Cost: 1}
				if ops[0], ops[1] = a, b; r.IntN(2) == 0 {
					ops[0], ops[1] = b, a
				}
				if err := s.Take(t.Context(), ops); err != nil || !ops[0].Charged || !ops[1].Charged {
					t.Errorf("%v: charged %v and %v", err, ops[0].Charged, ops[1].Charged)
					return
				}
			}
		})
	}
	all.Wait()
	for _, l := range []*weir.Limit{first, second} {
		spent := int64(0)
		for _, name := range names {
			o := []weir.Op{{Key: name, Limit: l, Verb: weir.Peek}}
			if err := s.Take(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			spent += l.Burst - o[0].Decision.Remaining
		}
		if spent != askers*each {
			t.Errorf("%s: %d spent of %d", l.Name, spent, askers*each)
		}
	}
}

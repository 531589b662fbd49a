package shared_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// overtaker spends what the node has left of a limit while the shared store is asked.
type overtaker struct {
	weir.Store
	spend func()
}

func (o overtaker) Take(ctx context.Context, ops []weir.Op) error {
	if err := o.Store.Take(ctx, ops); err != nil {
		return err
	}
	if ops[0].Key == "k" && ops[0].Verb == weir.Spend {
		o.spend()
	}
	return nil
}

// A request that another overtakes between the look at the node's limit and its charge is
// refused, and the shared store gets back what it has charged.
func TestOvertakenRequestIsGivenBack(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.Approximate, algorithm.LeakyQueue, algorithm.SlidingLog} {
		bubble.Test(t, func(t *testing.T) {
			local, store := memory.New(memory.Options{}), memory.New(memory.Options{})
			defer local.Close()
			defer store.Close()
			alone := compiled(t, weir.PerDay(10, a), func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyLocal })
			together := compiled(t, weir.PerDay(100, algorithm.FixedWindow), func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyStrict })
			s, err := shared.New(overtaker{store, func() {
				for {
					if d, err := local.TakeOne(t.Context(), "k", alone, 1); err != nil || !d.Allowed() {
						return
					}
				}
			}}, shared.Options{Local: local})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ops := []weir.Op{{Key: "k", Limit: alone, Cost: 1}, {Key: "k", Limit: together, Cost: 7}}
			if err := s.Take(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
			if d := weir.Fold(ops); d.Allowed() || ops[0].Charged || ops[1].Charged {
				t.Errorf("%s: %s, charged %v and %v", a.Name(), d, ops[0].Charged, ops[1].Charged)
			}
			time.Sleep(2 * time.Second) // it is given back in the background
			if d, err := store.TakeOne(t.Context(), "k", together, 0); err != nil || d.Remaining != 100 {
				t.Errorf("%s: %v, %v: want 100 to remain", a.Name(), d, err)
			}
		})
	}
}

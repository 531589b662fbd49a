package tier_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/tier"
)

// noughts is a store that counts the incurred costs of nothing that it is told.
type noughts struct {
	*faulty
	seen atomic.Int64
}

func (n *noughts) Take(ctx context.Context, ops []weir.Op) error {
	for i := range ops {
		if ops[i].Verb == weir.Force && ops[i].Cost == 0 {
			n.seen.Add(1)
		}
	}
	return n.faulty.Take(ctx, ops)
}

// between is a node's own store that has something done when it was looked at.
type between struct {
	weir.Store
	then atomic.Pointer[func()]
}

func (b *between) Take(ctx context.Context, ops []weir.Op) error {
	err := b.Store.Take(ctx, ops)
	if ops[0].Verb == weir.Peek {
		if then := b.then.Swap(nil); then != nil {
			(*then)()
		}
	}
	return err
}

// Somebody is admitted by the share while what it owes is looked at, and it owed
// nothing more: the store is not told of a cost of nothing, and of what was admitted.
func TestNothingIsPaid(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		shared := &noughts{faulty: newFaulty(t, nil)}
		own := &between{Store: memory.New(memory.Options{MaxBytes: 1 << 20})}
		s, err := tier.New(shared, tier.Options{Local: own, Nodes: 1})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, s, own)
		l := compiled(t, &weir.Limit{Count: 100, Period: 2 * time.Second, Algorithm: algorithm.FixedWindow}, strict)
		take := func(cost int64) {
			if d, err := s.TakeOne(context.Background(), "gone", l, cost); err != nil || !d.Allowed() {
				t.Errorf("%+v, %v", d, err)
			}
		}
		shared.set(partly)
		take(30)
		// The window is over: nothing is owed of it.
		time.Sleep(2 * time.Second)
		again := func() { take(7) }
		own.then.Store(&again)
		time.Sleep(time.Second)
		shared.set(none)
		time.Sleep(800 * time.Millisecond)
		if own.then.Load() != nil {
			t.Fatal("the share was not looked at: nothing was tested")
		}
		if n := shared.seen.Load(); n != 0 {
			t.Errorf("the store was told %d times of a cost of nothing", n)
		}
	})
}

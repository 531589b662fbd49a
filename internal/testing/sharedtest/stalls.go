package sharedtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// stalls are what a store does while it is asked.
type stalls struct {
	// rate is how many units a second are asked of each node, for as long as lasts.
	rate  int
	lasts time.Duration
	// fault begins one of times faults and returns what ends it.
	times int
	fault func() (end func())
	// after is how long a fault lasts at most.
	longest time.Duration
}

// run offers a limit per hour to nodes while the store stands still now and then, and
// then as much as there may be left. It returns how many units were admitted.
func (f *stalls) run(t *testing.T, nodes []Node, l *weir.Limit, seed uint64) int64 {
	t.Helper()
	var admitted atomic.Int64
	ask := func(s Node) bool {
		d, err := s.TakeOne(context.Background(), "k", l, 1)
		if err != nil {
			t.Errorf("%v", err)
		}
		if d.Allowed() {
			admitted.Add(1)
		}
		return d.Allowed()
	}
	var wg sync.WaitGroup
	begin := time.Now()
	for _, s := range nodes {
		for range 4 {
			wg.Go(func() {
				tick := time.NewTicker(4 * time.Second / time.Duration(f.rate))
				defer tick.Stop()
				for time.Since(begin) < f.lasts {
					<-tick.C
					ask(s)
				}
			})
		}
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range f.times {
		at := f.lasts * time.Duration(i) / time.Duration(f.times)
		time.Sleep(time.Until(begin.Add(at + time.Duration(rnd.Int64N(int64(f.lasts)/int64(2*f.times))))))
		end := f.fault()
		time.Sleep(5*time.Millisecond + time.Duration(rnd.Int64N(int64(f.longest))))
		end()
	}
	wg.Wait()
	// What is left is asked for until all nodes have refused for a while. (Into a bucket
	// some flows all the time.)
	for refused, stop := 0, time.Now().Add(10*time.Second); refused < 100 && time.Now().Before(stop); {
		passed := false
		for _, s := range nodes {
			for ask(s) {
				passed = true
			}
		}
		if refused++; passed {
			refused = 0
		}
		time.Sleep(20 * time.Millisecond)
	}
	return admitted.Load()
}

// halting is a store that stands still now and then: what it was sent it carries out
// when it goes on, whether its caller waits or not.
type halting struct {
	weir.Store
	gate atomic.Pointer[chan struct{}]
}

func (h *halting) halt() (goOn func()) {
	gate := make(chan struct{})
	h.gate.Store(&gate)
	return func() {
		h.gate.Store(nil)
		close(gate)
	}
}

func (h *halting) Take(ctx context.Context, ops []weir.Op) error {
	gate := h.gate.Load()
	if gate == nil {
		return h.Store.Take(ctx, ops)
	}
	own, done := slices.Clone(ops), make(chan error, 1)
	go func() {
		<-*gate
		done <- h.Store.Take(context.WithoutCancel(ctx), own)
	}()
	select {
	case err := <-done:
		copy(ops, own)
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cutting is a store whose connections break: a call fails at once, and is carried
// out before, not at all, or some time later.
type cutting struct {
	weir.Store
	// share of the calls that are cut, of 100.
	share atomic.Int64
	// longest is how much later a call is carried out at most.
	longest time.Duration
	late    sync.WaitGroup
	mu      sync.Mutex
	rnd     *rand.Rand
	cuts    atomic.Int64
}

func (c *cutting) Take(ctx context.Context, ops []weir.Op) error {
	c.mu.Lock()
	cut, how, later := c.rnd.Int64N(100) < c.share.Load(), c.rnd.IntN(3), time.Duration(c.rnd.Int64N(int64(c.longest)))
	c.mu.Unlock()
	if !cut {
		return c.Store.Take(ctx, ops)
	}
	c.cuts.Add(1)
	own := slices.Clone(ops)
	for i := range own {
		own[i].Key = strings.Clone(own[i].Key) // it is the caller's again before the call is over
	}
	carryOut := func() { _ = c.Store.Take(context.WithoutCancel(ctx), own) }
	switch how {
	case 0:
		carryOut()
	case 1:
		c.late.Go(func() {
			time.Sleep(later)
			carryOut()
		})
	}
	return errDown
}

// cut has a fleet's store break connections.
func (f *fleet) cut(seed uint64, longest time.Duration) *cutting {
	c := &cutting{Store: f.shared.Store, longest: longest, rnd: rand.New(rand.NewPCG(seed, 1))}
	f.shared.Store = c
	f.Cleanup(func() {
		c.share.Store(0)
		c.late.Wait()
	})
	return c
}

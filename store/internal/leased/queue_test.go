package leased

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/memory"
)

// Two nodes with queues of their own, and many callers at once, admit exactly what a
// store has, and what they hold at the end is the rest.
func TestLeasedOverAQueue(t *testing.T) {
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer store.Close()
	const count = 5000
	l := &weir.Limit{Name: "limit", Algorithm: algorithm.FixedWindow, Count: count, Period: 1000 * time.Hour}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	var admitted, failed atomic.Int64
	var callers sync.WaitGroup
	var tables []*lot.Table
	for range 2 {
		c := clock.New(nil, nil)
		env := transport.NewEnv(c.Now, nil)
		opt := transport.Options{Budget: 5 * time.Second, Timeout: 5 * time.Second, Workers: 4, Batch: 1, Waiting: 1000, PerKey: 1000, ProbeEvery: time.Second,
			Opened: func(err error) { t.Error(err) }, Closed: func() {}}
		queue := transport.New(transport.DriverOver(store), env, opt)
		t.Cleanup(queue.Close)
		returns := lot.NewReturns(1<<20, func() {})
		table := lot.NewTable(1<<20, returns)
		tables = append(tables, table)
		mark := transport.NewMark(algorithm.FixedWindow)
		terms, err := NewTerms(l, true)
		if err != nil {
			t.Fatal(err)
		}
		d := &Decider{&Env{
			Env: lot.Env{
				Clock: c, Table: table, Refusals: lot.NewRefusals(1<<16, 1_000_000), Nodes: func() int64 { return 2 }, Go: queue.Go, Mark: mark, Rand: rand.Uint64,
				Fetch: func(f *lot.Flight, ops []weir.Op) (clock.Node, error) {
					sent, err := queue.DecideForFlight(context.Background(), &f.Flight, ops)
					if err == nil {
						c.Observe(0, clock.Store(ops[0].Now), sent)
					}
					return sent, err
				},
			},
		}, terms}
		for i := range uint64(8) {
			callers.Go(func() {
				r, h := rand.New(rand.NewPCG(i, 13)), &lot.Hold{}
				for range 400 {
					o := weir.Op{Key: "k", Limit: l, Cost: 1 + r.Int64N(2)}
					v, f := d.Draw(context.Background(), c.Now(), &o, h)
					for v == lot.Wait {
						if err := queue.AwaitFlight(context.Background(), &f.Flight); err != nil {
							failed.Add(1)
							return
						}
						v, f = d.Draw(context.Background(), c.Now(), &o, h)
					}
					switch {
					case v == lot.Charged && r.IntN(8) == 0:
						d.Undo(c.Now(), h)
					case v == lot.Charged:
						admitted.Add(o.Cost)
					}
					h.Parts = h.Parts[:0]
					returns.FinishCall(returns.TakeDue(0, 0), c.Now(), lot.Unknown)
				}
			})
		}
		defer queue.Wait()
	}
	callers.Wait()
	held := int64(0)
	for _, table := range tables {
		_, units, _ := table.CountHeld()
		held += units
	}
	ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek}}
	if err := store.Take(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
	if left := ops[0].Decision.Remaining; failed.Load() > 0 || admitted.Load()+held > count-left || admitted.Load() < count/2 {
		t.Errorf("%d failed, %d admitted, %d held and %d left of %d", failed.Load(), admitted.Load(), held, left, count)
	}
}

package eventual

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

// Two nodes with queues of their own, and many callers at once, admit a limit and at most
// its overshoot, and the store learns of each unit.
func TestEventualOverAQueue(t *testing.T) {
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer store.Close()
	const count, over = 3000, 400
	l := limited(t, count, algorithm.FixedWindow, func(l *weir.Limit) {
		l.Period, l.Consistency.MaxOvershoot, l.Consistency.SyncInterval = 1000*time.Hour, over, 2*time.Millisecond
	})
	var admitted, failed atomic.Int64
	var callers, pushers sync.WaitGroup
	done := make(chan struct{})
	var nodes []*Decider
	var queues []*transport.Queue
	for range 2 {
		c := clock.New(nil, nil)
		env := transport.NewEnv(c.Now, nil)
		opt := transport.Options{Budget: 5 * time.Second, Timeout: 5 * time.Second, Workers: 4, Batch: 1, Waiting: 1000, PerKey: 1000, ProbeEvery: time.Second,
			Opened: func(err error) { t.Error(err) }, Closed: func() {}}
		queue := transport.New(transport.DriverOver(store), env, opt)
		t.Cleanup(queue.Close)
		returns := lot.NewReturns(1<<20, func() {})
		terms, err := NewTerms(l)
		if err != nil {
			t.Fatal(err)
		}
		d := &Decider{&Env{Env: lot.Env{
			Clock: c, Table: lot.NewTable(1<<20, returns), Returns: returns, Refusals: lot.NewRefusals(1<<16, 1_000_000),
			Nodes: func() int64 { return 2 }, Go: queue.Go, Mark: transport.NewMark(algorithm.FixedWindow), Rand: rand.Uint64,
			Fetch: func(f *lot.Flight, ops []weir.Op) (clock.Node, error) {
				sent, err := queue.DecideForFlight(context.Background(), &f.Flight, ops)
				if err == nil {
					c.Observe(0, clock.Store(ops[0].Now), sent)
				}
				return sent, err
			},
		}}, terms}
		nodes, queues = append(nodes, d), append(queues, queue)
		pushers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					d.PushDue(c.Now())
				}
			}
		})
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
					case v == lot.Ask:
						ops := []weir.Op{o}
						sent, err := queue.DecideInBudget(context.Background(), ops)
						if err != nil {
							failed.Add(1)
							return
						}
						if d.Learn(&ops[0], sent); ops[0].Charged {
							admitted.Add(o.Cost)
						}
					}
					h.Parts = h.Parts[:0]
				}
			})
		}
	}
	callers.Wait()
	close(done)
	pushers.Wait()
	back := int64(0)
	for i, d := range nodes {
		for range 3 {
			queues[i].Wait()
			d.PushDue(clock.Never - 1)
		}
		queues[i].Wait()
		for _, b := range d.Returns.TakeDue(0, 0) {
			back += b.Free
		}
	}
	ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Force}} // tells how far above the limit it is
	if err := store.Take(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
	n := admitted.Load()
	if failed.Load() > 0 || n > count+over || n < count-back {
		t.Errorf("%d failed, %d admitted of %d and %d, %d to be given back", failed.Load(), n, count, over, back)
	}
	most, err := lot.Variant(l, func(v *weir.Limit) { v.Count = 2 * count })
	if err != nil {
		t.Fatal(err)
	}
	ops = []weir.Op{{Key: "k", Limit: most, Cost: 1, Verb: weir.Peek}}
	if err := store.Take(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
	if counted := 2*count - ops[0].Decision.Remaining - 1 - back; counted != n {
		t.Errorf("the store has counted %d, %d were admitted", counted, n)
	}
}

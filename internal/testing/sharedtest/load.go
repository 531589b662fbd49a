package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

// load is requests that a fleet gets, and what came of them.
type load struct {
	*fleet
	limit *weir.Limit
	// model decides what was admitted once more by bound, as if it had all come to
	// one place.
	model *memory.Store
	bound *weir.Limit
	// central gets the same requests, alone: what one strict node would admit.
	central *memory.Store
	strict  atomic.Int64
	over    atomic.Int64 // admitted, and the model would not have
	debt    atomic.Int64 // of the model, at worst

	offered, admitted, degraded atomic.Int64
}

func newLoad(f *fleet, l *weir.Limit) *load {
	m := memory.New(memory.Options{MaxBytes: 1 << 20})
	f.Cleanup(func() { m.Close() })
	w := &load{fleet: f, limit: l, model: m}
	w.allow(0)
	return w
}

// ask spends one unit on a node.
func (w *load) ask(s Node) bool {
	w.offered.Add(1)
	if w.central != nil && w.take(w.central, "k", w.limit, 1).Allowed() {
		w.strict.Add(1)
	}
	d, err := s.TakeOne(context.Background(), "k", w.limit, 1)
	if err != nil {
		w.Errorf("%v", err)
		return false
	}
	if d.Guarantee().Degraded {
		w.degraded.Add(1)
	}
	if !d.Allowed() {
		return false
	}
	w.admit(1)
	return true
}

// admit has the model decide what was admitted.
func (w *load) admit(cost int64) {
	w.admitted.Add(cost)
	ops := []weir.Op{{Key: "k", Limit: w.bound, Cost: cost}}
	if err := w.model.Take(context.Background(), ops); err != nil {
		w.Errorf("%v", err)
	}
	if !ops[0].Charged {
		w.over.Add(1)
		ops[0].Verb = weir.Force
		if err := w.model.Take(context.Background(), ops); err != nil {
			w.Errorf("%v", err)
		}
		w.owes()
	}
}

// back gives the model back what was refunded to the fleet.
func (w *load) back(o *weir.Op) {
	ops := []weir.Op{{Key: "k", Limit: w.bound, Cost: o.Cost, Role: weir.Always, Verb: weir.Refund}}
	if err := w.model.Take(context.Background(), ops); err != nil {
		w.Errorf("%v", err)
	}
}

// allow lets so many units more be admitted: a larger burst of a bucket, a larger
// count of a window.
func (w *load) allow(over int64) { w.bound = w.larger(over) }

// larger returns the limit with so many units more, on the same counters.
func (w *load) larger(over int64) *weir.Limit {
	l := weir.Limit{Name: w.limit.Name, Algorithm: w.limit.Algorithm, Count: w.limit.Count, Period: w.limit.Period,
		Burst: w.limit.Burst, Params: w.limit.Params}
	if l.Algorithm == algorithm.SlidingWindow {
		// Never more than the count in any period, whatever it is counted in batches
		// of: no more than a log would admit.
		l.Algorithm, l.MaxLog = algorithm.SlidingLog, 1<<20-1
	}
	if l.Algorithm == algorithm.TokenBucket || l.Algorithm == algorithm.LeakyBucket {
		l.Burst += over
	} else {
		l.Count, l.Burst = l.Count+over, 0
	}
	return compiled(w, &l, nil)
}

// owes notes by how much the model is above its limit: how much larger it would
// have to be for one more unit not to pass.
func (w *load) owes() {
	low, high := int64(0), w.bound.Count
	for low < high {
		more := (low + high) / 2
		o := w.larger(more)
		ops := []weir.Op{{Key: "k", Limit: o, Cost: 1, Verb: weir.Peek}}
		if err := w.model.Take(context.Background(), ops); err != nil {
			w.Errorf("%v", err)
			return
		}
		if ops[0].Decision.Remaining > 0 {
			high = more
		} else {
			low = more + 1
		}
	}
	if low-1 > w.debt.Load() {
		w.debt.Store(low - 1)
	}
}

// worst returns how many units too many were admitted at worst.
func (w *load) worst() int64 { return w.debt.Load() }

// run lets every node get its part of rate requests a second for so long, at
// random instants. skewed gives the first node half of all.
func (w *load) run(rate float64, d time.Duration, skewed bool) {
	var wg sync.WaitGroup
	for i, s := range w.nodes {
		part := rate / float64(len(w.nodes))
		if skewed && len(w.nodes) > 1 {
			part = rate / 2 / float64(len(w.nodes)-1)
			if i == 0 {
				part = rate / 2
			}
		}
		r := rand.New(rand.NewPCG(uint64(i), 5))
		wg.Go(func() {
			for end := time.Now().Add(d); time.Now().Before(end); {
				w.ask(s)
				time.Sleep(time.Duration(r.ExpFloat64() / part * float64(time.Second)))
			}
		})
	}
	wg.Wait()
}

// could returns how many units the limit admits in d when it is always exhausted,
// from a key that is untouched.
func could(l *weir.Limit, d time.Duration) float64 {
	n := float64(l.Count) * d.Seconds() / l.Period.Seconds()
	if l.Algorithm == algorithm.TokenBucket || l.Algorithm == algorithm.LeakyBucket {
		n += float64(l.Burst)
	}
	return n
}

func (w *load) String() string {
	var held, fetched, returned uint64
	for _, s := range w.nodes {
		st := s.Stats()
		held, fetched, returned = held+st.Held, fetched+st.Fetched, returned+st.Returned
	}
	return fmt.Sprintf("%d of %d admitted, %d too many, %d calls (%d spends from %d fetches, %d units returned)",
		w.admitted.Load(), w.offered.Load(), w.over.Load(), w.shared.calls.Load(), held, fetched, returned)
}

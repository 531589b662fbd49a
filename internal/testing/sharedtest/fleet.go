package sharedtest

import (
	"cmp"
	"context"
	"iter"
	"os"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/store/memory"
)

// fleet is several nodes that share one store.
type fleet struct {
	*testing.T
	newNode New
	shared  *faulty
	nodes   []Node
}

// newFleet returns n nodes, which end with the test.
func newFleet(t *testing.T, newNode New, n int, opt Options) *fleet {
	t.Helper()
	f := &fleet{T: t, newNode: newNode, shared: newFaulty(t, opt.Now)}
	opt.Nodes = max(opt.Nodes, n)
	if opt.Prompt {
		within := cmp.Or(opt.Timeout, 20*time.Millisecond)
		f.shared.limit.Store(int64(within))
		if bubble.Inside() {
			t.Cleanup(func() { time.Sleep(within) }) // a probe that is under way when a node is closed ends by then
		}
	}
	for range n {
		f.nodes = append(f.nodes, f.node(opt))
	}
	return f
}

// node returns one more node.
func (f *fleet) node(opt Options) Node {
	f.Helper()
	local := memory.New(memory.Options{MaxBytes: 1 << 20, Now: opt.Now})
	opt.Local = local
	if opt.MaxBytes == 0 {
		opt.MaxBytes = 4 << 20
	}
	s, err := f.newNode(f.shared, opt)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
		if err := local.Close(); err != nil {
			f.Error(err)
		}
	})
	return s
}

// take spends cost of key on a node.
func (f *fleet) take(s weir.Store, key string, l *weir.Limit, cost int64) weir.Decision {
	f.Helper()
	d, err := s.TakeOne(context.Background(), key, l, cost)
	if err != nil {
		f.Fatal(err)
	}
	return d
}

// left returns how many units of key remain on the shared store.
func (f *fleet) left(key string, l *weir.Limit) int64 {
	f.Helper()
	ops := []weir.Op{{Key: key, Limit: l, Cost: 1, Verb: weir.Peek}}
	if err := f.shared.Store.Take(context.Background(), ops); err != nil {
		f.Fatal(err)
	}
	return ops[0].Decision.Remaining
}

// drain spends what is left of key on all nodes, and returns how much that was.
func (f *fleet) drain(key string, l *weir.Limit) (n int64) {
	f.Helper()
	for range 4 {
		for _, s := range f.nodes {
			for f.take(s, key, l, 1).Allowed() {
				n++
			}
		}
		time.Sleep(1500 * time.Millisecond) // what is held elsewhere is given back
	}
	return n
}

// within asserts that f takes no longer than d.
func (f *fleet) within(d time.Duration, do func()) {
	f.Helper()
	start := time.Now()
	do()
	if took := time.Since(start); took > d {
		f.Errorf("took %s, at most %s", took, d)
	}
}

// closeLater closes stores when the test is over, in their order.
func closeLater(t testing.TB, stores ...weir.Store) {
	t.Helper()
	t.Cleanup(func() {
		for _, s := range stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// virtual runs f in virtual time.
func virtual(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble.Test(t, f) })
}

// aligned waits for the next whole multiple of d. A bubble begins at midnight.
func aligned(d time.Duration) {
	now := time.Now()
	time.Sleep(now.Truncate(d).Add(d).Sub(now))
}

// runs returns how many random runs to make: few, half of them in short runs, or as
// many as a soak takes.
func runs(usual, soak uint64) uint64 {
	switch {
	case os.Getenv("WEIR_SOAK") != "":
		return soak
	case testing.Short():
		return (usual + 1) / 2
	}
	return usual
}

// drawn returns the seeds of random runs, as many as [runs] says: others in each soak.
func drawn(t *testing.T, usual, soak uint64) iter.Seq[uint64] {
	first := seeds.Of(t) - 1
	return func(yield func(uint64) bool) {
		for i := range runs(usual, soak) {
			if !yield(first + i) {
				return
			}
		}
	}
}

// fewer returns how many cases are tried, fewer in short runs.
func fewer(n, short uint64) uint64 {
	if testing.Short() {
		return short
	}
	return n
}

// fleets are the sizes of the fleets that are tried.
func fleets() []int {
	if testing.Short() {
		return []int{4}
	}
	return []int{1, 2, 4, 8}
}

// lenders are the algorithms that lend units, in short runs a bucket and a window.
func lenders() []weir.Algorithm {
	if testing.Short() {
		return []weir.Algorithm{algorithm.TokenBucket, algorithm.SlidingWindow}
	}
	return lending
}

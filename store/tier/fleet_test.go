package tier_test

import (
	"cmp"
	"context"
	"iter"
	"os"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/tier"
)

// fleet is several nodes that share one store.
type fleet struct {
	*testing.T
	shared *faulty
	nodes  []*tier.Store
}

// newFleet returns n nodes, which end with the test.
func newFleet(t *testing.T, n int, opt tier.Options) *fleet {
	t.Helper()
	f := &fleet{T: t, shared: newFaulty(t, opt.Now)}
	opt.Nodes = max(opt.Nodes, n)
	if opt.Prompt {
		f.shared.limit.Store(int64(cmp.Or(opt.Timeout, 20*time.Millisecond)))
	}
	for range n {
		f.nodes = append(f.nodes, f.node(opt))
	}
	return f
}

// node returns one more node.
func (f *fleet) node(opt tier.Options) *tier.Store {
	f.Helper()
	local := memory.New(memory.Options{MaxBytes: 1 << 20, Now: opt.Now})
	opt.Local = local
	if opt.MaxBytes == 0 {
		opt.MaxBytes = 4 << 20
	}
	s, err := tier.New(f.shared, opt)
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

func compiled(t testing.TB, l *weir.Limit, change func(*weir.Limit)) *weir.Limit {
	t.Helper()
	if change != nil {
		change(l)
	}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

func strict(l *weir.Limit) { l.Consistency.Mode = weir.ConsistencyStrict }

// within asserts that f takes no longer than d.
func (f *fleet) within(d time.Duration, do func()) {
	f.Helper()
	start := time.Now()
	do()
	if took := time.Since(start); took > d {
		f.Errorf("took %s, at most %s", took, d)
	}
}

// runs returns how many random runs to make: few, half of them in short runs, or as
// many as a soak takes.
func runs(few, many uint64) uint64 {
	switch {
	case os.Getenv("WEIR_SOAK") != "":
		return many
	case testing.Short():
		return (few + 1) / 2
	}
	return few
}

// drawn returns the seeds of random runs, as many as [runs] says: others in each soak.
func drawn(t *testing.T, few, many uint64) iter.Seq[uint64] {
	first := seeds.Of(t) - 1
	return func(yield func(uint64) bool) {
		for i := range runs(few, many) {
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

// lenders are the algorithms that lend units, in short runs a bucket and a window.
func lenders() []weir.Algorithm {
	if testing.Short() {
		return []weir.Algorithm{algorithm.TokenBucket, algorithm.SlidingWindow}
	}
	return lending
}

// fleets are the sizes of the fleets that are tried.
func fleets() []int {
	if testing.Short() {
		return []int{4}
	}
	return []int{1, 2, 4, 8}
}

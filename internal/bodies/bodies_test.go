package bodies_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/bodies"
)

func TestShare(t *testing.T) {
	b := bodies.New(100)
	x, y := b.Share(), b.Share()
	if !x.Grow(bodies.Free) || b.Held() != 0 {
		t.Error("a small body takes of the budget")
	}
	if !x.Grow(bodies.Free+60) || !y.Grow(bodies.Free+40) || b.Held() != 100 {
		t.Errorf("%d held of 100", b.Held())
	}
	if y.Grow(bodies.Free+41) || b.Held() != 100 {
		t.Error("more was given than there is")
	}
	if !x.Grow(bodies.Free+50) || !y.Grow(bodies.Free+50) {
		t.Error("what was given back is not there")
	}
	x.End()
	x.End()
	y.End()
	if b.Held() != 0 {
		t.Errorf("%d held by nobody", b.Held())
	}
}

// TestSharesAtOnce: however shares come and go, never more is held than there is,
// and nothing when all have ended.
func TestSharesAtOnce(t *testing.T) {
	const most = 1 << 20
	b := bodies.New(most)
	var wg sync.WaitGroup
	for seed := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			for range 2000 {
				s := b.Share()
				for range r.IntN(5) {
					s.Grow(r.IntN(most))
				}
				s.End()
			}
		})
	}
	wg.Wait()
	if b.Held() != 0 {
		t.Errorf("%d held by nobody", b.Held())
	}
}

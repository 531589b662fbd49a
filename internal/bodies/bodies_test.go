package bodies_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"

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

// TestReadAll: a body is read as it is, whatever arrives at a time, its buffers are
// counted until its share ends, and where there is no room it is refused and counted.
func TestReadAll(t *testing.T) {
	const most = 1 << 20
	b := bodies.New(most)
	r := rand.New(rand.NewPCG(1, 2))
	for i, n := range []int{0, 1, 511, 512, 513, bodies.Free, 40_000, 200_000, 300_000} {
		want := make([]byte, n)
		for i := range want {
			want[i] = byte(r.Uint32())
		}
		for name, in := range map[string]io.Reader{"whole": bytes.NewReader(want), "halves": iotest.HalfReader(bytes.NewReader(want)), "data with EOF": iotest.DataErrReader(bytes.NewReader(want))} {
			s := b.Share()
			got, err := s.ReadAll(in)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d, %s: %d bytes, %v", i, name, len(got), err)
			}
			if held := int64(cap(got)) - bodies.Free; b.Held() < held {
				t.Errorf("%d, %s: %d held of %d", i, name, b.Held(), held)
			}
			s.End()
		}
	}
	s := b.Share()
	if _, err := s.ReadAll(io.LimitReader(endless{}, 2*most)); !errors.Is(err, bodies.ErrNoRoom) || b.Refused() != 1 {
		t.Errorf("a body without room: %v, %d refused", err, b.Refused())
	}
	s.End()
	broken := errors.New("broken")
	if _, err := s.ReadAll(io.MultiReader(io.LimitReader(endless{}, 100_000), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a body that breaks off: %v", err)
	}
	s.End()
	if b.Held() != 0 {
		t.Errorf("%d held by nobody", b.Held())
	}
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(b []byte) (int, error) { return len(b), nil }

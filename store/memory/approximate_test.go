package memory

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

func approximateLimit(t *testing.T, count int64, o params.SketchOptions) *weir.Limit {
	t.Helper()
	return compile(t, &weir.Limit{Algorithm: algorithm.Approximate, Scope: "approximate", Count: count, Period: time.Minute,
		Params: params.Params{Sketch: o}})
}

func TestApproximateCountSurvivesANewCount(t *testing.T) {
	s, _ := newStore(t, Options{})
	o := params.SketchOptions{Width: 1 << 10, Depth: 4, BloomBits: 1 << 12, BloomHashes: 3}
	five, seven := approximateLimit(t, 5, o), approximateLimit(t, 7, o)
	passed := 0
	for _, l := range []*weir.Limit{five, seven} {
		for range 10 {
			d, err := s.TakeOne(context.Background(), "k", l, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed() {
				passed++
			}
			if d.Limit != l {
				t.Fatalf("decided by %q", d.Limit.Name)
			}
		}
	}
	if passed != 7 {
		t.Errorf("%d passed, want 5 and, after the count was raised, 2", passed)
	}
	st, ok := s.Approximate(seven)
	if !ok || st.Units != 7 || st.Bytes == 0 || s.Stats().ApproximateBytes != st.Bytes {
		t.Errorf("measured %+v %v", st, ok)
	}
	if _, ok := s.Approximate(approximateLimit(t, 5, params.SketchOptions{Width: 1 << 11})); ok {
		t.Error("a limit of another size has the same sketch")
	}
}

func TestCheckTellsThatASketchCannotBeHad(t *testing.T) {
	if err := Check(approximateLimit(t, 5, params.SketchOptions{Width: 1 << 26, Depth: 16})); err == nil {
		t.Error("a sketch of 20 GiB is well")
	}
	if err := Check(approximateLimit(t, 5, params.SketchOptions{Width: 1 << 10, BloomBits: 1 << 12, BloomHashes: 2})); err != nil {
		t.Error(err)
	}
	if err := Check(approximateLimit(t, 5, params.SketchOptions{Expect: 1 << 40})); err == nil {
		t.Error("a load that no sketch is fit for is well")
	}
	if err := Check(approximateLimit(t, 5, params.SketchOptions{})); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if err := Check(compile(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Period: time.Second})); err != nil {
		t.Error(err)
	}
}

package tier

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// TestPlansAreBounded: limits that are made on the fly, one after the other, do
// not pile up.
func TestPlansAreBounded(t *testing.T) {
	local, shared := memory.New(memory.Options{MaxBytes: memory.MinBytes}), memory.New(memory.Options{MaxBytes: memory.MinBytes})
	defer local.Close()
	defer shared.Close()
	s, err := New(shared, Options{Local: local})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range maxPlans + 1000 {
		l := &weir.Limit{Name: "l", Algorithm: algorithm.Throttle, Count: int64(i + 1), Period: time.Second,
			Consistency: params.Consistency{Mode: params.ConsistencyStrict}}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.plans.of(l); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	s.plans.all.Range(func(any, any) bool { kept++; return true })
	if kept > maxPlans || int64(kept) != s.plans.count.Load() {
		t.Errorf("%d plans are kept, %d counted", kept, s.plans.count.Load())
	}
}

// TestShareOfThrottle: a node's part of a limit that came with a call has its part
// of the burst, and together all parts have the rate.
func TestShareOfThrottle(t *testing.T) {
	l := &weir.Limit{Name: "l", Algorithm: algorithm.Throttle, Count: 30, Period: time.Minute, Burst: 16}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	p := &plan{limit: l}
	share, err := p.shareOf(2)
	if err != nil {
		t.Fatal(err)
	}
	if share.Burst != 8 || share.Count != 30 || share.Period != 2*time.Minute {
		t.Errorf("burst %d, %d per %s", share.Burst, share.Count, share.Period)
	}
}

package outage

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A node's share of a limit that came with a call has its part of the burst, and together
// all shares have the rate.
func TestShareOfThrottle(t *testing.T) {
	l := &weir.Limit{Name: "l", Algorithm: algorithm.Throttle, Count: 30, Period: time.Minute, Burst: 16}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	share, err := NewTerms(l).share(2)
	if err != nil {
		t.Fatal(err)
	}
	if share.Burst != 8 || share.Count != 30 || share.Period != 2*time.Minute {
		t.Errorf("burst %d, %d per %s", share.Burst, share.Count, share.Period)
	}
}

package algorithm_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A step needs no store: cells and the time are its arguments. That is how
// stores are written, and rules tried out on a clock of one's own.
func Example() {
	l := weir.PerMinute(100, algorithm.SlidingWindow)
	if err := l.Compile(); err != nil {
		fmt.Println(err)
		return
	}
	cells := make([]int64, l.Cells)
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).UnixMicro()
	for _, after := range []time.Duration{0, 30 * time.Second, 75 * time.Second} {
		d := l.Algorithm.Step(cells, l, weir.Ask{Now: start + after.Microseconds(), Cost: 60})
		fmt.Println(after, d.Allowed(), d.Remaining, d.RetryAfter)
	}
	fmt.Println(l.Guarantee())
	// Output:
	// 0s true 40 0s
	// 30s false 40 30s
	// 1m15s true 40 0s
	// exact, at most 100 in any period
}

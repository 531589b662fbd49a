package accuracy_test

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
)

func ExampleCompare() {
	// Ten requests at the end of a second and ten at the beginning of the next.
	var arrivals []accuracy.Arrival
	for i := range int64(20) {
		arrivals = append(arrivals, accuracy.Arrival{At: 1_772_000_000_950_000 + i*5000, Cost: 1})
	}
	all, err := accuracy.Compare(accuracy.Limit{Algorithm: "fixed_window", Allowance: 10, Period: time.Second}, [][]accuracy.Arrival{arrivals})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range all {
		fmt.Printf("%-18s %2d pass, at most %.1f times the allowance in a second, %d bytes\n", a.Algorithm, a.Admitted, a.Overshoot, a.BytesPerKey)
	}
	// Output:
	// token_bucket       10 pass, at most 1.0 times the allowance in a second, 8 bytes
	// leaky_bucket       10 pass, at most 1.0 times the allowance in a second, 8 bytes
	// leaky_queue        11 pass, at most 1.0 times the allowance in a second, 8 bytes
	// fixed_window       20 pass, at most 2.0 times the allowance in a second, 16 bytes
	// sliding_window     10 pass, at most 1.0 times the allowance in a second, 16 bytes
	// sliding_counter    10 pass, at most 1.0 times the allowance in a second, 8 bytes
	// sliding_subwindows 10 pass, at most 1.0 times the allowance in a second, 136 bytes
	// sliding_log        10 pass, at most 1.0 times the allowance in a second, 96 bytes
}

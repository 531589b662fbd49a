package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

func Example() {
	limiter, err := weir.New(memory.New(memory.Options{}),
		weir.Limits{weir.PerMinute(3, algorithm.SlidingWindow)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	for range 4 {
		d, err := limiter.Take(context.Background(), "user:42", 1)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed(), d.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// Several limits on one request are all-or-nothing: what one of them refuses
// is not charged to the others.
func ExampleLimiter_Decide() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store := memory.New(memory.Options{Now: noon.UnixMicro}) // a clock that stands still
	limiter, err := weir.New(store, weir.Limits{
		weir.PerMinute(2, algorithm.FixedWindow),
		weir.PerHour(100, algorithm.FixedWindow),
	}, weir.Options{})
	if err != nil {
		panic(err)
	}
	r := limiter.Acquire()
	defer limiter.Recycle(r)
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "user", Value: "42"}}})
	for range 3 {
		d, err := limiter.Decide(context.Background(), r)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed(), d.Limit.Name, d.RetryAfter)
		for _, op := range r.Ops() {
			fmt.Println("  ", op.Limit.Name, "left", op.Decision.Remaining)
		}
	}
	// Output:
	// true 2/minute 0s
	//    2/minute left 1
	//    100/hour left 99
	// true 2/minute 0s
	//    2/minute left 0
	//    100/hour left 98
	// false 2/minute 1m0s
	//    2/minute left 0
	//    100/hour left 98
}

// A queue lets requests leave at an even pace; Wait sleeps until it is the
// request's turn.
func ExampleLimiter_Wait() {
	limiter, err := weir.New(memory.New(memory.Options{}),
		weir.Limits{weir.PerSecond(1000, algorithm.LeakyQueue)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	r := limiter.Acquire()
	defer limiter.Recycle(r)
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "partner", Value: "bank"}}})
	begin := time.Now()
	for range 5 {
		if _, err := limiter.Wait(context.Background(), r); err != nil {
			panic(err)
		}
	}
	fmt.Println(time.Since(begin) >= 4*time.Millisecond)
	// Output: true
}

func ExampleDecision_Guarantee() {
	limiter, err := weir.New(memory.New(memory.Options{}),
		weir.Limits{weir.PerMinute(100, algorithm.SlidingWindow)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	d, err := limiter.Take(context.Background(), "user:42", 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Guarantee())
	// Output: exact, at most 100 in any period
}

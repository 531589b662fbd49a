package reserve_test

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/store/memory"
)

// A model's answer may cost 800 tokens; it turns out to cost 120.
func Example() {
	store := memory.New(memory.Options{})
	defer store.Close()
	lim, err := weir.New(store, weir.Limits{weir.PerDay(1000, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	r, err := reserve.New(lim, reserve.Options{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	ask := func(tokens int64) reserve.Reservation {
		res, err := r.Reserve(ctx, &weir.Request{Cost: tokens, Descriptors: []weir.Descriptor{
			{Entries: []weir.Entry{{Key: "user", Value: "ann"}}},
		}})
		if err != nil {
			panic(err)
		}
		fmt.Println(res.Decision.Allowed(), res.Decision.Remaining)
		return res
	}
	res := ask(800)
	ask(500) // not while 800 are reserved

	if _, err := r.Commit(ctx, res.Handle, 120); err != nil {
		panic(err)
	}
	ask(500)

	again, err := r.Commit(ctx, res.Handle, 120) // as a caller does that has not heard the answer
	fmt.Println(again.Actual, err)
	other, err := r.Commit(ctx, res.Handle, 200)
	fmt.Println(other.Actual, err)
	// Output:
	// true 200
	// false 200
	// true 380
	// 120 <nil>
	// 120 reserve: the reservation was settled before, with 120
}

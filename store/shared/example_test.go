package shared_test

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// Two nodes count one limit together. In earnest each is a process of its own,
// and what they share is Redis.
func Example() {
	store := memory.New(memory.Options{})
	defer store.Close()
	limit := weir.PerHour(100, algorithm.FixedWindow)
	if err := limit.Compile(); err != nil {
		fmt.Println(err)
		return
	}
	passed := 0
	for range 2 {
		local := memory.New(memory.Options{})
		node, err := shared.New(store, shared.Options{Local: local})
		if err != nil {
			fmt.Println(err)
			return
		}
		for range 80 {
			d, err := node.TakeOne(context.Background(), "user:42", limit, 1)
			if err != nil {
				fmt.Println(err)
				return
			}
			if d.Allowed() {
				passed++
			}
		}
		// What it has fetched and not spent goes back.
		if err := node.Close(); err != nil {
			fmt.Println(err)
		}
		local.Close()
	}
	fmt.Println(passed, "of 160 passed")
	// Output: 100 of 160 passed
}

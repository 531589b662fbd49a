package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

func ExampleNew() {
	now := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC).UnixMicro()
	store := memory.New(memory.Options{
		MaxBytes: 64 << 20,
		Now:      func() int64 { return now },
	})
	defer store.Close()
	limiter, err := weir.New(store, weir.Limits{weir.PerMinute(2, algorithm.TokenBucket)}, weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := limiter.Take(context.Background(), "user:42", 1)
		fmt.Println(d.Allowed(), d.Remaining, d.RetryAfter, err)
	}
	fmt.Println(store.Stats().Keys, "key")
	// Output:
	// true 1 0s <nil>
	// true 0 0s <nil>
	// false 0 30s <nil>
	// 1 key
}

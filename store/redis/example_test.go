package redis_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/redis"
)

// A hundred requests a minute for each user, on all nodes together.
func Example() {
	ctx := context.Background()
	store, err := redis.Open(ctx, "redis://localhost:6379/0?timeout=10ms", redis.Options{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := weir.New(store, weir.Limits{weir.PerMinute(100, algorithm.TokenBucket)}, weir.Options{})
	if err != nil {
		log.Print(err)
		return
	}
	d, err := limiter.Take(ctx, "user:42", 1)
	if err != nil {
		log.Print(err) // no server answered in time: let it pass or not, as you like
		return
	}
	fmt.Println(d.Allowed(), d.Remaining)
}

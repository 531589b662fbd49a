package memcached_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memcached"
)

// A limit that all nodes share which have the same Memcached.
func Example() {
	options, err := memcached.ParseURL("memcached://cache1:11211,cache2:11211?timeout=10ms")
	if err != nil {
		log.Fatal(err)
	}
	options.Logger = slog.Default()
	store, err := memcached.New(options)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()
	if err := store.Probe(ctx); err != nil {
		log.Print(err)
		return
	}
	limiter, err := weir.New(store, weir.Limits{weir.PerMinute(100, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		log.Print(err)
		return
	}
	d, err := limiter.Take(ctx, "user:42", 1)
	if err != nil {
		log.Print(err) // the store could not answer
		return
	}
	fmt.Println(d.Allowed(), d.Remaining)
}

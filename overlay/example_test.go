package overlay_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/overlay"
	"github.com/weirlimit/weir/store/memory"
)

// An operator gives a customer a larger limit, and bans another.
func Example() {
	ctx := context.Background()
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer store.Close()
	limit := weir.PerMinute(100, algorithm.TokenBucket)
	if err := limit.Compile(); err != nil {
		fmt.Println(err)
		return
	}
	over, err := overlay.New(ctx, overlay.Options{Rules: weir.Limits{limit}, Board: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	lim, err := weir.New(store, over, weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	key := func(name string) overlay.Target {
		return overlay.Target{Entries: []weir.Entry{{Key: "key", Value: name}}, Limit: limit, Key: name}
	}
	fmt.Println(over.Override(ctx, key("acme"), overlay.Numbers{Count: 5000, Period: time.Minute}, 0, overlay.Author{By: "ann"}))
	fmt.Println(over.Ban(ctx, key("mallory"), time.Hour, overlay.Author{By: "ann"}))
	for _, name := range []string{"acme", "mallory", "bob"} {
		d, err := lim.Take(ctx, name, 1)
		fmt.Println(name, d.Allowed(), d.Remaining, err)
	}
	for _, e := range over.Entries() {
		fmt.Println(e.YAML())
	}
	// Output:
	// <nil>
	// <nil>
	// acme true 4999 <nil>
	// mallory false 0 <nil>
	// bob true 99 <nil>
	// overrides: {"acme": {name: "100/minute", limit: 5000/minute, algorithm: token_bucket}}
	// deny: ["mallory"]
}

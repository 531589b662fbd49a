package overlay_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/limits"
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
	fmt.Println(over.Keys.Override(ctx, key("acme"), overlay.Numbers{Count: 5000, Period: time.Minute}, 0, overlay.Author{By: "ann"}))
	fmt.Println(over.Keys.Set(ctx, key("mallory"), overlay.Ban, time.Hour, overlay.Author{By: "ann"}))
	for _, name := range []string{"acme", "mallory", "bob"} {
		d, err := lim.Take(ctx, name, 1)
		fmt.Println(name, d.Allowed(), d.Remaining, err)
	}
	for _, e := range over.Keys.ListEntries() {
		fmt.Println(e.Kind, e.Key)
	}
	// Output:
	// <nil>
	// <nil>
	// acme true 4999 <nil>
	// mallory false 0 <nil>
	// bob true 99 <nil>
	// override acme
	// ban mallory
}

// An operator promotes a limit that only counted so far, for an hour: what was
// spent before is spent.
func ExampleModes_Set() {
	ctx := context.Background()
	store := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer store.Close()
	limit := weir.PerHour(5, algorithm.TokenBucket)
	limit.Shadow = true
	if err := limit.Compile(); err != nil {
		fmt.Println(err)
		return
	}
	places := []*limits.Limit{{Limit: limit, Rule: &limits.Rule{Path: "key", File: "rules.yaml"}}}
	over, err := overlay.New(ctx, overlay.Options{Rules: weir.Limits{limit}, Board: store, Limits: func() []*limits.Limit { return places }})
	if err != nil {
		fmt.Println(err)
		return
	}
	lim, err := weir.New(store, over, weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 6 {
		if _, err := lim.Take(ctx, "acme", 1); err != nil {
			fmt.Println(err)
		}
	}
	all := overlay.Setting{Mode: overlay.Enforced, Percent: 100}
	fmt.Println(over.Modes.Set(ctx, places, all, time.Hour, overlay.Author{By: "ann", Reason: "a week without surprises"}))
	d, err := lim.Take(ctx, "acme", 1)
	fmt.Println(d.Allowed(), err)
	changes, err := over.Audit.Changes(ctx, 10, 0)
	fmt.Println(changes[0].Before, changes[0].Reason, err)
	// Output:
	// <nil>
	// false <nil>
	// shadow by the rules a week without surprises <nil>
}

package shed_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/shed"
	"github.com/weirlimit/weir/store/memory"
)

// A request goes to the node first, which asks nobody, then to the limits that
// the fleet shares.
func Example() {
	s, err := shed.New(shed.Options{
		UserRate:        shed.RateOptions{Limit: shed.Rate{Count: 100, Period: time.Second}},
		UserConcurrency: shed.ConcurrencyOptions{Limit: 20},
		FleetShare:      shed.FleetOptions{Limit: shed.Rate{Count: 5000, Period: time.Second}, Reserve: shed.Percent(20)},
		InFlight:        shed.InFlightOptions{Limit: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	store := memory.New(memory.Options{})
	defer store.Close()
	limiter, err := weir.New(store, limits.NewSet(s.Layer()), weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}

	serve := func(id string, p shed.Priority, work func()) {
		var place shed.Slot
		if !s.Enter(&place, p) {
			fmt.Println(p, s.Busy().Status)
			return
		}
		defer place.Leave()
		r := &weir.Request{Priority: int(p), Lease: id, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: "ann"}}}}}
		d, err := limiter.Decide(context.Background(), r)
		if err != nil || !d.Allowed() {
			fmt.Println(p, "refused", err)
			return
		}
		work()
		if _, err := limiter.Release(context.Background(), r); err != nil {
			fmt.Println(err)
		}
		fmt.Println(p, "served")
	}
	serve("1", shed.Default, func() {
		serve("2", shed.Background, func() {}) // half of the node is taken
		serve("3", shed.Critical, func() {})
	})
	// Output:
	// background 503
	// critical served
	// default served
}

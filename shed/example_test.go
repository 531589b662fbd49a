package shed_test

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/shed"
	"github.com/weirlimit/weir/store/memory"
)

// A request goes to the node first, which asks nobody, then to the limits that
// the fleet shares.
func Example() {
	opt, err := shed.Parse([]byte(`
user_rate: {limit: 100/second}
user_concurrency: {limit: 20}
fleet_share: {limit: 5000/second, headroom: 20%}
in_flight: {limit: 2}
`), "shed.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := shed.New(opt)
	if err != nil {
		fmt.Println(err)
		return
	}
	store := memory.New(memory.Options{})
	defer store.Close()
	limiter, err := weir.New(store, s.With(weir.Limits{}), weir.Options{})
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
		if err := limiter.Release(context.Background(), r); err != nil {
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

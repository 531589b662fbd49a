package answer_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/store/memory"
)

// A handler of one's own tells every client where it stands.
func ExampleWriter() {
	const now = 1_700_000_000_000_000 // microseconds since the Unix epoch
	store := memory.New(memory.Options{Now: func() int64 { return now }})
	defer store.Close()
	limit := weir.PerMinute(1, algorithm.FixedWindow)
	limit.Name = "permin"
	lim, err := weir.New(store, weir.Limits{limit}, weir.Options{})
	if err != nil {
		panic(err)
	}
	w, err := answer.New(answer.Options{Headers: []string{answer.IETF08}})
	if err != nil {
		panic(err)
	}
	for range 2 {
		rw := httptest.NewRecorder()
		r := &weir.Request{Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: "ann"}}}}}
		d, err := lim.Decide(context.Background(), r)
		if err != nil {
			panic(err)
		}
		if d.Allowed() {
			w.Header(rw.Header(), r.Ops(), d, now)
		} else {
			w.Refuse(rw, answer.OverLimit, r.Ops(), d, now)
		}
		fmt.Printf("%d %q %s\n", rw.Code, rw.Header().Get("Retry-After"), rw.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "" "permin";r=0;t=40
	// 429 "40" "permin";r=0;t=40
}

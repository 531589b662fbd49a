//go:build !race

// sync.Pool drops at random under the race detector.

package resp

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// TestDecisionsDoNotAllocate: neither CL.THROTTLE nor the commands of named rules
// allocate, one by one or in a pipeline.
func TestDecisionsDoNotAllocate(t *testing.T) {
	for _, test := range []struct {
		name    string
		command func(i int) []byte
	}{
		{"CL.THROTTLE", func(i int) []byte { return wire("CL.THROTTLE", fmt.Sprint("user:", i), "15", "30", "60") }},
		{"CL.THROTTLE quantity", func(i int) []byte { return wire("cl.throttle", fmt.Sprint("user:", i), "15", "30", "60", "2") }},
		{"CL.THROTTLE other numbers", func(i int) []byte { return wire("CL.THROTTLE", fmt.Sprint("user:", i), fmt.Sprint(15+i%7), "30", "60") }},
		{"WEIR.CHECK", func(i int) []byte { return wire("WEIR.CHECK", "api", "client_id", fmt.Sprint(i), "COST", "1") }},
	} {
		for _, pipeline := range []int{1, 64} {
			b := newBench(t, Options{Batch: func(int, time.Duration) {}})
			observed, err := weir.New(b.store, byDomain{"api": b.limiterLimits()}, weir.Options{Observers: []weir.Observer{new(failures)}})
			if err != nil {
				t.Fatal(err)
			}
			b = newBench(t, Options{Limiter: observed, Batch: func(int, time.Duration) {}})
			c := b.addConnection(&quiet{})
			c.reader.in = make([]byte, usualBuffer)
			var raw []byte
			for i := range pipeline {
				raw = append(raw, test.command(i)...)
			}
			c.replies.out = make([]byte, 0, 2*flushAt)
			c.feed(raw)
			if n := testing.AllocsPerRun(100, func() { c.feed(raw) }); n != 0 {
				t.Errorf("%s, pipeline of %d: %v allocations", test.name, pipeline, n)
			}
			if c.nc.(*quiet).wrote < 102*pipeline*len("*5|:0|:1|:0|:-1|:1||||") {
				t.Errorf("%s, pipeline of %d: too little was answered", test.name, pipeline)
			}
		}
	}
}

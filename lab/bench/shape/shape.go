// Package shape holds the patterns of traffic that limiters are measured under.
package shape

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/peer"
)

// Shape is a pattern of traffic.
type Shape struct {
	Name string
	// Procs is how many processors ask at once.
	Procs int
	// Zipf: many keys, a few of them popular. Else one hot key.
	Zipf bool
}

// All lists the shapes, in the order of the tables.
var All = []Shape{
	{"hot key", 1, false},
	{"hot key, 2 procs", 2, false},
	{"Zipf", 1, true},
	{"Zipf, 2 procs", 2, true},
}

// Limit returns a limit that no measurement exhausts, and under which a key
// lives on for minutes after its first unit: a limiter that forgets keys as
// soon as it may must still hold all of them.
func (s Shape) Limit() peer.Limit {
	if s.Zipf {
		return peer.Limit{Burst: 10_000_000, Every: 100 * time.Second}
	}
	return peer.Limit{Burst: 1_000_000_000, Every: time.Millisecond}
}

// Fill makes allow know every key of the shape.
func (s Shape) Fill(allow peer.Allow, keys *load.Keys) error {
	if !s.Zipf {
		if !allow(load.HotKey) {
			return fmt.Errorf("the first request of the hot key was refused")
		}
		return nil
	}
	for _, key := range keys.All {
		if !allow(key) {
			return fmt.Errorf("the first request of key %s was refused", key)
		}
	}
	return nil
}

// Work returns the operation to measure. keys may be nil unless s.Zipf.
func (s Shape) Work(allow peer.Allow, keys *load.Keys) measure.Work {
	if !s.Zipf {
		return func(_ int, n int64) (refused int64) {
			for range n {
				if !allow(load.HotKey) {
					refused++
				}
			}
			return refused
		}
	}
	// Every round goes on where the last one ended, and each processor has its
	// own stretch of the order.
	var at [64]struct {
		next int
		_    [56]byte
	}
	for p := range at {
		at[p].next = p << 16
	}
	return func(p int, n int64) (refused int64) {
		i := at[p].next
		for range n {
			if !allow(keys.At(i)) {
				refused++
			}
			i++
		}
		at[p].next = i
		return refused
	}
}

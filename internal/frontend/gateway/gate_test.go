package gateway_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// longest is a time that no test waits.
const longest = time.Minute

// weirBuilt is a time that is not now.
var weirBuilt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Gates are what an upstream waits at until the test says go on, named so that
// the request can say which.
var (
	gates    sync.Map
	lastGate atomic.Int64
)

func newGate() string {
	name := strconv.FormatInt(lastGate.Add(1), 10)
	gates.Store(name, make(chan struct{}))
	return name
}

// released returns what is closed when the gate opens.
func released(name string) <-chan struct{} {
	c, ok := gates.Load(name)
	if !ok {
		panic("no gate " + name)
	}
	return c.(chan struct{})
}

func release(name string) {
	c, _ := gates.LoadAndDelete(name)
	close(c.(chan struct{}))
}

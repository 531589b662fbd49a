// Package bubble runs tests in bubbles of testing/synctest, where time passes only
// when all is waiting.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// one keeps the program on one processor while it is held.
var one struct {
	sync.Mutex
	holders, procs int
}

// Test is synctest.Test, on one processor under the race detector: with Go 1.26 all
// timers of a bubble share what the detector keeps of a thread, and two of them that
// run at once, one as time passes and one as its channel is looked at, crash it.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if raced {
		hold()
		defer release()
	}
	synctest.Test(t, f)
}

// Inside reports whether its caller is in a bubble, whose time begins with the year 2000.
func Inside() bool { return time.Now().Year() < 2020 }

func hold() {
	one.Lock()
	defer one.Unlock()
	if one.holders++; one.holders == 1 {
		one.procs = runtime.GOMAXPROCS(1)
	}
}

func release() {
	one.Lock()
	defer one.Unlock()
	if one.holders--; one.holders == 0 {
		runtime.GOMAXPROCS(one.procs)
	}
}

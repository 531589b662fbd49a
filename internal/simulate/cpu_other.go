//go:build !unix

package simulate

import (
	"runtime"
	"time"
)

// cpuTime returns, as of some instant, how long this process could have used processors.
func cpuTime() time.Duration {
	return time.Duration(time.Now().UnixNano()%(24*int64(time.Hour))) * time.Duration(runtime.GOMAXPROCS(0))
}

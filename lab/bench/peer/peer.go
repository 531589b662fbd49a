// Package peer puts Weir and other rate limiters behind one function, each as
// its users would write it.
package peer

import (
	"slices"
	"time"
)

// Limit is what every limiter here can express: Burst units at once, and one
// more every Every. Limiters that count in windows get Burst per Burst*Every.
type Limit struct {
	Burst int64
	Every time.Duration
}

// Window returns the time in which an empty bucket fills up.
func (l Limit) Window() time.Duration { return time.Duration(l.Burst) * l.Every }

// Allow spends one unit of key and reports whether the request may pass. An
// error of the limiter is a refusal. Safe for concurrent use.
type Allow func(key string) bool

// Subject is a limiter under test.
type Subject struct {
	// Name as it stands in tables.
	Name string
	// Open returns an empty limiter for limit and the function that ends it.
	Open func(limit Limit) (Allow, func(), error)
}

// Names of this project's limiter: the bucket, which is what most of the others
// are, and the strict window, which Weir takes where no algorithm is named.
const (
	Ours       = "weir"
	OursWindow = "weir, sliding_window"
)

// Own are this project's.
var Own = []Subject{{Ours, openBucket}, {OursWindow, openWindow}}

// Others are the limiters that Weir is compared with.
var Others = []Subject{
	{"x/time/rate, sync.Map", openSyncMap},
	{"x/time/rate, 256 shards", openShards},
	{"go-limiter memorystore", openGoLimiter},
	{"throttled memstore", openThrottled},
	{"ulule/limiter memory", openUlule},
}

// All returns Weir's and the others.
func All() []Subject { return slices.Concat(Own, Others) }

// ByName returns the subject of the given name.
func ByName(name string) (Subject, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return Subject{}, false
}

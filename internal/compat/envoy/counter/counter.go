// Package counter keeps the counters of compatible mode: how many hits a key got
// in the window that its name ends with.
//
// Each counter is changed alone: several of one request are not one
// transaction, as they are none in envoyproxy/ratelimit.
package counter

import "context"

// Hit is one counter that a request meets.
type Hit struct {
	// Key names the counter and its window. It is valid for the call only.
	Key []byte
	// Hits is how many are added: 0 looks, more than math.MaxInt64 is not
	// allowed.
	Hits uint64
	// Back takes the hits off instead, down to 0 at most.
	Back bool
	// PerSecond: the limit is one per second, which can have a server of its own.
	PerSecond bool
	// Period is the length of the window, End when it is over: in seconds, End
	// since the Unix epoch.
	Period, End int64
	// Count is the answer: what the counter stands at afterwards.
	Count uint64
}

// Store keeps counters. Safe for concurrent use.
type Store interface {
	// Add changes the counters in turn, at now, seconds since the Unix epoch, and
	// fills in their counts. An error means that it is not known which were changed.
	Add(ctx context.Context, now int64, hits []Hit) error
	// Close ends background work. Calls after it fail.
	Close() error
}

// Looker is a Store that can look at counters without making them.
type Looker interface {
	// Look fills in the counts as they stand.
	Look(ctx context.Context, now int64, hits []Hit) error
}

package weir

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Outcome is a kind of decision that is counted.
type Outcome uint8

// Outcomes of a decision under one limit. Each decision that counts has one of the
// first six; Estimated and Degraded are counted beside it.
const (
	// Uncounted: the limit counts nothing.
	Uncounted Outcome = iota
	// Allowed: the request passed under the limit.
	Allowed
	// Refused: the limit refused the request.
	Refused
	// SoftAllowed: the request passed above the soft threshold.
	SoftAllowed
	// Borrowed: the request passed on units of the pool.
	Borrowed
	// Delayed: the request passed and was told to wait.
	Delayed
	// ShadowRefused: the limit would have refused, and was not heard.
	ShadowRefused
	// Estimated: decided from a sketch, because the store was full.
	Estimated
	// Degraded: decided on the node, because the shared store did not answer.
	Degraded
	// NumOutcomes is how many there are. Those that are counted are from Allowed on.
	NumOutcomes
)

// String returns the outcome's word in metrics.
func (o Outcome) String() string {
	return [...]string{"uncounted", "allowed", "refused", "soft", "borrowed", "delayed", "shadow_refused", "estimated", "degraded"}[o]
}

// Counters counts decisions. Safe for concurrent use; it neither locks nor
// allocates.
type Counters struct {
	stripes []stripe
}

// stripe is one cache line, so that two processors do not write the same one.
type stripe struct {
	n [8]atomic.Uint64
}

// NewCounters returns counters at zero.
func NewCounters() *Counters {
	n := 1 << bits.Len(uint(min(runtime.GOMAXPROCS(0), 32)-1))
	return &Counters{stripes: make([]stripe, n)}
}

// Add counts one decision of outcome o, which is not Uncounted.
func (c *Counters) Add(o Outcome) {
	// Goroutines have their own stacks, so the address of a local spreads
	// them over the stripes: no processor id is to be had without a lock.
	var local byte
	at := uint64(uintptr(unsafe.Pointer(&local))) * 0x9e3779b97f4a7c15 >> 48
	c.stripes[int(at)&(len(c.stripes)-1)].n[o-Allowed].Add(1)
}

// Load returns how often o was counted, which is not Uncounted.
func (c *Counters) Load(o Outcome) uint64 {
	var sum uint64
	for i := range c.stripes {
		sum += c.stripes[i].n[o-Allowed].Load()
	}
	return sum
}

// countOne counts a decision under l, its only limit.
func countOne(l *Limit, d Decision) {
	o := Allowed
	if !d.Allowed() {
		o = Refused
	}
	l.counters.Add(o)
	if d.Limit != l {
		countSource(d.Limit)
	}
}

// countSource counts a decision under l that was not made from the store's exact
// state.
func countSource(l *Limit) {
	switch {
	case l.source == FromSketch:
		l.counters.Add(Estimated)
	case l.source >= FromShare:
		l.counters.Add(Degraded)
	}
}

package params

import (
	"fmt"
	"time"
)

// Consistency says how nodes that share a store count a limit together, and
// what a node decides while the store does not answer. Stores of one process
// have no use for it. The zero value is right for most limits.
type Consistency struct {
	// Mode is how nodes count together. Zero means the store's default: leased
	// where the algorithm allows it, else strict.
	Mode ConsistencyMode
	// LeaseTTL is how long fetched units may be spent (leased). Zero means a
	// twentieth of the period or a tenth of the time that Burst takes to flow back,
	// whichever is less, up to a second or, for a few units at a time, up to a
	// hundredth of the shorter of the two and a minute, if that is longer. It is never
	// more than half of the time that Burst takes.
	LeaseTTL time.Duration
	// Loose lends units of a bucket also while it is full (leased): those that flow
	// in during LeaseTTL may then be admitted beyond the burst. Zero means that
	// units end, or more are charged, so that the limit holds exactly.
	Loose bool
	// Share is into how many fetches a node divides its share of what remains
	// (leased). Zero means 4.
	Share int64
	// MaxOvershoot is how many units too many may be admitted (eventual). Zero
	// means a twentieth of Count, at least 1.
	MaxOvershoot int64
	// SyncInterval is how often a node tells the store (eventual). Zero means
	// 100 milliseconds.
	SyncInterval time.Duration
	// Optimistic admits the first requests of a key that the node does not know
	// before it has asked (eventual). Zero means that it asks first.
	Optimistic bool
	// OnStoreError is what is decided while the store does not answer. Zero
	// means a local share.
	OnStoreError StoreErrorPolicy
	// Pinned has a key decided only by the server that keeps it. While a ring has lost that
	// server the store reports an error, has charged nothing of the request, and
	// OnStoreError decides. False means that another server may take over, which counts
	// from zero.
	Pinned bool
	// DenyCache says whether a node remembers refusals. Zero means where that
	// is exact.
	DenyCache DenyCache
}

// ConsistencyMode is how nodes that share a store count together.
type ConsistencyMode uint8

const (
	// ConsistencyDefault: what the store thinks best.
	ConsistencyDefault ConsistencyMode = iota
	// ConsistencyStrict: one atomic call of the store per decision.
	ConsistencyStrict
	// ConsistencyLeased: nodes fetch units ahead and spend them on their own.
	// Never more is admitted than by ConsistencyStrict.
	ConsistencyLeased
	// ConsistencyEventual: nodes admit on their own and tell the store later.
	// At most MaxOvershoot units too many are admitted.
	ConsistencyEventual
	// ConsistencyLocal: each node counts alone.
	ConsistencyLocal
)

// String returns the mode's word in rules files.
func (m ConsistencyMode) String() string {
	return word(m, "default", "strict", "leased", "eventual", "local")
}

// StoreErrorPolicy is what a node decides while the store does not answer.
type StoreErrorPolicy uint8

const (
	// OnErrorDefault: as OnErrorLocal.
	OnErrorDefault StoreErrorPolicy = iota
	// OnErrorAllow: everything passes.
	OnErrorAllow
	// OnErrorDeny: nothing passes.
	OnErrorDeny
	// OnErrorLocal: each node admits its share of the limit, the limit divided
	// by the number of nodes, and tells the store when it is back.
	OnErrorLocal
	// OnErrorLastKnown: each node admits what it last knew to remain.
	OnErrorLastKnown
)

// String returns the policy's word in rules files.
func (p StoreErrorPolicy) String() string {
	return word(p, "default", "allow", "deny", "local", "last_known")
}

// DenyCache says whether a node remembers refusals.
type DenyCache uint8

const (
	// DenyCacheAuto: where that is exact.
	DenyCacheAuto DenyCache = iota
	// DenyCacheOn: where that is possible.
	DenyCacheOn
	// DenyCacheOff: never.
	DenyCacheOff
)

// String returns the setting's word in rules files.
func (c DenyCache) String() string { return word(c, "auto", "on", "off") }

func word[T ~uint8](v T, words ...string) string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("%T(%d)", v, uint8(v))
}

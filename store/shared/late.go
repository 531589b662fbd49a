package shared

import "github.com/weirlimit/weir/store/internal/transport"

// Why decisions are made without the store, beside what that says.
var (
	ErrOpen = transport.ErrOpen // its circuit breaker is open
	ErrBusy = transport.ErrBusy
)

// LateStore is what a [Store] asks instead of a store that may not be there yet: embedded in
// one that fails until then. Safe for concurrent use.
type LateStore = transport.LateStore

// NewLateStore returns the LateStore of a store with the layout that its package names.
func NewLateStore(shards int, tuning transport.Tuning) *LateStore {
	return transport.NewLateStore(shards, tuning)
}

package weir

import "errors"

// Can be returned by a [Limiter] or a [Store].
var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("weir: store is closed")
	// ErrCost: a cost was negative or above MaxCost.
	ErrCost = errors.New("weir: cost must be between 0 and 2^53")
	// ErrNoLease: a concurrency limit was to be spent from without a lease ID.
	// Set Request.Lease.
	ErrNoLease = errors.New("weir: a concurrency limit needs a lease: set Request.Lease to a value of your own for this unit of work")
	// ErrRefund: units were to be given back to a limit that cannot take them
	// back, such as an approximate one.
	ErrRefund = errors.New("weir: this limit cannot give back units")
)

// MaxCost is the largest cost of a request and the largest count of a limit:
// 2^53, the largest integer that every store's script computes exactly.
const MaxCost = 1 << 53

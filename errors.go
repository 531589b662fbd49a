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
	// ErrNoKey: [Limiter.Take] was used with rules that have no limit for its one
	// entry, such as those of a rules file.
	ErrNoKey = errors.New("weir: the rules have no limit for the entry \"key\": use TakeBy with keys of the rules, or make the limiter with weir.Limits")
	// ErrNoRule: no rule looks at the domain and the keys that [Limiter.TakeBy] was
	// given. The text says what is near.
	ErrNoRule = errors.New("weir: the rules do not know this request")
	// ErrNoRequest: the request is nil, or there is nothing in it to decide.
	ErrNoRequest = errors.New("weir: there is no request to decide: take one of Limiter.Acquire and append descriptors to it")
	// ErrVerb: a request's Verb is not Spend, Peek or Force.
	ErrVerb = errors.New("weir: a request spends, peeks or forces: set Request.Verb to Spend, Peek or Force, and use Cancel or Release to give units back")
	// ErrNotCompiled: a limit is nil, or was not compiled.
	ErrNotCompiled = errors.New("weir: a limit is nil or not compiled: call Limit.Compile before its first use")
	// ErrRefund: units were to be given back to a limit that cannot take them
	// back, such as an approximate one.
	ErrRefund = errors.New("weir: this limit cannot give back units")
	// ErrMark: the store did not answer for a request with a Mark.
	ErrMark = errors.New("weir: the store did not answer, so it is not known whether the call was made: make it again with its key")
	// ErrNode: units were to be given back to a limit that each node counts alone, on
	// another node than the one that was charged, or on one that is not known.
	ErrNode = errors.New("weir: each node counts this limit alone, so only the node that was charged, while it runs, can give units back: set its consistency to strict, leased or eventual")
)

// errUndecided is returned for a store that reports no error and leaves an op
// without an answer.
var errUndecided = errors.New("weir: the store left a limit without an answer: its Take must fill in the Decision of every op")

// errUnreleased is returned for a lease that may be held in a store that did not answer.
var errUnreleased = errors.New("weir: the store did not answer, so it is not known whether the lease was held: release it again")

package client

import (
	"context"
	"fmt"
	"time"
)

// Wire is a way to the service: how questions and answers are written. [NewHTTP]
// and package client/grpc have one each; a Client puts its guards around it.
//
// A method returns an *[Error] where the caller is to blame, a *[Busy] where the
// service asks to be left alone for a time, and any other error where the
// service is to blame or cannot be reached. It does not ask twice. Safe for
// concurrent use.
type Wire interface {
	// Decide answers checks in order, one decision each, or looks without spending.
	// Each is all or nothing in itself. Another number of decisions is a failure of
	// the service.
	Decide(ctx context.Context, checks []Check, peek bool) ([]Decision, error)
	// Reserve spends an estimate; the handle is empty if and only if it was refused.
	Reserve(ctx context.Context, c Check) (d Decision, handle string, expires time.Time, err error)
	// Settle ends a reservation with what was used; a negative actual gives all
	// of it back.
	Settle(ctx context.Context, handle string, actual int64) (Settlement, error)
	// Acquire takes or renews the lease c.Lease.
	Acquire(ctx context.Context, c Check) (Decision, error)
	// Renew keeps it, or takes it anew if it was lost and there is room, and charges no
	// other limit.
	Renew(ctx context.Context, c Check) (Decision, error)
	// Release ends it, and reports whether it was held.
	Release(ctx context.Context, c Check) (released bool, err error)
	// Close ends idle connections.
	Close() error
}

// Error is a question that the service will not answer, now or later. Nothing
// was counted.
type Error struct {
	// Status is that of HTTP: 400 for a check that is malformed, 409 and 410 for a
	// reservation that is settled or has expired, 421 for one that was made in another
	// region, 422 for what the limits do not
	// allow to be done.
	Status int
	// Code says it for programs: INVALID_ARGUMENT, SETTLED, EXPIRED, REGION, UNSUPPORTED,
	// TOO_LARGE, ...; empty where the client found it.
	Code string
	// Detail says what is wrong and where, in the service's words.
	Detail string
	// Settled is what the reservation came to where the code is SETTLED. Nil elsewhere.
	Settled *Settlement
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("weir: %s (status %d)", e.Detail, e.Status) }

// Busy is a service that asks to be left alone.
type Busy struct {
	// RetryAfter is for how long.
	RetryAfter time.Duration
	// Detail says why, in the service's words.
	Detail string
}

// Error implements error.
func (e *Busy) Error() string {
	return fmt.Sprintf("weir: %s; it asks to be left alone for %s", e.Detail, e.RetryAfter)
}

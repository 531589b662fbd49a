// Package background tells a store, through whatever is wrapped around it, that a call
// is of use even if it is answered after the store's own timeout.
package background

import (
	"context"
	"time"
)

// Call is how long a call may take.
type Call struct {
	// Timeout is the longest that the call takes.
	Timeout time.Duration
}

type key struct{}

// With returns ctx for a call that c describes.
func With(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// Of returns what describes calls under ctx, nil if they end after the store's own
// timeout.
func Of(ctx context.Context) *Call {
	c, _ := ctx.Value(key{}).(*Call)
	return c
}

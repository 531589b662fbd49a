// Package backoff waits for a delay.
package backoff

import (
	"context"
	"time"
)

// Sleep waits for d, and returns false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

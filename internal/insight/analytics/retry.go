package analytics

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

const (
	// A database that takes nothing is tried again after minBackoff, then after
	// twice as long, at most maxBackoff.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
	// maxTries is how often a transaction is tried again that others are in the way
	// of, before a caller that cannot wait is told.
	maxTries = 20
)

// retry calls f until it succeeds or fails for a reason of its own.
func retry(ctx context.Context, f func() error) error {
	wait := minBackoff / 10
	for tries := 1; ; tries++ {
		err := f()
		if err == nil || !Again(err) || tries == maxTries || !backoff.Sleep(ctx, wait) {
			return err
		}
		wait = min(2*wait, maxBackoff/10)
	}
}

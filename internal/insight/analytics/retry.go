package analytics

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

const (
	// maxTries is how often a transaction is tried again that others are in the way
	// of, before a caller that cannot wait is told.
	maxTries = 20
)

// retry calls f until it succeeds or fails for a reason of its own.
func retry(ctx context.Context, f func() error) error {
	wait := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for tries := 1; ; tries++ {
		err := f()
		if err == nil || !Again(err) || tries == maxTries || !wait.Sleep(ctx) {
			return err
		}
	}
}

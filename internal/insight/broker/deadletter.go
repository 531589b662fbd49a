package broker

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

const (
	// MaxDeadLetterWait is how long the dead-letter queue may refuse everything before the
	// rest of a batch is dropped.
	MaxDeadLetterWait = 10 * time.Second
	// maxAttempt bounds one attempt to move a message.
	maxAttempt = MaxDeadLetterWait / 2
)

// MoveToDeadLetters calls put with each message until it succeeds. Failed messages are
// retried after the others, with a growing backoff. When nothing succeeded for
// MaxDeadLetterWait although the broker responds, the rest is returned with the last error:
// the caller counts, logs and drops it. When the broker does not respond, or ctx ends, down
// is true, and the returned messages must be redelivered.
func MoveToDeadLetters[T any](ctx context.Context, messages []T, put func(context.Context, T) error, responds func(context.Context) bool) (left []T, down bool, err error) {
	var wait backoff.Backoff
	ends := time.Now().Add(MaxDeadLetterWait)
	for left = messages; len(left) > 0; {
		var refused []T
		for i, m := range left {
			if ctx.Err() != nil {
				return append(refused, left[i:]...), true, ctx.Err()
			}
			if time.Now().After(ends) {
				refused = append(refused, left[i:]...)
				break
			}
			attempt, cancel := context.WithTimeout(ctx, maxAttempt)
			failure := put(attempt, m)
			cancel()
			if failure != nil {
				refused, err = append(refused, m), failure
				continue
			}
			ends = time.Now().Add(MaxDeadLetterWait)
			wait.Reset()
		}
		if left = refused; len(left) == 0 {
			break
		}
		attempt, cancel := context.WithTimeout(ctx, maxAttempt)
		down = !responds(attempt)
		cancel()
		rest := time.Until(ends)
		if down || ctx.Err() != nil || rest <= 0 {
			return left, down || ctx.Err() != nil, err
		}
		if !backoff.Sleep(ctx, min(wait.Next(), rest)) {
			return left, true, ctx.Err()
		}
	}
	return nil, false, nil
}

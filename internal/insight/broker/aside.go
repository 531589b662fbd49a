package broker

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

const (
	// MaxAside is how long the place for what is no event may refuse all that it is
	// given before the rest of a batch is left out.
	MaxAside = 10 * time.Second
	// maxAttempt bounds one attempt to put a piece aside.
	maxAttempt = MaxAside / 2
)

// PutAside calls put with each piece until it takes the piece. Pieces that are refused are
// tried again after the others, with a wait that grows. When the place has taken nothing
// for MaxAside, although the broker answers, the pieces that it refuses are returned with
// the last error: the caller counts them, logs them and goes on. When the broker does not
// answer, or ctx ends, away is true, and the pieces that are returned must come again.
func PutAside[T any](ctx context.Context, pieces []T, put func(context.Context, T) error, answers func(context.Context) bool) (left []T, away bool, err error) {
	var wait Backoff
	ends := time.Now().Add(MaxAside)
	for left = pieces; len(left) > 0; {
		var refused []T
		for i, piece := range left {
			if ctx.Err() != nil {
				return append(refused, left[i:]...), true, ctx.Err()
			}
			if time.Now().After(ends) {
				refused = append(refused, left[i:]...)
				break
			}
			attempt, cancel := context.WithTimeout(ctx, maxAttempt)
			failure := put(attempt, piece)
			cancel()
			if failure != nil {
				refused, err = append(refused, piece), failure
				continue
			}
			ends = time.Now().Add(MaxAside)
			wait.Reset()
		}
		if left = refused; len(left) == 0 {
			break
		}
		attempt, cancel := context.WithTimeout(ctx, maxAttempt)
		away = !answers(attempt)
		cancel()
		rest := time.Until(ends)
		if away || ctx.Err() != nil || rest <= 0 {
			return left, away || ctx.Err() != nil, err
		}
		wait.tries++
		if !backoff.Sleep(ctx, min(After(wait.tries), rest)) {
			return left, true, ctx.Err()
		}
	}
	return nil, false, nil
}

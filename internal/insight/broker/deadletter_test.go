package broker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

// taker is the dead-letter queue: what it does with a message at a time since the start.
type taker func(ctx context.Context, piece int, since time.Duration) error

var errTooLarge = errors.New("too large")

// Whatever the place does, each piece is taken, left out after the bound, or comes again,
// and the call ends.
func TestFamilyPutAside(t *testing.T) {
	refuses := func(context.Context, int, time.Duration) error { return errTooLarge }
	hangs := func(ctx context.Context, _ int, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
	takes := func(context.Context, int, time.Duration) error { return nil }
	const never = 1 << 62
	for _, c := range []struct {
		name     string
		take     taker
		answers  time.Duration // the broker answers from then on
		left     []int
		away     bool
		from, to time.Duration
	}{
		{"takes all", takes, 0, nil, false, 0, 0},
		{"refuses all", refuses, 0, []int{0, 1, 2, 3}, false, MaxDeadLetterWait, MaxDeadLetterWait},
		{"hangs", hangs, 0, []int{0, 1, 2, 3}, false, MaxDeadLetterWait, MaxDeadLetterWait + maxAttempt},
		{"refuses one", func(ctx context.Context, piece int, since time.Duration) error {
			if piece == 1 {
				return errTooLarge
			}
			return nil
		}, 0, []int{1}, false, MaxDeadLetterWait, MaxDeadLetterWait},
		{"hangs with one", func(ctx context.Context, piece int, since time.Duration) error {
			if piece == 1 {
				return hangs(ctx, piece, since)
			}
			return nil
		}, 0, []int{1}, false, MaxDeadLetterWait, 2*MaxDeadLetterWait + maxAttempt},
		{"refuses for a while", func(_ context.Context, _ int, since time.Duration) error {
			if since < 6*time.Second {
				return errTooLarge
			}
			return nil
		}, 0, nil, false, 6 * time.Second, MaxDeadLetterWait},
		{"is slow", func(context.Context, int, time.Duration) error { time.Sleep(4 * time.Second); return nil }, 0, nil, false, 16 * time.Second, 16 * time.Second},
		{"is away", refuses, never, []int{0, 1, 2, 3}, true, 0, maxAttempt},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				start := time.Now()
				taken := map[int]int{}
				left, away, err := MoveToDeadLetters(t.Context(), []int{0, 1, 2, 3}, func(ctx context.Context, piece int) error {
					err := c.take(ctx, piece, time.Since(start))
					if err == nil {
						taken[piece]++
					}
					return err
				}, func(context.Context) bool { return time.Since(start) >= c.answers })
				took := time.Since(start)
				slices.Sort(left)
				if !slices.Equal(left, c.left) || away != c.away || (err == nil) != (len(c.left) == 0) {
					t.Errorf("left %v, away %v, %v; want %v, %v", left, away, err, c.left, c.away)
				}
				if took < c.from || took > c.to {
					t.Errorf("took %s, want %s to %s", took, c.from, c.to)
				}
				for piece := range 4 {
					if want := !slices.Contains(left, piece); (taken[piece] == 1) != want || taken[piece] > 1 {
						t.Errorf("piece %d was taken %d times, left %v", piece, taken[piece], left)
					}
				}
			})
		})
	}
}

// When the context ends nothing is left out: all that did not move is redelivered.
func TestPutAsideEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		left, away, err := MoveToDeadLetters(ctx, []int{0, 1, 2}, func(_ context.Context, piece int) error {
			if piece == 0 {
				return nil
			}
			return errTooLarge
		}, func(context.Context) bool { return true })
		if !away || len(left) != 2 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("left %v, away %v, %v", left, away, err)
		}
	})
}

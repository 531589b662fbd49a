package backoff

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait before trying again: Min, then twice as long each time, at
// most Max, and from the second on up to a quarter less at random, so that many do not
// come at once. The zero value is ready. Not safe for concurrent use.
type Backoff struct {
	// Min is the first wait. Zero means 100 ms.
	Min time.Duration
	// Max is the longest wait. Zero means ten seconds.
	Max time.Duration
	// Back is called by a Reset after a failure. Nil means none.
	Back func()

	tries int
}

// Next returns the next wait.
func (b *Backoff) Next() time.Duration {
	least, most := cmp.Or(b.Min, 100*time.Millisecond), cmp.Or(b.Max, 10*time.Second)
	d := most
	if b.tries < 62 && least <= most>>b.tries {
		d = least << b.tries
	}
	b.tries++
	return max(d-rand.N(max(d/4, 1)), min(least, most))
}

// Tries returns how many waits there were since the last Reset.
func (b *Backoff) Tries() int { return b.tries }

// Reset makes the next wait short again.
func (b *Backoff) Reset() {
	if b.tries > 0 && b.Back != nil {
		b.Back()
	}
	b.tries = 0
}

// Sleep waits. It returns false when ctx ends before.
func (b *Backoff) Sleep(ctx context.Context) bool { return Sleep(ctx, b.Next()) }

// After returns the wait of the zero Backoff before the given try, from one on.
func After(try int) time.Duration {
	b := Backoff{tries: max(try-1, 0)}
	return b.Next()
}

package reserve

import (
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

// maxRepeats is how many settlements are repeated at a time. The callers of more must repeat
// them, as they may anyway.
const maxRepeats = 1024

// repeats makes settlements again that had no answer, until they have one: a caller that
// does not come again must not leave a reservation settled by halves. Safe for concurrent
// use.
type repeats struct {
	mu      sync.Mutex
	under   map[[16]byte]bool // the ids that are repeated
	running sync.WaitGroup
	ctx     context.Context // nil before the first
	stop    context.CancelFunc
	closed  bool
}

// beginRepeat has try be called until it returns true, unless that is under way for the id, there
// are too many, or all has ended.
func (r *repeats) beginRepeat(id [16]byte, try func(context.Context) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.under[id] || len(r.under) >= maxRepeats {
		return
	}
	if r.ctx == nil {
		r.under = map[[16]byte]bool{}
		r.ctx, r.stop = context.WithCancel(context.Background())
	}
	r.under[id] = true
	r.running.Go(func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.under, id)
		}()
		wait := backoff.Backoff{Min: 50 * time.Millisecond, Max: 5 * time.Second}
		for wait.Sleep(r.ctx) && !try(r.ctx) {
		}
	})
}

// endAndWait ends all.
func (r *repeats) endAndWait() {
	r.mu.Lock()
	r.closed = true
	if r.stop != nil {
		r.stop()
	}
	r.mu.Unlock()
	r.running.Wait()
}

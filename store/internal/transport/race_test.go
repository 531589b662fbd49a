package transport

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

// flaky is a driver of one shard that fails in bursts, so that its breaker opens again
// and again while callers of few keys wait, leave and use their calls again.
type flaky struct{ n atomic.Int64 }

func (d *flaky) Shards() int                    { return 1 }
func (d *flaky) Shard(string) int               { return 0 }
func (d *flaky) Probe(int, time.Duration) error { return nil }

func (d *flaky) Send(_ int, calls []*Call) {
	for _, c := range calls {
		if n := d.n.Add(1); n%32 < 8 {
			c.Finish(&Result{Outcome: Failed, MayRun: true, Err: errors.New("lost")})
			continue
		}
		for i := range c.Ops {
			o := &c.Ops[i]
			o.Decision, o.Charged = weir.Decision{Limit: o.Limit}, true
		}
		c.Finish(nil)
	}
}

// A call belongs to its caller alone as soon as it has ended, however it ended. The race
// detector watches.
func TestEndedCallsAreTheirCallers(t *testing.T) {
	start, opt := time.Now(), options()
	opt.ProbeEvery, opt.Workers, opt.Batch = 50*time.Microsecond, 1, 1 // so that calls wait
	q := New(&flaky{}, NewEnv(func() clock.Node { return clock.Node(time.Since(start).Microseconds()) }, nil), opt)
	defer q.Close()
	var done sync.WaitGroup
	var answered, unanswered atomic.Int64
	for i := range 8 {
		done.Go(func() {
			// The processor may be busy elsewhere while the breaker is open.
			for n := 0; n < 4000 || answered.Load() == 0 && time.Since(start) < time.Minute; n++ {
				ctx, cancel := context.WithCancel(context.Background())
				if n%7 == 0 {
					cancel()
				}
				ops := spend(string(rune('a' + i%6)))
				if _, err := q.DecideInBudget(ctx, ops); err == nil != ops[0].Charged {
					t.Errorf("%v, charged: %t", err, ops[0].Charged)
				} else if err == nil {
					answered.Add(1)
				} else {
					unanswered.Add(1)
				}
				cancel()
			}
		})
	}
	done.Wait()
	if answered.Load() == 0 || unanswered.Load() == 0 {
		t.Errorf("%d answered, %d not", answered.Load(), unanswered.Load())
	}
}

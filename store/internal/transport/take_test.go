package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/store/internal/clock"
)

// porter carries parcels, which keys name: each takes as long as it says.
type porter struct {
	probes  int
	mu      sync.Mutex
	parcels map[string]*parcel
}

// take has a parcel carried.
func (p *porter) take(ctx context.Context, q *Queue, x *parcel) error {
	p.mu.Lock()
	key := fmt.Sprint(len(p.parcels))
	p.parcels[key] = x
	p.mu.Unlock()
	_, err := q.DecideInBudget(ctx, []weir.Op{{Key: key}})
	return err
}

type parcel struct {
	takes   time.Duration
	err     error
	arrived atomic.Bool
}

func (p *porter) Shards() int      { return 1 }
func (p *porter) Shard(string) int { return 0 }

func (p *porter) Probe(_ int, within time.Duration) error {
	p.probes++
	if time.Sleep(within / 2); within != 800*time.Millisecond {
		return errors.New("no such time")
	}
	return nil
}

func (p *porter) Send(_ int, calls []*Call) {
	for _, c := range calls {
		p.mu.Lock()
		x := p.parcels[c.Ops[0].Key]
		p.mu.Unlock()
		if time.Sleep(x.takes); x.err != nil {
			c.Finish(&Result{Outcome: Failed, MayRun: true, Err: x.err})
			continue
		}
		x.arrived.Store(true)
		c.Finish(nil)
	}
}

func carrying(t *testing.T, change func(*Options), f func(q *Queue, p *porter)) {
	bubble.Test(t, func(t *testing.T) {
		start, p, opt := time.Now(), &porter{parcels: map[string]*parcel{}}, options()
		opt.Budget, opt.Timeout, opt.Tuning.ProbeFor, opt.Workers, opt.Batch = 20*time.Millisecond, time.Second, 800*time.Millisecond, 1, 1
		opt.ProbeEvery, opt.Opened, opt.Closed = 100*time.Millisecond, func(error) {}, func() {}
		change(&opt)
		q := New(p, NewEnv(func() clock.Node { return clock.Node(time.Since(start) / time.Microsecond) }, nil), opt)
		defer q.Close()
		f(q, p)
	})
}

func TestTake(t *testing.T) {
	carrying(t, func(*Options) {}, func(q *Queue, p *porter) {
		x := &parcel{takes: 10 * time.Millisecond}
		if err := p.take(context.Background(), q, x); err != nil || !x.arrived.Load() {
			t.Errorf("%v, arrived %v", err, x.arrived.Load())
		}
		// One that is late, and one behind it that is never sent.
		late, behind := &parcel{takes: 50 * time.Millisecond}, &parcel{}
		go func() {
			time.Sleep(time.Millisecond)
			err := p.take(context.Background(), q, behind)
			if MayRun(err) || !errors.Is(err, ErrLate) {
				t.Errorf("behind: %v", err)
			}
		}()
		if err := p.take(context.Background(), q, late); !MayRun(err) || !errors.Is(err, ErrLate) || late.arrived.Load() {
			t.Errorf("late: %v", err)
		}
		if time.Sleep(5 * time.Millisecond); q.Waiting() != 0 {
			t.Errorf("%d wait that were left", q.Waiting())
		}
		time.Sleep(100 * time.Millisecond)
		if !late.arrived.Load() || behind.arrived.Load() {
			t.Error("what was sent did not arrive, or what was not did")
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var r *Result
		if err := p.take(ctx, q, &parcel{}); !errors.As(err, &r) || r.Outcome != CallerGone || r.MayRun {
			t.Errorf("its caller has gone before: %v", err)
		}
	})
}

func TestNeverOpens(t *testing.T) {
	for _, never := range []bool{false, true} {
		carrying(t, func(o *Options) { o.NeverOpens = never }, func(q *Queue, p *porter) {
			broken := errors.New("broken")
			for range 8 {
				err := p.take(context.Background(), q, &parcel{err: broken})
				if err == nil || never && !errors.Is(err, broken) {
					t.Error(err)
				}
			}
			if q.IsOpen() == never {
				t.Errorf("open: %v", q.IsOpen())
			}
			if time.Sleep(time.Second); q.IsOpen() || never != (p.probes == 0) {
				t.Errorf("open: %v after %d probes", q.IsOpen(), p.probes)
			}
		})
	}
}

// A probe that finds a part of the store out closes its breaker: others answer. One that
// fails otherwise does not.
func TestProbeIsExcused(t *testing.T) {
	for _, excused := range []bool{false, true} {
		probe := func(func([]weir.Op) error) error { return &Result{Outcome: Failed, Excused: excused, Err: errDown} }
		carrying(t, func(o *Options) { o.Probe = probe }, func(q *Queue, p *porter) {
			q.TripBreaker(0, errDown)
			if time.Sleep(time.Second); q.IsOpen() == excused {
				t.Errorf("excused %v, open %v", excused, q.IsOpen())
			}
		})
	}
}

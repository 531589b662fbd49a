package transport

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// A watcher counts what it is told.
type watcher struct {
	limits, ended int
	took          time.Duration
	failures      []string
	fail          func(string)
}

func (w *watcher) Begin(ctx context.Context, limits int) (context.Context, func(string)) {
	w.limits += limits
	return ctx, func(failure string) { w.failures = append(w.failures, failure) }
}

func (w *watcher) End(took time.Duration, failure string, report func(string)) {
	w.ended, w.took = w.ended+1, w.took+took
	report(failure)
}

func (w *watcher) Fail(failure string) { w.fail(failure) }

// Shards that a driver trips where it is bound are asked nothing until its probe finds them. The
// watcher is told of each call and of how it ended.
func TestDriverThatIsNotThereYet(t *testing.T) {
	simulate(t, 1, func(w *world) {
		store, watched, why := newServers(w, 2), &watcher{}, errDown
		store.draw = func(_ int, c *Call) fate {
			x := fate{runs: true, after: time.Millisecond}
			if c.Ops[0].Key == "bad" {
				x.result = &Result{Outcome: Failed, Err: errDown}
			}
			return x
		}
		store.probe = func(int) (time.Duration, error) { return time.Millisecond, why }
		opt := options()
		opt.Tuning = Tuning{Watcher: watched, FailureOf: FailureOf, Bind: func(q *Queue) {
			q.TripBreaker(0, errDown)
			q.TripBreaker(1, errDown)
		}}
		q := New(store, w.env(), opt)
		w.sleep(time.Second)
		if _, err := q.DecideInBudget(context.Background(), alone("a")); !errors.Is(err, ErrOpen) || !q.IsShardOpen(0) || !q.IsShardOpen(1) || watched.limits > 0 {
			t.Errorf("it is not there: %v", err)
		}
		why = nil
		w.sleep(time.Second)
		for _, key := range []string{"a", "b"} {
			if _, err := q.DecideInBudget(context.Background(), alone(key)); err != nil {
				t.Errorf("it is there: %v", err)
			}
		}
		_, _ = q.DecideInBudget(context.Background(), alone("bad"))
		if want := []string{"", "", "other"}; watched.limits != 3 || watched.ended != 3 || watched.took != 3*time.Millisecond || !slices.Equal(watched.failures, want) {
			t.Errorf("%+v", watched)
		}
		q.Close()
	})
}

// Parts are servers of which a call takes keys of one.
type parts struct {
	*servers
	undone, lost int
}

func (p *parts) Part(key string) int          { return p.Shard(key) }
func (p *parts) Check([]weir.Op) error        { return nil }
func (p *parts) LeavesTrace(*weir.Limit) bool { return false }
func (p *parts) Undone(ops int, err error) {
	if p.undone += ops; err != nil {
		p.lost += ops
	}
}

// A request of several parts has one budget for all of its calls, and as much again to give
// back. What is late is not taken for never sent, and only its shard is judged.
func TestDoOverParts(t *testing.T) {
	for _, each := range []time.Duration{budget / 4, budget / 8 * 5} {
		simulate(t, 1, func(w *world) {
			d := &parts{servers: newServers(w, 3)}
			d.draw = func(int, *Call) fate { return fate{runs: true, after: each} }
			q := New(d, w.env(), options())
			ops, begin := append(append(alone("a"), alone("b")...), alone("c")...), w.now
			for i := range ops {
				ops[i].Headroom = 0
			}
			_, err := q.DecideInBudget(context.Background(), ops)
			took := time.Duration(w.now-begin) * time.Microsecond
			if each < budget/2 {
				if err != nil || took != 3*each || d.undone != 0 {
					t.Errorf("%v after %s, %d undone", err, took, d.undone)
				}
			} else if !errors.Is(err, ErrLate) || !MayRun(err) || took != budget+each || d.undone != 1 || d.lost != 0 {
				t.Errorf("%v after %s, %d undone, %d not", err, took, d.undone, d.lost)
			}
			if q.Stats().Failed != 0 {
				t.Errorf("%+v", q.Stats())
			}
			q.Close()
		})
	}
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/lateness"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/store/internal/clock"
)

// So many calls of a shard wait, and so many of one key. What is above has not run, and
// other shards have room.
func TestQueueIsBounded(t *testing.T) {
	opt := options()
	opt.Workers, opt.Batch = 1, 1
	for _, x := range []struct {
		name string
		ops  func(n int) []weir.Op
		room int
	}{
		{"shard", func(n int) []weir.Op { return alone(fmt.Sprint("\x00", n)) }, 1 + opt.Waiting},
		{"key", func(int) []weir.Op { return spend("\x00k") }, 1 + opt.PerKey},
	} {
		run(t, 1, 2, opt, func(w *world, d *servers, q *Queue) {
			d.draw = func(int, *Call) fate { return fate{runs: true, after: 15 * time.Millisecond} }
			busy := 0
			for n := range 100 {
				w.Go(func() {
					w.sleep(time.Duration(n) * time.Microsecond)
					if _, err := q.DecideInBudget(context.Background(), x.ops(n)); errors.Is(err, ErrBusy) {
						if busy++; MayRun(err) || w.now > 200 {
							t.Errorf("%s: %v at %d", x.name, err, w.now)
						}
					}
				})
			}
			w.sleep(time.Millisecond)
			if _, err := q.DecideInBudget(context.Background(), alone("\x01")); err != nil || busy != 100-x.room {
				t.Errorf("%s: %d calls found no room, want %d; the other shard: %v", x.name, busy, 100-x.room, err)
			}
		})
	}
}

// Calls that were left while they waited take no room, and the spends behind one of them
// go in its place.
func TestLeftCallsTakeNoRoom(t *testing.T) {
	opt := options()
	opt.Workers, opt.Batch = 1, 1
	run(t, 1, 1, opt, func(w *world, d *servers, q *Queue) {
		d.draw = func(int, *Call) fate { return fate{runs: true, after: 10 * time.Millisecond} }
		w.Go(func() { _, _ = q.DecideInBudget(context.Background(), alone("first")) })
		w.sleep(time.Microsecond)
		answered := 0
		for n := range 3 {
			w.Go(func() {
				w.sleep(time.Duration(n) * time.Microsecond)
				ctx := context.Background()
				if n == 0 {
					ctx = w.within(time.Millisecond)
				}
				if _, err := q.DecideInBudget(ctx, spend("k")); err == nil {
					answered++
				} else if n > 0 || MayRun(err) {
					t.Errorf("spend %d: %v", n, err)
				}
			})
		}
		for range 5 {
			for n := range 50 {
				w.Go(func() { _, _ = q.DecideInBudget(w.within(time.Microsecond), alone(fmt.Sprint(n))) })
			}
			w.sleep(time.Millisecond)
		}
		if n := len(q.shards[0].waiting[0]); n > 120 {
			t.Errorf("%d calls are kept for callers who have left", n)
		}
		w.sleep(time.Second)
		if answered != 2 {
			t.Errorf("%d of 2 spends were answered", answered)
		}
	})
}

// Two keys of one tag do not share a call.
func TestTagsThatCollide(t *testing.T) {
	run(t, 1, 1, options(), func(w *world, d *servers, q *Queue) {
		s := &q.shards[0]
		for n, key := range []string{"a", "a", "b", "b", "a"} {
			w.Go(func() {
				w.sleep(time.Duration(n) * time.Microsecond)
				ops := spend(key)
				c := q.newCall(context.Background(), Foreground, ops)
				q.setKey(c)
				c.tag = 1
				if _, err := q.waitForCall(context.Background(), c, budget, ops); err != nil {
					t.Error(err)
				}
			})
		}
		w.sleep(time.Second)
		if d.spent["a"] != 3 || d.spent["b"] != 2 || len(s.byKey) != 0 {
			t.Errorf("%v", d.spent)
		}
	})
}

// slow is a store that takes its time. If it is prompt it ends when the context does.
type slow struct {
	weir.Store
	lasts  atomic.Int64 // nanoseconds
	prompt atomic.Bool
}

func (s *slow) Take(ctx context.Context, ops []weir.Op) error {
	ended := ctx.Done()
	if !s.prompt.Load() {
		ended = nil
	}
	select {
	case <-time.After(time.Duration(s.lasts.Load())):
		for i := range ops {
			ops[i].Decision = weir.Decision{Limit: ops[i].Limit}
		}
		return nil
	case <-ended:
		return ctx.Err()
	}
}

// inBubble runs f with a queue over a store, on the time of a bubble.
func inBubble(t *testing.T, f func(store *slow, meter *lateness.Meter, q *Queue)) {
	bubble.Test(t, func(t *testing.T) {
		store, opt, start := &slow{}, options(), time.Now()
		store.lasts.Store(int64(time.Millisecond))
		store.prompt.Store(true)
		opt.Batch = 1
		meter := lateness.New()
		env := NewEnv(func() clock.Node { return clock.Node(time.Since(start).Microseconds()) }, meter)
		opt.Probe = func(ask func([]weir.Op) error) error { return ask(spend("probe")) }
		q := New(DriverOver(store), env, opt)
		defer q.Close()
		f(store, meter, q)
	})
}

// A store that stalls is late after the budget, its breaker opens, and closes again when
// it answers.
func TestOver(t *testing.T) {
	inBubble(t, func(store *slow, meter *lateness.Meter, q *Queue) {
		defer meter.Close()
		store.lasts.Store(int64(time.Hour))
		for range 5 {
			begun := time.Now()
			_, err := q.DecideInBudget(context.Background(), spend("k"))
			if took := time.Since(begun); !errors.Is(err, ErrLate) || !MayRun(err) || took != budget {
				t.Errorf("%v after %s", err, took)
			}
		}
		if !q.IsOpen() {
			t.Error("closed after five calls were late")
		}
		store.lasts.Store(int64(time.Millisecond))
		time.Sleep(time.Second)
		if _, err := q.DecideInBudget(context.Background(), spend("k")); err != nil || q.IsOpen() {
			t.Errorf("%v", err)
		}
	})
}

// What the process is late itself counts against nobody.
func TestOwnLateness(t *testing.T) {
	for _, late := range []bool{false, true} {
		inBubble(t, func(store *slow, meter *lateness.Meter, q *Queue) {
			if late {
				meter.Close() // it does not look any more, as in a process that gets no turn
				time.Sleep(4 * budget)
			} else {
				defer meter.Close()
			}
			store.lasts.Store(int64(budget + time.Millisecond))
			store.prompt.Store(false)
			for range 6 {
				_, err := q.DecideInBudget(context.Background(), spend("k"))
				if (err == nil) != late {
					t.Errorf("late itself %v: %v", late, err)
				}
			}
			synctest.Wait()
			if q.IsOpen() == late {
				t.Errorf("late itself %v, open %v", late, q.IsOpen())
			}
			time.Sleep(time.Second)
		})
	}
}

// A node that is late for longer than its callers wait gives up a store that is well. It
// opens no breaker, whoever finds that the time is over: the caller, who leaves, or the store,
// whose context ends. A store that is silent in the time in which the node runs does open it.
func TestOwnLatenessBeyondWaiting(t *testing.T) {
	for _, prompt := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			inBubble(t, func(store *slow, meter *lateness.Meter, q *Queue) {
				if late {
					meter.Close() // it does not look any more, as in a process that gets no turn
					time.Sleep(4 * budget)
				} else {
					defer meter.Close()
				}
				store.lasts.Store(int64(5 * time.Second))
				store.prompt.Store(prompt)
				for range 6 {
					if _, err := q.DecideInBudget(context.Background(), spend("k")); err == nil {
						t.Error("answered")
					}
					time.Sleep(budget)
				}
				synctest.Wait()
				if q.IsOpen() == late {
					t.Errorf("prompt %v, late itself %v, open %v", prompt, late, q.IsOpen())
				}
				store.lasts.Store(int64(time.Millisecond)) // those under way end
				time.Sleep(6 * time.Second)
			})
		}
	}
}

// What an error of a store says: whether the call may have run, and whether it is
// evidence about the store.
func TestResultOf(t *testing.T) {
	if MayRun(nil) || MayRun(ErrOpen) || MayRun(ErrBusy) || !MayRun(ErrLate) || !MayRun(errDown) {
		t.Error("it is not known what was sent")
	}
	for _, x := range []struct {
		err     error
		ops     int
		outcome Outcome
		mayRun  bool
		excused bool
	}{
		{errDown, 1, Failed, true, false},
		{weir.ErrCost, 1, Rejected, false, false},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), 1, Late, true, false},
		{context.Canceled, 1, Failed, true, true},
		{saidError{partial: true}, 1, Failed, true, true},
		{errors.Join(context.DeadlineExceeded, saidError{partial: true}), 1, Late, true, true},
		{saidError{rejected: true}, 1, Rejected, false, false},
		{saidError{rejected: true}, 2, Rejected, true, false},
	} {
		r := resultOf(x.err, x.ops)
		if r.Outcome != x.outcome || r.MayRun != x.mayRun || r.Excused != x.excused || !errors.Is(r, x.err) || x.outcome == Late != errors.Is(r, ErrLate) {
			t.Errorf("%v of %d ops: %+v", x.err, x.ops, r)
		}
	}
}

// saidError is an error that says more about itself.
type saidError struct{ partial, rejected bool }

func (saidError) Error() string    { return "said" }
func (e saidError) Partial() bool  { return e.partial }
func (e saidError) Rejected() bool { return e.rejected }

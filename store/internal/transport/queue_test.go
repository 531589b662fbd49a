package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/store/internal/clock"
)

const budget, timeout = 20 * time.Millisecond, 750 * time.Millisecond

func options() Options {
	return Options{Mark: NewMark(algorithm.FixedWindow), Budget: budget, Timeout: timeout, Workers: 4, Batch: 8, Waiting: 64, PerKey: 16, ProbeEvery: 250 * time.Millisecond}
}

var hourly = func() *weir.Limit {
	l := weir.PerHour(1000, algorithm.FixedWindow)
	if err := l.Compile(); err != nil {
		panic(err)
	}
	return l
}()

func spend(key string) []weir.Op { return []weir.Op{{Key: key, Limit: hourly, Cost: 1}} }

// alone is a spend that no other joins, under a name of its own.
func alone(key string) []weir.Op { return []weir.Op{{Key: key, Limit: hourly, Cost: 1, Headroom: 1}} }

// run simulates a queue before one shard or more, and checks that nothing is left of its
// calls when it is closed.
func run(t *testing.T, seed uint64, shards int, opt Options, f func(w *world, d *servers, q *Queue)) *world {
	t.Helper()
	return simulate(t, seed, func(w *world) {
		d := newServers(w, shards)
		q := New(d, w.env(), opt)
		f(w, d, q)
		q.Close()
		for i := range q.shards {
			s := &q.shards[i]
			if len(s.flight)+len(s.waiting[0])+len(s.waiting[1])+len(s.byKey)+s.live+s.working+s.background != 0 {
				t.Errorf("seed %d: shard %d has %d calls in flight, %d waiting, %d keys, %d workers", seed, i, len(s.flight), s.live, len(s.byKey), s.working)
			}
		}
		if _, err := q.DecideInBudget(context.Background(), spend("k")); !errors.Is(err, weir.ErrClosed) && !errors.Is(err, ErrOpen) || MayRun(err) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Each row of the table of results: what became of a call, whether it may have run, and
// what that says of the shard.
func TestResults(t *testing.T) {
	rejected := &Result{Outcome: Rejected, Err: errors.New("wrong type")}
	failed := &Result{Outcome: Failed, MayRun: true, Err: errDown}
	unsent := &Result{Outcome: Failed, Err: errDown}
	part := &Result{Outcome: Failed, MayRun: true, Excused: true, Err: errDown}
	for _, x := range []struct {
		name    string
		fate    fate
		ctx     func(w *world) context.Context
		outcome Outcome
		mayRun  bool
		opens   bool // five of them in a row open the breaker
		failed  uint64
	}{
		{"answered", fate{true, time.Millisecond, nil}, nil, 0, false, false, 0},
		{"rejected", fate{false, time.Millisecond, rejected}, nil, Rejected, false, false, 5},
		{"failed", fate{true, time.Millisecond, failed}, nil, Failed, true, true, 5},
		{"not delivered", fate{false, time.Millisecond, unsent}, nil, Failed, false, true, 5},
		{"failed in a part", fate{false, time.Millisecond, part}, nil, Failed, true, false, 5},
		{"late", fate{true, 30 * time.Millisecond, nil}, nil, Late, true, true, 5},
		{"caller gone", fate{true, 5 * time.Millisecond, nil}, func(w *world) context.Context { return w.within(time.Millisecond) }, CallerGone, true, false, 0},
		{"caller gone from a shard that stalls", fate{true, 30 * time.Millisecond, nil}, func(w *world) context.Context { return w.within(time.Millisecond) }, CallerGone, true, true, 5},
		{"caller gone before", fate{true, time.Millisecond, nil}, func(*world) context.Context {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx
		}, CallerGone, false, false, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			opt, opened, unanswered := options(), 0, 0
			opt.Workers = 6
			opt.Tuning.Watcher, opt.Tuning.FailureOf = &watcher{fail: func(string) { unanswered++ }}, FailureOf
			opt.Opened = func(error) { opened++ }
			run(t, 1, 1, opt, func(w *world, d *servers, q *Queue) {
				d.draw = func(int, *Call) fate { return x.fate }
				for n := range 5 {
					ctx := context.Background()
					if x.ctx != nil {
						ctx = x.ctx(w)
					}
					start, ops := w.now, alone(fmt.Sprint(n))
					sent, err := q.DecideInBudget(ctx, ops)
					var r *Result
					if errors.As(err, &r); x.outcome == 0 && (err != nil || ops[0].Decision.Remaining != 1 || sent < start) {
						t.Errorf("%v, %+v", err, ops[0])
					} else if x.outcome != 0 && (r == nil || r.Outcome != x.outcome || r.MayRun != x.mayRun || MayRun(err) != x.mayRun) {
						t.Errorf("%d, may run %v: %v", r.Outcome, r.MayRun, err)
					}
					if x.outcome == CallerGone && !errors.Is(err, context.Canceled) {
						t.Errorf("%v", err)
					}
					if took := w.now - start; took > clock.Node(budget.Microseconds()) {
						t.Errorf("took %d µs", took)
					}
					w.sleep(budget) // or what is silent is so once
				}
				w.sleep(2 * budget)
				if q.IsOpen() != x.opens || (opened == 1) != x.opens {
					t.Errorf("open %v, told %d times", q.IsOpen(), opened)
				}
				if st := q.Stats(); st.Failed != x.failed {
					t.Errorf("%+v", st)
				}
				_, err := q.DecideInBackground(alone("later"))
				if n := unanswered; err == nil && n > 0 || err != nil && n != 1 {
					t.Errorf("%v, and %d calls are noted that no decision waits for", err, n)
				}
				if !x.opens {
					return
				}
				before := d.spent["9"]
				if _, err := q.DecideInBudget(context.Background(), alone("9")); !errors.Is(err, ErrOpen) || MayRun(err) || d.spent["9"] != before {
					t.Errorf("while open: %v", err)
				}
			})
		})
	}
}

// Ten failures of the last twenty calls open the breaker, nine do not; with RunsOnly only
// five in a row do.
func TestBreakerOpensByShare(t *testing.T) {
	for failures, opens := range map[int]bool{9: false, 10: true} {
		for _, runsOnly := range []bool{false, true} {
			var b Breaker
			opened := false
			for i := range 20 {
				opened = b.recordCall(i%2 == 0 && i/2 < failures, runsOnly) || opened
			}
			for range failures - 10 + 1 {
				opened = b.recordCall(true, runsOnly) || opened
			}
			if opened != (opens && !runsOnly) {
				t.Errorf("%d failures of 20, runs only %t: open %v", failures, runsOnly, opened)
			}
			for range 5 {
				opened = b.recordCall(true, runsOnly) || opened
			}
			if !opened {
				t.Errorf("five in a row, runs only %t: closed", runsOnly)
			}
		}
	}
}

// A call that gets no turn for a budget was not sent. That all workers are stuck counts
// against the shard, that there is much to do does not.
func TestUnsent(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		opt := options()
		opt.Workers, opt.Batch = 1, 1
		run(t, 1, 1, opt, func(w *world, d *servers, q *Queue) {
			lasts := 15 * time.Millisecond
			if stuck {
				lasts = time.Second
			}
			d.draw = func(int, *Call) fate { return fate{runs: true, after: lasts} }
			for n := range 7 {
				if stuck && n > 3 {
					break
				}
				w.Go(func() { _, _ = q.DecideInBudget(context.Background(), alone(fmt.Sprint("a", n))) })
				if stuck {
					w.sleep(budget)
				}
			}
			w.sleep(time.Millisecond)
			for !stuck && q.shards[0].live == 0 {
				w.sleep(time.Millisecond)
			}
			_, err := q.DecideInBudget(context.Background(), alone("b"))
			if MayRun(err) || err == nil || !stuck && q.Stats().Busy == 0 {
				t.Errorf("stuck %v: %v, %+v", stuck, err, q.Stats())
			}
			if q.IsOpen() != stuck {
				t.Errorf("stuck %v, open %v", stuck, q.IsOpen())
			}
			w.sleep(2 * time.Second)
			if d.spent["b"] != 0 {
				t.Error("what was not sent was carried out")
			}
		})
	}
}

// Spends of a key that come while one is under way go with the next call, in order, those
// of equal cost together. Others go by themselves.
func TestCoalesce(t *testing.T) {
	run(t, 1, 1, options(), func(w *world, d *servers, q *Queue) {
		var calls []int
		d.draw = func(_ int, c *Call) fate {
			calls = append(calls, len(c.Ops))
			if len(c.Ops) > 1 && c.Ops[0].Role != weir.Always {
				t.Errorf("role %d", c.Ops[0].Role)
			}
			return fate{runs: true, after: time.Millisecond}
		}
		d.allows = 3
		var order []int64
		for n := range 6 {
			w.Go(func() {
				w.sleep(time.Duration(n) * time.Microsecond)
				ops := spend("k")
				if n == 5 {
					ops[0].Cost = 2
				}
				if _, err := q.DecideInBudget(context.Background(), ops); err != nil {
					t.Error(err)
				}
				order = append(order, ops[0].Decision.Remaining*10+int64(n))
				if allowed := n < 3; ops[0].Charged != allowed || ops[0].Decision.Allowed() != allowed {
					t.Errorf("%d: %+v", n, ops[0])
				}
			})
		}
		w.sleep(10 * time.Millisecond)
		if fmt.Sprint(calls) != "[1 4 1]" || q.Stats().Combined != 3 {
			t.Errorf("calls of %v spends", calls)
		}
		for _, x := range order {
			if x/10 != x%10+1 {
				t.Errorf("the order was %v", order)
			}
		}
	})
}

// A call that has had its time gives its key free: those who wait behind it hear so at
// once, and have not run, and the next spend makes a call of its own.
func TestLateCallReleasesItsKey(t *testing.T) {
	run(t, 1, 1, options(), func(w *world, d *servers, q *Queue) {
		first := true
		d.draw = func(int, *Call) fate {
			lasts := time.Millisecond
			if first {
				lasts, first = time.Second, false
			}
			return fate{runs: true, after: lasts}
		}
		heard := 0
		for n := range 3 {
			w.Go(func() {
				w.sleep(time.Duration(n) * 5 * time.Millisecond)
				_, err := q.DecideInBudget(context.Background(), spend("k"))
				if err == nil || MayRun(err) != (n == 0) || w.now > 1+clock.Node(budget.Microseconds()) {
					t.Errorf("at %d: %v, may run %v", w.now, err, MayRun(err))
				}
				heard++
			})
		}
		w.sleep(budget + time.Microsecond)
		ops := spend("k")
		if _, err := q.DecideInBudget(context.Background(), ops); err != nil || ops[0].Decision.Remaining != 1 || heard != 3 {
			t.Errorf("%v, %+v, %d heard", err, ops[0].Decision, heard)
		}
		if q.Stats().Failed != 1 {
			t.Errorf("one call was late, %d failed", q.Stats().Failed)
		}
	})
}

// The phases of a decision have one budget together. What is detached has its own.
func TestBudget(t *testing.T) {
	run(t, 1, 1, options(), func(w *world, d *servers, q *Queue) {
		d.draw = func(int, *Call) fate { return fate{runs: true, after: 8 * time.Millisecond} }
		caller := w.within(18 * time.Millisecond)
		ctx, start := q.BeginBudget(caller), w.now
		if q.BeginBudget(ctx) != ctx {
			t.Error("a budget was begun anew")
		}
		for n := range 2 {
			if _, err := q.DecideInBudget(ctx, alone(fmt.Sprint(n))); err != nil {
				t.Error(err)
			}
		}
		if _, err := q.DecideInBudget(ctx, alone("2")); !errors.Is(err, context.Canceled) || w.now-start != 18_000 {
			t.Errorf("%v after %d µs", err, w.now-start)
		}
		if _, err := q.DecideInBudget(q.DetachBudget(ctx), alone("3")); err != nil || q.BudgetLeft(q.DetachBudget(ctx)) != budget {
			t.Errorf("detached: %v", err)
		}
		ctx, start = q.BeginBudget(context.Background()), w.now
		for n := range 4 {
			if _, err := q.DecideInBudget(ctx, alone(fmt.Sprint("x", n))); (n < 2) != (err == nil) || n == 3 && MayRun(err) {
				t.Errorf("call %d: %v", n, err)
			}
		}
		if w.now-start != clock.Node(budget.Microseconds()) || q.BudgetLeft(ctx) != 0 {
			t.Errorf("took %d µs", w.now-start)
		}
	})
}

// Background calls are judged by the timeout, take at most a quarter of the calls, and
// leave the rest to decisions.
func TestBackground(t *testing.T) {
	opt := options()
	opt.Workers, opt.Batch = 8, 4
	run(t, 1, 1, opt, func(w *world, d *servers, q *Queue) {
		d.draw = func(_ int, c *Call) fate {
			if c.class == Background {
				if c.Within != timeout {
					t.Errorf("within %s", c.Within)
				}
				return fate{runs: true, after: 500 * time.Millisecond}
			}
			return fate{runs: true, after: time.Millisecond}
		}
		ended := 0
		for n := range 20 {
			w.Go(func() {
				if _, err := q.DecideInBackground(alone(fmt.Sprint("b", n))); err == nil {
					ended++
				}
			})
		}
		w.sleep(100 * time.Millisecond)
		if _, err := q.DecideInBudget(context.Background(), alone("f")); err != nil || d.mostBehind > 8 {
			t.Errorf("%v, %d background calls at a time", err, d.mostBehind)
		}
		w.sleep(2 * time.Second)
		if q.IsOpen() || ended != 8 || q.Stats().Late != 0 {
			t.Errorf("open %v, %d were answered, %+v", q.IsOpen(), ended, q.Stats())
		}
		d.draw = func(int, *Call) fate { return fate{after: 800 * time.Millisecond} }
		for n := range 5 {
			w.Go(func() {
				w.sleep(time.Duration(n) * budget)
				if _, err := q.DecideInBackground(alone(fmt.Sprint("c", n))); err == nil || !MayRun(err) {
					t.Errorf("%v", err)
				}
			})
		}
		w.sleep(740*time.Millisecond + 4*budget)
		if q.IsOpen() {
			t.Error("open before the timeout was over")
		}
		w.sleep(20 * time.Millisecond)
		if !q.IsOpen() {
			t.Error("not open when it was")
		}
	})
}

// A fetch has the timeout. It counts as late each time that a budget has passed, if a
// decision waits for it, and is answered all the same.
func TestFetch(t *testing.T) {
	for _, waited := range []bool{false, true} {
		run(t, 1, 1, options(), func(w *world, d *servers, q *Queue) {
			d.draw = func(int, *Call) fate { return fate{runs: true, after: 300 * time.Millisecond} }
			f := new(Flight)
			f.Begin()
			if waited {
				w.Go(func() {
					if err := q.AwaitFlight(context.Background(), f); !errors.Is(err, ErrLate) || w.now > 1+clock.Node(budget.Microseconds()) {
						t.Errorf("%v at %d", err, w.now)
					}
				})
			}
			w.Go(func() {
				w.sleep(budget + time.Millisecond)
				if start := w.now; !f.Overdue.Load() {
					t.Error("not overdue after a budget")
				} else if waited && (!errors.Is(q.AwaitFlight(context.Background(), f), ErrLate) || w.now != start) {
					t.Error("an overdue flight was waited for")
				}
				w.sleep(5 * budget)
				if q.IsOpen() != waited || q.Stats().Failed > 1 {
					t.Errorf("waited %v, open %v, %+v", waited, q.IsOpen(), q.Stats())
				}
			})
			ops := alone("k")
			if _, err := q.DecideForFlight(context.Background(), f, ops); err != nil || ops[0].Decision.Remaining != 1 || f.Overdue.Load() {
				t.Errorf("%v, %+v", err, ops[0])
			}
		})
	}
}

// All who wait for a flight hear when it lands; a caller who goes does not wait.
func TestFlight(t *testing.T) {
	run(t, 1, 1, options(), func(w *world, d *servers, q *Queue) {
		for _, why := range []error{nil, errDown} {
			f := new(Flight)
			f.Begin()
			if err := q.Launch(func() {
				w.sleep(5 * time.Millisecond)
				f.Land(why)
			}); err != nil {
				t.Fatal(err)
			}
			start, heard := w.now, 0
			for range 3 {
				w.Go(func() {
					if err := q.AwaitFlight(context.Background(), f); err != why || w.now-start != 5000 {
						t.Errorf("%v after %d µs", err, w.now-start)
					}
					heard++
				})
			}
			if err := q.AwaitFlight(w.within(time.Millisecond), f); !errors.Is(err, context.Canceled) || MayRun(err) {
				t.Errorf("%v", err)
			}
			if err := q.AwaitLanding(w.within(time.Millisecond), f); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			if err := q.AwaitLanding(context.Background(), f); err != nil || w.now-start != 5000 {
				t.Errorf("%v after %d µs", err, w.now-start)
			}
			if w.sleep(time.Millisecond); heard != 3 {
				t.Errorf("%d of 3 heard", heard)
			}
		}
		q.TripBreaker(0, errDown)
		if err := q.Launch(nil); !errors.Is(err, ErrOpen) || MayRun(err) {
			t.Errorf("while open: %v", err)
		}
	})
}

// Whose caller has left is told how the call ended, now or later.
func TestThen(t *testing.T) {
	for _, early := range []bool{false, true} {
		run(t, 1, 1, options(), func(w *world, d *servers, q *Queue) {
			d.draw = func(int, *Call) fate { return fate{runs: true, after: 10 * time.Millisecond} }
			_, err := q.DecideInBudget(w.within(time.Millisecond), alone("k"))
			var r *Result
			if !errors.As(err, &r) || !r.IsLeft() {
				t.Fatalf("%v", err)
			}
			heard := 0
			then := func(ops []weir.Op, err error) {
				if heard++; err != nil || ops[0].Decision.Remaining != 1 {
					t.Errorf("%v, %+v", err, ops[0])
				}
			}
			if early {
				r.WhenEnded(then)
			}
			w.sleep(20 * time.Millisecond)
			if !early {
				r.WhenEnded(then)
			}
			if heard != 1 {
				t.Errorf("told %d times", heard)
			}
		})
	}
}

// A shard whose breaker is open is probed until it answers in time, also by a driver that
// does not end its probes; those left behind are bounded. What waited when it opened
// hears so at once, and has not run.
func TestHalfOpen(t *testing.T) {
	opt, closed := options(), 0
	opt.Workers, opt.Batch = 1, 1
	opt.Closed = func() { closed++ }
	run(t, 1, 2, opt, func(w *world, d *servers, q *Queue) {
		d.draw = func(shard int, _ *Call) fate {
			return fate{runs: true, after: time.Duration(1-shard)*5*time.Second + time.Millisecond}
		}
		d.probe = func(int) (time.Duration, error) { return 6 * time.Second, nil }
		w.Go(func() { _, _ = q.DecideInBudget(context.Background(), spend("\x00waits")) })
		w.sleep(time.Microsecond)
		for range 5 {
			w.Go(func() { _, _ = q.DecideInBudget(context.Background(), spend("\x00waits")) })
			w.Go(func() { _, _ = q.DecideInBudget(context.Background(), alone("\x00waits")) })
		}
		w.sleep(time.Millisecond)
		q.TripBreaker(0, errDown)
		q.TripBreaker(0, errDown)
		w.sleep(time.Microsecond)
		if q.shards[0].live != 0 || q.IsOpen() {
			t.Errorf("%d calls wait at an open shard; all open: %v", q.shards[0].live, q.IsOpen())
		}
		if _, err := q.DecideInBudget(context.Background(), alone("\x01other")); err != nil {
			t.Errorf("the other shard: %v", err)
		}
		w.sleep(5500 * time.Millisecond)
		if d.probing > maxProbes || d.probing < 10 || closed != 0 {
			t.Errorf("%d probes, closed %d times", d.probing, closed)
		}
		d.probe = func(int) (time.Duration, error) { return 0, errDown }
		w.sleep(10 * time.Second)
		if closed != 0 {
			t.Error("closed by a probe that failed")
		}
		d.probe = func(int) (time.Duration, error) { return time.Millisecond, nil }
		w.sleep(280 * time.Millisecond)
		if closed != 1 || q.shards[0].breaker.isOpen.Load() {
			t.Errorf("closed %d times", closed)
		}
		if _, err := q.DecideInBudget(context.Background(), spend("\x00k")); !errors.Is(err, ErrLate) {
			t.Errorf("%v", err)
		}
	})
}

// Nodes do not probe together.
func TestProbesAreJittered(t *testing.T) {
	at := map[clock.Node]bool{}
	for seed := range uint64(20) {
		opt := options()
		opt.Seed = seed
		run(t, 1, 1, opt, func(w *world, d *servers, q *Queue) {
			start := w.now
			q.TripBreaker(0, errDown)
			for q.IsOpen() {
				w.sleep(time.Millisecond)
			}
			lasted := w.now - start
			if at[lasted] = true; lasted < 225_000 || lasted > 280_000 {
				t.Errorf("closed after %d µs", lasted)
			}
		})
	}
	if len(at) < 10 {
		t.Errorf("20 nodes probe at %d instants", len(at))
	}
}

// Whatever deadlines callers have, a shard that answers in time stays closed, and nothing
// counts as failed.
func TestCallersDeadlinesSayNothing(t *testing.T) {
	first := seeds.Of(t)
	for seed := range uint64(40) {
		run(t, first+seed, 2, options(), func(w *world, d *servers, q *Queue) {
			d.draw = func(int, *Call) fate {
				return fate{runs: true, after: time.Duration(w.rnd.Int64N(int64(budget)))}
			}
			for n := range 30 {
				w.Go(func() {
					for i := range 20 {
						ctx := w.within(time.Duration(w.rnd.Int64N(int64(budget))))
						ops := spend(fmt.Sprint(w.rnd.IntN(6)))
						if i%3 == 0 {
							ops = alone(fmt.Sprint(n, i))
						}
						if _, err := q.DecideInBudget(ctx, ops); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrBusy) && MayRun(err) {
							t.Errorf("seed %d: %v", first+seed, err)
						}
					}
				})
			}
			w.sleep(time.Minute)
			if st := q.Stats(); st.Failed+st.Late != 0 || q.shards[0].breaker.isOpen.Load() || q.shards[1].breaker.isOpen.Load() {
				t.Errorf("seed %d: %+v", first+seed, st)
			}
		})
	}
}

// A shard that stalls opens at the same instant, whether callers wait or leave at once.
func TestStallIsFoundWhoeverWaits(t *testing.T) {
	at := map[clock.Node]bool{}
	for _, leave := range []bool{false, true} {
		opt := options()
		var w *world
		opt.Opened = func(error) { at[w.now] = true }
		run(t, 3, 1, opt, func(world *world, d *servers, q *Queue) {
			w = world
			d.draw = func(int, *Call) fate { return fate{after: 5 * time.Second} }
			for n := range 5 {
				w.Go(func() {
					w.sleep(time.Duration(n) * budget)
					ctx := context.Background()
					if leave {
						ctx = w.within(time.Millisecond)
					}
					_, _ = q.DecideInBudget(ctx, alone(fmt.Sprint(n)))
				})
			}
			w.sleep(time.Second)
		})
	}
	if len(at) != 1 || !at[1+clock.Node(5*budget.Microseconds())] {
		t.Errorf("opened at %v", at)
	}
}

// One silence is one failure, however many wait: a server that gets no turn for less than
// five budgets is not out, and one that gets none for longer is. Calls that it refuses are
// not silent.
func TestSilenceIsOneFailure(t *testing.T) {
	for _, x := range []struct {
		lasts time.Duration
		says  *Result
		opens bool
	}{
		{80 * time.Millisecond, nil, false},
		{130 * time.Millisecond, nil, true},
		{time.Millisecond, &Result{Outcome: Failed, Err: errDown}, true},
	} {
		for callers := range 17 {
			opt, opened := options(), clock.Node(0)
			run(t, uint64(callers), 1, opt, func(w *world, d *servers, q *Queue) {
				q.opt.Opened = func(error) { opened = w.now }
				begun := w.now
				d.draw = func(int, *Call) fate {
					if end := begun + clock.Node(x.lasts.Microseconds()); w.now < end {
						return fate{runs: true, after: time.Duration(end-w.now) * time.Microsecond, result: x.says}
					}
					return fate{runs: true, after: time.Millisecond}
				}
				for c := range callers {
					w.Go(func() {
						for n := range 10 {
							_, _ = q.DecideInBudget(context.Background(), alone(fmt.Sprint(c, "-", n)))
						}
					})
				}
				w.sleep(time.Second)
			})
			if opens := opened > 0; opens != x.opens && callers > 4 {
				t.Errorf("%d callers, silent for %s: open %v", callers, x.lasts, opens)
			}
			if opened > clock.Node(6*budget.Microseconds()) {
				t.Errorf("%d callers: open after %d µs", callers, opened)
			}
		}
	}
}

// While no call of a shard is in flight, as the node gives its workers no turn, the store is
// not waited for: its budget begins when it is asked. What is in flight has its budget alone.
func TestTimeOfTheNodeIsNotTheStores(t *testing.T) {
	for _, x := range []struct {
		turn, lasts time.Duration
		answered    bool
	}{
		{0, budget - time.Millisecond, true},
		{0, budget + time.Millisecond, false},
		{50 * time.Millisecond, budget - time.Millisecond, true},
		{50 * time.Millisecond, budget + time.Millisecond, false},
		{time.Hour, time.Millisecond, false}, // nobody can wait for that
	} {
		simulate(t, 1, func(w *world) {
			d, env := newServers(w, 1), w.env()
			begin := env.Go
			env.Go = func(f func()) { begin(func() { w.sleep(x.turn); f() }) }
			q := New(d, env, options())
			d.draw = func(int, *Call) fate { return fate{runs: true, after: x.lasts} }
			start := w.now
			ops := spend("k")
			_, err := q.DecideInBudget(context.Background(), ops)
			if (err == nil) != x.answered {
				t.Errorf("a turn after %s, an answer after %s: %v", x.turn, x.lasts, err)
			}
			took := time.Duration(w.now-start) * time.Microsecond
			if most := x.turn + budget; took > most && took > time.Second+budget {
				t.Errorf("a turn after %s: took %s", x.turn, took)
			}
			w.sleep(2 * x.turn)
			q.Close()
		})
	}
}

// draws is the schedule of faults of a random run.
func draws(rnd *rand.Rand) func(shard int, c *Call) fate {
	return func(_ int, c *Call) fate {
		x := fate{runs: true, after: time.Duration(rnd.Int64N(int64(2 * time.Millisecond)))}
		switch n := rnd.IntN(40); {
		case n < 2:
			x = fate{false, x.after, &Result{Outcome: Failed, Err: errDown}}
		case n < 4:
			x.result = &Result{Outcome: Failed, MayRun: true, Err: errDown}
		case n < 6:
			x = fate{false, x.after, &Result{Outcome: Rejected, Err: errDown}}
		case n < 10:
			x.after = time.Duration(rnd.Int64N(int64(3 * budget)))
		case n < 11:
			x.after = time.Duration(rnd.Int64N(int64(2 * timeout)))
		}
		return x
	}
}

// Random calls of random callers at a driver with random faults: each is carried out at
// most once, each result says truly whether it may have been, the order of a key is kept,
// nobody waits longer than the budget, the bounds are kept, and the same seed does the
// same.
func TestRandomCalls(t *testing.T) {
	first, hashes, outcomes := seeds.Of(t), [2]uint64{}, [CallerGone + 1]int{}
	for i := range uint64(60) {
		seed := first + i/2
		w := run(t, seed, 2, options(), func(w *world, d *servers, q *Queue) {
			o := &oracle{t: t, w: w, d: d, q: q, answered: map[string]int64{}, mayRun: map[string]int64{}, last: map[string][2]int64{}, outcomes: &outcomes}
			d.draw = draws(w.rnd)
			d.probe = func(int) (time.Duration, error) { return time.Duration(w.rnd.Int64N(int64(3 * budget))), nil }
			for n := range 40 {
				w.Go(func() { o.call(n) })
			}
			w.sleep(time.Hour)
			o.check(seed)
		})
		if hashes[i%2] = w.events; i%2 == 1 && hashes[0] != hashes[1] {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
	for o, n := range outcomes {
		if n == 0 {
			t.Errorf("no call had the outcome %d", o)
		}
	}
}

// An oracle knows what each caller was told, and what the servers have done.
type oracle struct {
	t testing.TB
	w *world
	d *servers
	q *Queue
	// answered are the spends of a key that were answered, mayRun those that may have
	// run; of a key that one call alone has, both are 0 or 1.
	answered, mayRun map[string]int64
	// last is when the caller that was answered last for a key came, and what it got.
	last     map[string][2]int64
	entries  int64
	outcomes *[CallerGone + 1]int
}

func (o *oracle) call(caller int) {
	for i := range 25 {
		o.w.sleep(time.Duration(o.w.rnd.Int64N(int64(5 * time.Millisecond))))
		ctx, start := context.Background(), o.w.now
		if o.w.rnd.IntN(4) == 0 {
			ctx = o.w.within(time.Duration(o.w.rnd.Int64N(int64(budget))))
		}
		ops, joined := spend(fmt.Sprint(o.w.rnd.IntN(5))), true
		if o.w.rnd.IntN(3) == 0 {
			ops, joined = alone(fmt.Sprint(i%2, " ", caller, " ", i)), false
		}
		o.entries++
		entry := o.entries
		var err error
		most := budget
		switch o.w.rnd.IntN(8) {
		case 0:
			ops, joined, most = alone(fmt.Sprint(i%2, " later ", caller, " ", i)), false, timeout
			_, err = o.q.DecideInBackground(ops)
		default:
			_, err = o.q.DecideInBudget(ctx, ops)
		}
		key := ops[0].Key
		if took := o.w.now - start; took > clock.Node(most.Microseconds()) {
			o.t.Errorf("waited %d µs", took)
		}
		var r *Result
		if errors.As(err, &r) {
			o.outcomes[r.Outcome]++
		}
		o.w.note("%s %v", key, err)
		switch {
		case err == nil:
			o.outcomes[0]++
			o.answered[key]++
			if joined {
				o.inOrder(key, entry, ops[0].Decision.Remaining)
			}
		case MayRun(err):
			o.mayRun[key]++
		}
		for s := range o.q.shards {
			if s := &o.q.shards[s]; s.live > o.q.opt.Waiting || s.live < 0 || len(s.flight) > o.q.opt.Workers*o.q.opt.Batch {
				o.t.Errorf("%d wait, %d are in flight", s.live, len(s.flight))
			}
		}
	}
}

// inOrder checks that of two spends of a key that were answered the first to come was the
// first to be carried out. Answers of one instant may be heard in any order.
func (o *oracle) inOrder(key string, entry, got int64) {
	last := o.last[key]
	if (entry < last[0]) != (got < last[1]) {
		o.t.Errorf("%s: the caller that came as number %d was number %d, that of %d number %d", key, entry, got, last[0], last[1])
	}
	if got > last[1] {
		o.last[key] = [2]int64{entry, got}
	}
}

func (o *oracle) check(seed uint64) {
	for _, all := range []map[string]int64{o.d.spent, o.answered} {
		for key := range all {
			if n, a, m := o.d.spent[key], o.answered[key], o.mayRun[key]; n < a || n > a+m {
				o.t.Errorf("seed %d: %q was carried out %d times, %d were answered and %d may have run", seed, key, n, a, m)
			}
		}
	}
	for key, n := range o.d.marked {
		if n > 1 {
			o.t.Errorf("seed %d: %q was carried out %d times", seed, key, n)
		}
	}
	if o.d.most > o.q.opt.Workers || o.d.batch > o.q.opt.Batch || o.d.mostBehind > o.q.opt.atMostBackground() {
		o.t.Errorf("seed %d: %d batches, %d calls in one, %d in the background", seed, o.d.most, o.d.batch, o.d.mostBehind)
	}
}

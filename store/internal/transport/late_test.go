package transport

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// drivenServers are a store with a driver.
type drivenServers struct {
	*servers
	bound int
}

func (d *drivenServers) Driver() (Driver, Tuning) {
	return d.servers, Tuning{Bind: func(*Queue) { d.bound++ }}
}

// Until the store is there all of its shards are open. Then each closes by its probe, and the
// store's driver, which is bound once to each queue, gets the calls.
func TestLateStore(t *testing.T) {
	for _, isThere := range []bool{false, true} {
		simulate(t, 1, func(w *world) {
			begun, ended, failed := 0, 0, 0
			store := &drivenServers{servers: newServers(w, 2)}
			late := NewLateStore(2, Tuning{
				Workers: 3,
				Begun:   func(ctx context.Context, n int) (context.Context, func(string)) { begun += n; return ctx, nil },
				Ended: func(took time.Duration, err error, _ func(string)) {
					if ended++; took != time.Millisecond {
						t.Errorf("took %s", took)
					}
					if err != nil {
						failed++
					}
				},
			})
			if isThere {
				late.Reach(store)
			}
			driver, tuning := late.Driver()
			opt := options()
			opt.Tuning = tuning
			q := New(driver, w.env(), opt)
			driver, opt.Tuning = late.Driver()
			other := New(driver, w.env(), opt)
			if !isThere {
				w.sleep(time.Second)
				if _, err := q.Do(context.Background(), alone("a")); !errors.Is(err, ErrOpen) || !q.IsShardOpen(0) || !q.IsShardOpen(1) || q.opt.Workers != 3 {
					t.Errorf("it is not there: %v", err)
				}
				late.Reach(store)
				w.sleep(time.Second)
			}
			store.draw = func(_ int, c *Call) fate {
				x := fate{runs: true, after: time.Millisecond}
				if c.Ops[0].Key == "bad" {
					x.result = &Result{Outcome: Failed, Err: errDown}
				}
				return x
			}
			for i, key := range []string{"a", "b"} {
				if _, err := []*Queue{q, other}[i].Do(context.Background(), alone(key)); err != nil {
					t.Errorf("it is there: %v", err)
				}
			}
			_, _ = q.Do(context.Background(), alone("bad"))
			if store.bound != 2 || begun != 3 || ended != 3 || failed != 1 {
				t.Errorf("bound %d times; %d calls have begun, %d ended, %d failed", store.bound, begun, ended, failed)
			}
			q.Close()
			other.Close()
		})
	}
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
			_, err := q.Do(context.Background(), ops)
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

package shared

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
)

const (
	// sweepEvery is how often idle entries and due reports are looked for.
	sweepEvery = 25 * time.Millisecond
	// endFor is for how long calls are made again that have no answer when a store is closed,
	// in microseconds.
	endFor = 1_000_000
	// settleFor is for how long a call has had no answer before the log tells of it, in
	// microseconds: an outage, of which the log tells first, is known by then.
	settleFor = 5_000_000
)

// failure is why a decision was made without the store, and when.
type failure struct {
	err error
	at  clock.Node
}

// Maintenance is what a node does in the background, and what it logs of outages.
type maintenance struct {
	*Store
	every, renewEvery time.Duration
	wake              transport.Gate
	running           *transport.Group
	ctx               context.Context // ends when the loops are to
	stop              context.CancelFunc
	outages           *faults.Outage
	debts             *faults.Log
	degraded          atomic.Uint64           // decisions without the store before the breaker opened
	failed            atomic.Pointer[failure] // the first that the log has not told of
	shards            int64                   // of the store
}

func newMaintenance(s *Store, opt *Options) *maintenance {
	ctx, stop := context.WithCancel(context.Background())
	return &maintenance{
		Store: s, every: opt.ProbeEvery, renewEvery: opt.NodeTTL / 3, wake: transport.NewGate(), running: transport.NewGroup(s.env), ctx: ctx, stop: stop, debts: faults.New(opt.Logger),
		outages: faults.NewOutage(opt.Logger, "shared store unavailable; circuit breaker opened, decisions follow on_store_error", "shared store recovered; circuit breaker closed"),
	}
}

// hurryReturns has returns sent without waiting for the next sweep.
func (m *maintenance) hurryReturns() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// runSweeps gives back what lies idle.
func (m *maintenance) runSweeps() {
	for swept := m.env.Now(); ; {
		wake := m.env.Park(m.ctx, m.wake, sweepEvery)
		if wake == transport.Ended {
			return
		}
		if now := m.env.Now(); wake == transport.TimedOut || int64(now-swept) >= sweepEvery.Microseconds() {
			swept = now
			m.clock.Watch()
			m.table.SweepIdle(m.clock.Now())
			m.eventual.PushDue(m.clock.Now())
		}
		m.sendReturns()
	}
}

// sendReturns gives back what waits to be returned, while the store is not out: what is of
// one part in a call.
func (m *maintenance) sendReturns() {
	for !m.queue.IsOpen() {
		now := m.clock.Now()
		some := m.returns.TakeDue(now, m.clock.Latest(now))
		if some == nil {
			return
		}
		at := map[int]int{}
		var calls [][]lot.Return
		var ops [][]weir.Op
		for _, b := range some {
			part := m.queue.Repeater.PartOfKey(b.Key)
			i, ok := at[part]
			if !ok {
				i, calls, ops = len(calls), append(calls, nil), append(ops, nil)
				at[part] = i
			}
			calls[i], ops[i] = append(calls[i], b), append(ops[i], b.BuildOp())
		}
		m.callEachOnce(ops, func(i int, _ clock.Node, err error) {
			end := lot.Accepted
			if transport.MayRun(err) {
				end = lot.Unknown
			} else if err != nil {
				end = lot.Unsent
			}
			m.returns.FinishCall(calls[i], m.clock.Now(), end)
		})
	}
}

// renewAndPay renews the node's registration, pays debts, and forgets policies.
func (m *maintenance) renewAndPay() {
	renewed, swept, lost := m.clock.Now(), m.clock.Now(), int64(0)
	for m.env.Park(m.ctx, nil, m.every) != transport.Ended {
		now := m.clock.Now()
		m.policies.second.Store(int64(now) / 1e6)
		if m.queue.IsOpen() {
			m.failed.Store(nil) // the outage was told
			continue
		}
		m.logFailure(now)
		if int64(now-renewed) >= m.renewEvery.Microseconds() {
			switch err := m.renewNode(m.callInBackground); {
			case err == nil:
				renewed = now
			case !m.isExcused(err):
				continue
			}
		}
		if sum := m.clock.LostTime(); sum > lost {
			m.log.Warn("process paused or clock set forward; leases age by that time", "for", micros.Duration(sum-lost))
			lost = sum
		}
		if _, err := m.outage.PayDebts(); err != nil && !m.isExcused(err) && m.debts.IsDue() {
			m.log.Warn("charging of debts failed; will retry", "err", err)
		}
		m.returns.Resume()
		if int64(now-swept) > policyLife*1e6/2 {
			swept = now
			m.policies.sweepUnused()
		}
	}
}

// keepFailures returns what is told why each decision is made without the store: the watcher of
// its calls, and what logs it later.
func (m *maintenance) keepFailures(t *transport.Tuning) func(error) {
	return func(err error) {
		t.ReportFailure(err)
		if r, ok := errors.AsType[*transport.Result](err); m.failed.Load() == nil && !errors.Is(err, transport.ErrOpen) && !(ok && r.Outcome == transport.CallerGone) {
			m.failed.CompareAndSwap(nil, &failure{err, m.clock.Now()})
		}
	}
}

// logFailure tells of a decision that was made without the store some time before now, if
// no breaker has opened since.
func (m *maintenance) logFailure(now clock.Node) {
	if f := m.failed.Load(); f != nil && int64(now-f.at) >= settleFor {
		m.log.Warn("shared store gave no answer; decisions without one follow on_store_error", "err", f.err)
		m.failed.Store(nil)
	}
}

// breakerOpened notes an outage of all shards.
func (m *maintenance) breakerOpened(err error) {
	m.degraded.Store(m.outage.Degraded.Load())
	m.outages.Failed(err)
}

func (m *maintenance) breakerClosed() {
	m.outages.Recovered("degraded_decisions", m.outage.Degraded.Load()-m.degraded.Load())
}

// Close implements weir.Store: it gives back what was fetched and not spent, and
// waits for calls under way, but not for a probe of a store that does not answer. It
// closes neither the shared nor the local store. That the shared store does not answer
// is logged and is no error; any other error is returned.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		s.maintenance.running.Wait()
		return nil
	}
	s.maintenance.stop()
	s.maintenance.running.Wait()
	for range 3 { // a report without an answer is repeated once, and leaves what came after it
		s.eventual.PushDue(clock.Never)
		s.queue.Wait()
	}
	s.returns.Resume()
	s.maintenance.sendReturns()
	s.table.DrainEntries(s.maintenance.sendReturns)
	var errs error
	if !s.queue.IsOpen() {
		s.maintenance.logFailure(clock.Never)
		left, err := s.outage.PayDebts()
		if left > 0 {
			s.log.Warn("shutdown: shared store slow, debts not charged", "debts", left)
		}
		errs = err
		errs = errors.Join(errs, s.nodes.endRegistration(s.callInBackground))
	}
	// What has had no answer is made again for a moment.
	for end := s.env.Now().Add(endFor); s.queue.Repeater.IsBusy() && !s.queue.IsOpen() && s.env.Now() < end; {
		s.env.Park(context.Background(), nil, sweepEvery)
	}
	s.queue.Close()
	s.meter.Close()
	if errs != nil && !errors.Is(errs, weir.ErrClosed) {
		s.log.Warn("shutdown: shared store unreachable, leases not returned", "err", errs)
		return nil
	}
	return errs
}

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

// sweepEvery is how often idle entries and due reports are looked for.
const sweepEvery = 25 * time.Millisecond

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
	degraded          atomic.Uint64 // decisions without the store before the breaker opened
	shards            int64         // of the store
}

func newMaintenance(s *Store, opt *Options) *maintenance {
	ctx, stop := context.WithCancel(context.Background())
	return &maintenance{
		Store: s, every: opt.ProbeEvery, renewEvery: opt.NodeTTL / 3, wake: transport.NewGate(), running: transport.NewGroup(s.env), ctx: ctx, stop: stop, debts: faults.New(opt.Logger),
		outages: faults.NewOutage(opt.Logger, "shared store unavailable; circuit breaker opened, decisions follow on_store_error", "shared store recovered; circuit breaker closed"),
	}
}

// hurry has returns sent without waiting for the next sweep.
func (m *maintenance) hurry() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// sweep gives back what lies idle.
func (m *maintenance) sweep() {
	for swept := m.env.Now(); ; {
		wake := m.env.Park(m.ctx, m.wake, sweepEvery)
		if wake == transport.Ended {
			return
		}
		if now := m.env.Now(); wake == transport.TimedOut || int64(now-swept) >= sweepEvery.Microseconds() {
			swept = now
			m.clock.Watch()
			m.table.Sweep(m.clock.Now())
			m.eventual.PushDue(m.clock.Now())
		}
		m.sendReturns()
	}
}

// sendReturns gives back what waits to be returned, while the store is not out: what is of
// one shard in a call.
func (m *maintenance) sendReturns() {
	for !m.queue.IsOpen() {
		now := m.clock.Now()
		some := m.returns.Take(now, m.clock.Latest(now))
		if some == nil {
			return
		}
		byShard := make([][]lot.Return, m.shards)
		for _, b := range some {
			shard := m.queue.Shard(b.Key)
			byShard[shard] = append(byShard[shard], b)
		}
		for _, some := range byShard {
			if len(some) > 0 {
				m.sendSome(some)
			}
		}
	}
}

// sendSome gives back units of one shard.
func (m *maintenance) sendSome(some []lot.Return) {
	ops := make([]weir.Op, len(some))
	for i := range some {
		ops[i] = some[i].Op()
	}
	end := lot.Accepted
	if err := m.later(ops); transport.MayRun(err) {
		end = lot.Unknown
	} else if err != nil {
		end = lot.Unsent
	}
	m.returns.Finish(some, m.clock.Now(), end)
}

// renewAndPay renews the node's registration, pays debts, and forgets policies.
func (m *maintenance) renewAndPay() {
	renewed, swept, lost := m.clock.Now(), m.clock.Now(), int64(0)
	for m.env.Park(m.ctx, nil, m.every) != transport.Ended {
		now := m.clock.Now()
		m.policies.second.Store(int64(now) / 1e6)
		if m.queue.IsOpen() {
			continue
		}
		if int64(now-renewed) >= m.renewEvery.Microseconds() {
			switch err := m.renew(m.later); {
			case err == nil:
				renewed = now
			case !m.isExcused(err):
				continue
			}
		}
		if sum := m.clock.Lost(); sum > lost {
			m.log.Warn("process paused or clock set forward; leases age by that time", "for", micros.Duration(sum-lost))
			lost = sum
		}
		if _, err := m.outage.Pay(); err != nil && !m.isExcused(err) && m.debts.IsDue() {
			m.log.Warn("charging of debts failed; will retry", "err", err)
		}
		m.returns.Resume()
		if int64(now-swept) > policyLife*1e6/2 {
			swept = now
			m.policies.sweep()
		}
	}
}

// breakerOpened notes an outage of all shards.
func (m *maintenance) breakerOpened(err error) {
	m.degraded.Store(m.outage.Degraded.Load())
	m.outages.Failed(err)
}

func (m *maintenance) breakerClosed() {
	m.nodes.interrupt()
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
	s.table.Drain(s.maintenance.sendReturns)
	var errs error
	if !s.queue.IsOpen() {
		left, err := s.outage.Pay()
		if left > 0 {
			s.log.Warn("shutdown: shared store slow, debts not charged", "debts", left)
		}
		errs = err
		errs = errors.Join(errs, s.nodes.leave(s.later))
	}
	s.queue.Close()
	s.meter.Close()
	if errs != nil && !errors.Is(errs, weir.ErrClosed) {
		s.log.Warn("shutdown: shared store unreachable, leases not returned", "err", errs)
		return nil
	}
	return errs
}

package tier

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/store/internal/transport"
)

// keep is the background work: it renews the node's registration, tries a shared
// store that is away, pays debts, and forgets what is no longer used.
func (s *Store) keep() {
	tick := time.NewTicker(s.probing)
	defer tick.Stop()
	renewed, swept, told := s.link.now(), s.link.now(), int64(0)
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		now := s.link.now()
		s.plans.second.Store(now / 1e6)
		if s.link.IsOpen() {
			continue
		}
		if now-renewed >= renewEvery(s.nodeTTL).Microseconds() {
			err := s.renew(s.askLater)
			if err != nil && !partial(err) {
				continue
			}
			if err == nil {
				renewed = now
			}
		}
		if slept := s.link.slept.Load(); slept > told {
			s.log.Warn("process paused or clock set forward; leases age by that time",
				"for", time.Duration(slept-told)*time.Microsecond)
			told = slept
		}
		if s.debts.len() > 0 {
			// Those of a part that is away wait for it.
			if err := s.payDebts(); err != nil && !partial(err) {
				if more, ok := s.quietDebts.may(now); ok {
					s.log.Warn("charging of debts failed; will retry", "err", err, "suppressed", more)
				}
			}
		}
		s.leases.returns.resume()
		if now-swept > planLife*1e6/2 {
			swept = now
			s.plans.sweep()
		}
	}
}

// sweepEvery is how often idle leases are looked for, and what is to be told.
const sweepEvery = 25 * time.Millisecond

// sweep gives back what lies idle.
func (s *Store) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.leases.returns.wake:
		case <-tick.C:
			s.link.watchTime()
			s.leases.sweep(s.link.now())
			s.sweepSlots()
			s.tellAll(s.link.now())
		}
		s.giveBackAll()
	}
}

// logEvery is the least time between two lines of the log about the same.
const logEvery = 10 * time.Second

// quiet keeps a store that comes and goes from filling the log.
type quiet struct {
	said   atomic.Int64 // microseconds
	unsaid atomic.Int64
}

// may reports whether a line may be written now, and how many were not since the
// last.
func (q *quiet) may(now int64) (int64, bool) {
	said := q.said.Load()
	if said != 0 && now-said < logEvery.Microseconds() || !q.said.CompareAndSwap(said, max(now, 1)) {
		q.unsaid.Add(1)
		return 0, false
	}
	return q.unsaid.Swap(0), true
}

// wentAway tells that decisions are made on the node from now on, once in an outage
// and not for each of a store that comes and goes.
func (s *Store) wentAway(err error) {
	s.outage.since.Store(max(s.link.now(), 1))
	s.outage.degraded.Store(s.degraded.Load())
	if more, ok := s.quiet.may(s.link.now()); ok {
		s.outage.told.Store(true)
		s.log.Error("shared store unavailable; circuit breaker opened, decisions follow on_store_error",
			"err", err, "suppressed", more)
	}
}

// isBack tells that the shared store decides again, if it was told that it did not. The
// number of nodes may have changed meanwhile.
func (s *Store) isBack() {
	s.nodes.missed()
	if !s.outage.told.Swap(false) {
		return
	}
	lasted := time.Duration(s.link.now()-s.outage.since.Load()) * time.Microsecond
	s.log.Info("shared store recovered; circuit breaker closed",
		"after", lasted.Round(time.Millisecond).String(), "degraded_decisions", s.degraded.Load()-s.outage.degraded.Load())
}

// An outage is what is told of the time in which the shared store does not answer:
// since when, and how many decisions had been made without it before.
type outage struct {
	since    atomic.Int64
	degraded atomic.Uint64
	told     atomic.Bool
}

// confirm asks the shared store whether it answers, after a call that decides nothing
// has failed by err, and opens the breaker if it does not: nobody need wait for it to
// find out, and what is down is told before what follows from it.
func (s *Store) confirm(err error) {
	if s.link.IsOpen() || partial(err) || wrong(err) || errors.Is(err, documents.ErrDocument) || errors.Is(err, documents.ErrChanged) {
		return
	}
	var r *transport.Result
	err = s.renew(func(ops []weir.Op) error {
		_, err := s.link.take(context.Background(), ops)
		return err
	})
	if errors.As(err, &r) && !r.Excused && (r.Outcome == transport.Failed || r.Outcome == transport.Late) {
		s.link.Trip(0, err)
	}
}

// askLater asks the shared store what no decision waits for.
func (s *Store) askLater(ops []weir.Op) error {
	_, err := s.link.takeLater(ops)
	return err
}

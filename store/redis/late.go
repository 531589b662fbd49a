package redis

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

// NotReached returns why a store that was opened with [Options].Late has reached no server yet,
// nil once it has: servers are checked then as Open checks them.
func (s *Store) NotReached() (why error) {
	for _, p := range s.nodes.pipelines() {
		if p.hasClient() {
			return nil
		}
		why = s.explainOpen(p.missing)
	}
	return why
}

const (
	// openWithin is how long opening may take, however long the caller would wait.
	openWithin = 10 * time.Second
	// reachEvery is how often servers are tried that were never reached.
	reachEvery = time.Second
)

// reachLater tries to reach the servers until it has, which it could not because of why, and
// logs why not where that changes.
func (s *Store) reachLater(ctx context.Context, why error) {
	for began := time.Now(); backoff.Sleep(ctx, reachEvery); {
		within, cancel := context.WithTimeout(ctx, openWithin)
		err := s.nodes.reachServers(within)
		cancel()
		if err == nil {
			s.opt.Logger.Info("store reached", "store", s.name, "after", time.Since(began).Round(time.Millisecond))
			return
		}
		if err = s.explainOpen(err); ctx.Err() == nil && err.Error() != why.Error() {
			s.opt.Logger.Warn("store unavailable; will retry", "store", s.name, "err", err)
			why = err
		}
	}
}

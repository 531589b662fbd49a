package analytics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/count"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
)

// state is what a service did since it started.
type state struct {
	started                                   time.Time
	batches, transactions, events, duplicates atomic.Int64
	late, retries, waiting                    atomic.Int64
	rejected                                  atomic.Int64

	mu      sync.Mutex
	failing string
	// since is when failing began: what came after it is not counted.
	since time.Time
	lag   time.Duration
	// longest is the longest lag in each of the last minutes.
	longest [60]struct {
		minute int64
		lag    time.Duration
	}
}

// noteFailure notes that a transaction failed.
func (s *state) noteFailure(err error, now time.Time) {
	s.retries.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing == "" {
		s.since = now
	}
	s.failing = err.Error()
}

// noteSuccess notes that a transaction succeeded.
func (s *state) noteSuccess(now time.Time, lag time.Duration, t count.Counted) {
	s.transactions.Add(1)
	s.events.Add(t.Events)
	s.duplicates.Add(t.Duplicates)
	s.late.Add(t.Late)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing, s.lag = "", lag
	minute := now.Unix() / 60
	at := &s.longest[minute%60]
	if at.minute != minute {
		at.minute, at.lag = minute, 0
	}
	at.lag = max(at.lag, lag)
}

// Uncounted returns from when on events wait, as the database does not take them, nil while
// it does. It asks the database nothing.
func (s *Service) Uncounted() *query.Uncounted {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if s.state.failing == "" {
		return nil
	}
	return &query.Uncounted{Since: s.state.since.UTC(), Reason: s.state.failing}
}

// Info returns what the service did since it was made. It asks the database
// nothing.
func (s *Service) Info() report.ServiceInfo { return s.state.readInfo(s.opt.Now()) }

// readInfo returns all of it.
func (s *state) readInfo(now time.Time) report.ServiceInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := report.ServiceInfo{
		Started: s.started.UTC(), Batches: s.batches.Load(), Transactions: s.transactions.Load(), Events: s.events.Load(),
		Duplicates: s.duplicates.Load(), Late: s.late.Load(), Rejected: s.rejected.Load(), Retries: s.retries.Load(), Failing: s.failing,
		Waiting: s.waiting.Load(), LagMS: s.lag.Milliseconds(),
	}
	for _, l := range s.longest {
		if l.minute > now.Unix()/60-60 {
			info.LongestLagMS = max(info.LongestLagMS, l.lag.Milliseconds())
		}
	}
	return info
}

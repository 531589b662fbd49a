package analytics

import (
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/count"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
)

// state is what a service did since it started. Safe for concurrent use.
type state struct {
	mu   sync.Mutex
	info report.ServiceInfo
	// since is when failing began: what came after it is not counted.
	since time.Time
	// longest is the longest lag in each of the last minutes, in milliseconds.
	longest [60]struct{ minute, lag int64 }
}

// changeInfo changes what is told.
func (s *state) changeInfo(f func(*report.ServiceInfo)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.info)
}

// noteFailure notes that a transaction failed.
func (s *state) noteFailure(err error, now time.Time) {
	s.changeInfo(func(info *report.ServiceInfo) {
		if info.Failing == "" {
			s.since = now
		}
		info.Retries, info.Failing = info.Retries+1, err.Error()
	})
}

// noteSuccess notes that a transaction succeeded.
func (s *state) noteSuccess(now time.Time, lag time.Duration, t count.Counted) {
	s.changeInfo(func(info *report.ServiceInfo) {
		info.Transactions, info.Events, info.Duplicates, info.Late = info.Transactions+1, info.Events+t.Events, info.Duplicates+t.Duplicates, info.Late+t.Late
		info.Failing, info.LagMS = "", lag.Milliseconds()
		minute := now.Unix() / 60
		at := &s.longest[minute%60]
		if at.minute != minute {
			at.minute, at.lag = minute, 0
		}
		at.lag = max(at.lag, info.LagMS)
	})
}

// Uncounted returns from when on events wait, as the database does not take them, nil while
// it does. It asks the database nothing.
func (s *Service) Uncounted() *query.Uncounted {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if s.state.info.Failing == "" {
		return nil
	}
	return &query.Uncounted{Since: s.state.since.UTC(), Reason: s.state.info.Failing}
}

// Info returns what the service did since it was made. It asks the database
// nothing.
func (s *Service) Info() report.ServiceInfo { return s.state.readInfo(s.opt.Now()) }

// readInfo returns all of it.
func (s *state) readInfo(now time.Time) report.ServiceInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	for _, l := range s.longest {
		if l.minute > now.Unix()/60-60 {
			info.LongestLagMS = max(info.LongestLagMS, l.lag)
		}
	}
	return info
}

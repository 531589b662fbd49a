package analyticstest

import (
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Event is an event of an instant.
func Event(at time.Time) event.Event {
	return event.Event{Source: "n/1", Sequence: 1, Time: at, Rollup: &event.Rollup{From: at, To: at, LimitRef: randomRef(), Counts: map[string]uint64{"allowed": 1}}}
}

// System asks a service how it is.
func System(t *testing.T, s *analytics.Service) report.System {
	t.Helper()
	var sys report.System
	(&asked{t, s.Handler(), nil}).get("system", &sys)
	return sys
}

// Get asks a service over HTTP.
func Get(t *testing.T, s *analytics.Service, path string, into any) {
	t.Helper()
	(&asked{t, s.Handler(), nil}).get(path, into)
}

// Count has a service count events.
func Count(t *testing.T, s *analytics.Service, events ...event.Event) error {
	t.Helper()
	local := event.NewLocal(1)
	return errors.Join(local.Publish(t.Context(), events), local.Close(), s.Run(t.Context(), local))
}

package listen_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/testing/bubble"
)

// The deadline in force is never later than what was asked for last nor than a stall after
// the last move by more than a quarter, and one that says nothing new is not set: to set one
// is a twentieth of what a request costs.
func TestPaceSetsDeadlines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const stall = 8 * time.Second
		var set []time.Duration
		begin := time.Now()
		p := &listen.Pace{Stall: stall, Set: func(until time.Time) error {
			at := time.Duration(-1)
			if !until.IsZero() {
				at = until.Sub(begin)
			}
			set = append(set, at)
			return nil
		}}
		limit := func(after time.Duration) {
			if err := p.SetLastDeadline(time.Now().Add(after)); err != nil {
				t.Error(err)
			}
		}
		f := func(what string, want ...time.Duration) {
			t.Helper()
			if !slices.Equal(set, want) {
				t.Errorf("%s: set %v, want %v", what, set, want)
			}
			set = nil
		}
		p.ExtendDeadline()
		f("a first move", stall)
		limit(time.Hour)
		p.ExtendDeadline()
		f("a request on a connection that has just moved")
		time.Sleep(time.Second)
		limit(time.Hour)
		p.ExtendDeadline()
		f("one soon after")
		time.Sleep(time.Second)
		limit(time.Hour)
		p.ExtendDeadline()
		f("one a quarter of a stall after", 10*time.Second)
		time.Sleep(time.Minute)
		limit(time.Hour)
		p.ExtendDeadline()
		f("one long after", 70*time.Second)
		limit(3 * time.Second)
		p.ExtendDeadline()
		f("a limit before the stall", 65*time.Second)
		limit(time.Hour)
		p.ExtendDeadline()
		f("a later one", 70*time.Second)
		time.Sleep(7500 * time.Millisecond)
		limit(time.Second)
		p.ExtendDeadline()
		f("one soon, shortly before the stall would end", 70500*time.Millisecond)
		limit(-time.Second)
		f("one that has passed", 68500*time.Millisecond)
		if err := p.SetLastDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		p.ExtendDeadline()
		f("none", 77500*time.Millisecond)
		p.StopWatching()
		limit(time.Hour)
		p.ExtendDeadline()
		f("at rest", 69500*time.Millisecond+time.Hour)
	})
}

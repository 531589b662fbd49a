package pauses_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/pauses"
)

// What is set stays, negative too.
func TestFill(t *testing.T) {
	f := func(wait time.Duration, waiting int, pause, wantWait time.Duration, wantWaiting int, wantPause time.Duration) {
		t.Helper()
		if pauses.Fill(&wait, &waiting, &pause); wait != wantWait || waiting != wantWaiting || pause != wantPause {
			t.Errorf("got %s, %d, %s, want %s, %d, %s", wait, waiting, pause, wantWait, wantWaiting, wantPause)
		}
	}
	f(0, 0, 0, 10*time.Second, 1024, time.Hour)
	f(-1, 5, -1, -1, 5, -1)
	f(time.Minute, 0, time.Second, time.Minute, 1024, time.Second)
}

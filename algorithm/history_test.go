package algorithm_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/history"
)

// TestHistories replays testdata/histories through Step. Run with -update after
// a change, and read what has changed.
func TestHistories(t *testing.T) {
	history.Run(t, func(*testing.T) history.Decide { return history.Cells() })
}

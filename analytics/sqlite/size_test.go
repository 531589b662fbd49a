package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/analytics/sqlite"
	"github.com/weirlimit/weir/internal/analyticstest"
)

// A bound in bytes deletes what is over it, and no more.
func TestFamilyRetention(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		analyticstest.Retention(t, opened(t, filepath.Join(t.TempDir(), "retention.db")))
	})
	t.Run("memory", func(t *testing.T) {
		if analyticstest.Long() {
			t.Skip("the documented size is that of a file")
		}
		analyticstest.Retention(t, opened(t, sqlite.Memory))
	})
}

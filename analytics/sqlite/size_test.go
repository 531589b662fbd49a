package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/analytics"
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

// No question reads all rows of an hour for each client of a page.
func TestFamilyPlans(t *testing.T) {
	db := opened(t, filepath.Join(t.TempDir(), "plans.db"))
	analyticstest.Plans(t, db, func(query string, args []any) (lines []string) {
		if err := db.View(t.Context(), func(tx analytics.Tx) error {
			return tx.Each("EXPLAIN QUERY PLAN "+query, [][]any{args}, func(_ int, r analytics.Row) error {
				lines = append(lines, r.Text(3))
				return nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		return lines
	}, func(line string) bool {
		return strings.Contains(line, "SCAN") || strings.Contains(line, "PRIMARY KEY") || !strings.Contains(line, "client=? AND limit_id=?")
	})
}

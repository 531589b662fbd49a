package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
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

// So it is where rows of other kinds take the room.
func TestFamilyRetentionOfKinds(t *testing.T) {
	analyticstest.RetentionOfKinds(t, func(name string) rows.Database {
		return opened(t, filepath.Join(t.TempDir(), name+".db"))
	})
}

// No question reads all rows of an hour for each client of a page.
func TestFamilyPlans(t *testing.T) {
	db := opened(t, filepath.Join(t.TempDir(), "plans.db"))
	analyticstest.Plans(t, db, func(query string, args []any) (lines []string) {
		if err := db.View(t.Context(), func(tx rows.Tx) error {
			return tx.Each("EXPLAIN QUERY PLAN "+query, [][]any{args}, func(_ int, r rows.Row) error {
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

// Each question of the dashboard is answered in time at the documented size.
func TestFamilyAnswersInTime(t *testing.T) {
	analyticstest.Times(t, opened(t, filepath.Join(t.TempDir(), "times.db")), nil)
}

// They are answered while events are counted, too.
func TestFamilyAnswersWhileCounting(t *testing.T) {
	analyticstest.TimesWhileCounting(t, opened(t, filepath.Join(t.TempDir(), "counting.db")))
}

// A database of the version before gives the same answers.
func TestFamilyUpgrades(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	analyticstest.Upgrades(t, func() rows.Database { return opened(t, path) })
}

// One event that the database refuses is set aside, and the others are counted.
func TestFamilyRefusedEvents(t *testing.T) {
	analyticstest.Refused(t, opened(t, filepath.Join(t.TempDir(), "refused.db")))
}

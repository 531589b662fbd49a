package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/analytics"
	"github.com/weirlimit/weir/analytics/sqlite"
	"github.com/weirlimit/weir/internal/analyticstest"
)

func TestMemory(t *testing.T) {
	analyticstest.Run(t, func(t *testing.T) func() analytics.Database {
		db, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return func() analytics.Database { return db }
	})
}

func TestFile(t *testing.T) {
	analyticstest.Run(t, func(t *testing.T) func() analytics.Database {
		path := filepath.Join(t.TempDir(), "a b?c.db")
		return func() analytics.Database {
			db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			return db
		}
	})
}

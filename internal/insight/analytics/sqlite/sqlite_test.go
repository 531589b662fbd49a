package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMain(m *testing.M) {
	analyticstest.Main(m, func(ctx context.Context, path string) (rows.Database, error) {
		return sqlite.Open(ctx, path)
	})
}

func TestMemory(t *testing.T) {
	analyticstest.Run(t, func(t *testing.T) func() rows.Database {
		db, err := sqlite.Open(t.Context(), sqlite.Memory)
		if err != nil {
			t.Fatal(err)
		}
		return func() rows.Database { return db }
	})
}

func TestFile(t *testing.T) {
	analyticstest.Run(t, func(t *testing.T) func() rows.Database {
		path := filepath.Join(t.TempDir(), "a b?c.db")
		return func() rows.Database {
			db, err := sqlite.Open(t.Context(), path)
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

// Services that open one new file at the same time all get it: changing the journal
// of a file is where SQLite itself does not wait for others.
func TestOpenAtOnce(t *testing.T) {
	for range 25 {
		path := filepath.Join(t.TempDir(), "new.db")
		var life sync.WaitGroup
		for range 8 {
			life.Go(func() {
				db, err := sqlite.Open(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		life.Wait()
	}
}

func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "killed.db")
	analyticstest.Kill(t, path, func() rows.Database { return open(t, path) })
}

func open(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
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

// While another program holds the file, events stay with the queue and questions
// are answered.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locked.db")
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := analytics.New(db, analytics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := zombie.OpenConn(path, zombie.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := sqlitex.ExecuteTransient(other, "BEGIN EXCLUSIVE", nil); err != nil {
		t.Fatal(err)
	}
	local := event.NewLocal(1)
	if err := local.Publish(t.Context(), []event.Event{analyticstest.Event(time.Now())}); err != nil {
		t.Fatal(err)
	}
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context(), local) }()
	servertest.Await(t, "a transaction that had to be tried again", func() bool { return s.Info().Retries > 1 })
	if info := s.Info(); info.Events != 0 || info.Waiting != 1 || !strings.Contains(info.Failing, "locked") {
		t.Errorf("while the file is locked: %+v", info)
	}
	if err := sqlitex.ExecuteTransient(other, "ROLLBACK", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if info := s.Info(); info.Events != 1 || info.Waiting != 0 || info.Failing != "" {
		t.Errorf("when it is free again: %+v", info)
	}
}

// A question ends with whoever asked, and a database with those that are under way.
func TestInterrupted(t *testing.T) {
	defer servertest.NoLeaks(t)
	db := opened(t, sqlite.Memory)
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- db.View(ctx, func(tx rows.Tx) error {
			close(begun)
			return tx.Each(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n`, [][]any{nil}, nil)
		})
	}()
	<-begun
	cancel()
	if err := <-ended; err == nil {
		t.Error("a question without an end had one")
	}
	if err := db.View(t.Context(), func(tx rows.Tx) error { return nil }); err != nil {
		t.Errorf("the next question: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), nil); !errors.Is(err, sqlite.ErrClosed) {
		t.Errorf("a database that is closed: %v", err)
	}
}

func opened(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", filepath.Join(dir, "none", "x.db"), text, dir} {
		if db, err := sqlite.Open(t.Context(), path); err == nil {
			db.Close()
			t.Errorf("%q opened", path)
		} else if !strings.HasPrefix(err.Error(), "sqlite: ") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A bound in bytes deletes what is over it, and no more: files that do not shrink are
// not rows.
func TestFamilyRetention(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.Retention(t, open(t, inSchema(t, server.URL, "retention")+"&statement_timeout=300000"))
}

// So it is where rows of other kinds take the room.
func TestFamilyRetentionOfKinds(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.RetentionOfKinds(t, func(name string) rows.Database { return open(t, inSchema(t, server.URL, name)) })
}

// A vacuum, whenever it comes, changes nothing of what the rows take.
func TestFamilyRetentionVacuum(t *testing.T) {
	server := servertest.Postgres(t)
	url := inSchema(t, server.URL, "vacuum")
	db := open(t, url)
	analyticstest.Fill(t, db, time.Unix(1_800_000_000, 0), analyticstest.Size{Limits: 2, Clients: 40, Hours: 30, Minutes: 30})
	used := func() int64 { t.Helper(); return analyticstest.Used(t, db) }
	conn := connect(t, url)
	whole := used()
	if _, err := conn.Exec(t.Context(), "DELETE FROM clients WHERE grain = 1"); err != nil {
		t.Fatal(err)
	}
	left := used()
	if left >= whole {
		t.Fatalf("rows take %d bytes, %d after some were deleted", whole, left)
	}
	for _, vacuum := range []string{"VACUUM", "VACUUM FULL", "REINDEX TABLE clients"} {
		if _, err := conn.Exec(t.Context(), vacuum); err != nil {
			t.Fatal(err)
		}
		if n := used(); n != left {
			t.Errorf("rows take %d bytes before %s, %d after it", left, vacuum, n)
		}
	}
	// While a transaction that began before is open, a vacuum keeps the rows that it sees.
	servertest.Await(t, fmt.Sprintf("rows of %d bytes to be in files without gaps", left), func() bool {
		var files int64
		if _, err := conn.Exec(t.Context(), "VACUUM FULL clients"); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "SELECT pg_total_relation_size('clients')").Scan(&files); err != nil {
			t.Fatal(err)
		}
		ratio := float64(left) / float64(files)
		return ratio >= 0.8 && ratio <= 1.25
	})
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// Each question of the dashboard is answered in time at the documented size.
func TestFamilyAnswersInTime(t *testing.T) {
	server := servertest.Postgres(t)
	url := inSchema(t, server.URL, "times")
	analyticstest.Times(t, open(t, url+"&statement_timeout=300000"), func() {
		if _, err := connect(t, url).Exec(t.Context(), "ANALYZE"); err != nil {
			t.Fatal(err)
		}
	})
}

// They are answered while events are counted, too.
func TestFamilyAnswersWhileCounting(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.TimesWhileCounting(t, open(t, inSchema(t, server.URL, "counting")+"&statement_timeout=300000"))
}

// A database of the version before gives the same answers.
func TestFamilyUpgrades(t *testing.T) {
	server := servertest.Postgres(t)
	url := inSchema(t, server.URL, "old")
	analyticstest.Upgrades(t, func() rows.Database { return open(t, url) })
}

// One event that the database refuses is set aside, and the others are counted.
func TestFamilyRefusedEvents(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.Refused(t, open(t, inSchema(t, server.URL, "refused")))
}

// A database that is away is told of once, whatever is asked of it meanwhile, and once when
// it is back.
func TestFamilyDatabaseOutage(t *testing.T) {
	server := servertest.Postgres(t)
	db := open(t, inSchema(t, server.URL, "outage"))
	var log bytes.Buffer
	var mu sync.Mutex
	s, err := analytics.New(db, analytics.Options{Log: slog.New(slog.NewTextHandler(writer(func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		log.Write(p)
	}), nil))})
	if err != nil {
		t.Fatal(err)
	}
	local := event.NewLocal(10)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context(), local) }()
	server.Stop(true)
	e := analyticstest.Event(time.Now())
	if err := local.Publish(t.Context(), []event.Event{e}); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the database to be missed", func() bool { return s.Info().Retries > 0 })
	servertest.Await(t, "several attempts", func() bool {
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/v1/analytics/overview", nil))
		if rec.Code != 503 {
			t.Errorf("a question is answered: %d %s", rec.Code, rec.Body)
		}
		return s.Info().Retries > 6 || t.Failed()
	})
	server.Restart()
	servertest.Await(t, "the event to be counted", func() bool { return s.Info().Events == 1 })
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	var lines []string
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "retention cleanup failed") {
			lines = append(lines, line)
		}
	}
	if n := strings.Count(log.String(), "\n") - len(lines); n > 1 {
		t.Errorf("it is told %d times that rows are still there", n)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "level=ERROR msg=\"database unavailable; events wait in the queue") || !strings.Contains(lines[1], "level=INFO msg=\"database recovered") {
		t.Errorf("%q", lines)
	}
}

// writer is a log that a test reads.
type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

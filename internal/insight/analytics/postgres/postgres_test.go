package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/postgres"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMain(m *testing.M) {
	analyticstest.Main(m, func(ctx context.Context, url string) (rows.Database, error) {
		return postgres.Open(ctx, url)
	})
}

func TestPostgres(t *testing.T) {
	server := servertest.Postgres(t)
	schemas := 0
	analyticstest.Run(t, func(t *testing.T) func() rows.Database {
		schemas++
		url := inSchema(t, server.URL, fmt.Sprintf("s%d", schemas))
		return func() rows.Database { return open(t, url) }
	})
	t.Run("killed", func(t *testing.T) {
		url := inSchema(t, server.URL, "killed")
		analyticstest.Kill(t, url, func() rows.Database { return open(t, url) })
	})
	t.Run("a queue", func(t *testing.T) { sharedQueue(t, server) })
	// Last: it stops the server.
	t.Run("stopped", func(t *testing.T) { stopped(t, server) })
}

// stopped: while the server is away events stay with the queue, and when it is
// back they are counted; also what it had before.
func stopped(t *testing.T, server *servertest.PostgresServer) {
	db := open(t, inSchema(t, server.URL, "stopped"))
	s, err := analytics.New(db, analytics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	local := event.NewLocal(10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, local) }()
	publish := func(sequence uint64) {
		t.Helper()
		e := analyticstest.Event(time.Now())
		e.Sequence = sequence
		if err := local.Publish(t.Context(), []event.Event{e, e}); err != nil {
			t.Fatal(err)
		}
	}
	counted := func(n int64) {
		t.Helper()
		servertest.Await(t, fmt.Sprint(n, " events"), func() bool { return s.Info().Events == n })
	}
	publish(1)
	counted(1)
	for i, kill := range []bool{false, true} {
		server.Stop(kill)
		publish(uint64(i + 2))
		servertest.Await(t, "a transaction that had to be tried again", func() bool { return s.Info().Failing != "" })
		server.Restart()
		counted(int64(i + 2))
		if s.Info().Failing != "" {
			t.Error("it is still failing")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	sys := analyticstest.System(t, s)
	if len(sys.Sources) != 1 || sys.Sources[0].Events != 3 || sys.Service.Duplicates != 3 {
		t.Errorf("sources %+v, %d duplicates", sys.Sources, sys.Service.Duplicates)
	}
}

func TestOpenFails(t *testing.T) {
	for _, url := range []string{"", "postgres://127.0.0.1:1/x?sslmode=disable", "mysql://x", "postgres://a:b@[/x", "postgres://127.0.0.1/x?connect_timeout=never"} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if db, err := postgres.Open(ctx, url); err == nil {
			db.Close()
			t.Errorf("%q opened", url)
		} else if !strings.HasPrefix(err.Error(), "postgres: ") {
			t.Errorf("%q: %v", url, err)
		}
		cancel()
	}
}

// inSchema makes a schema and returns a URL that has it first.
func inSchema(t *testing.T, url, name string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return url + "&search_path=" + strings.ToLower(name)
}

func open(t *testing.T, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url)
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

// What the rows of each table take is counted: each that the migrations make.
func TestUsedCountsEveryTable(t *testing.T) {
	url := inSchema(t, servertest.Postgres(t).URL, "tables")
	db := open(t, url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	rows, err := conn.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'weir_schema'")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 10 {
		t.Fatalf("%v %v", tables, err)
	}
	used := func() int64 { t.Helper(); return analyticstest.Used(t, db) }
	for _, table := range tables {
		before := used()
		// A row of whatever the columns can hold: zeros, empty texts, no bytes.
		var columns, values string
		rows, err := conn.Query(t.Context(), "SELECT attname, CAST(atttypid::regtype AS TEXT) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = ''", table)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var name, kind string
			if err := rows.Scan(&name, &kind); err != nil {
				t.Fatal(err)
			}
			value, known := map[string]string{"bigint": "0", "text": "''", "bytea": "''"}[kind]
			if !known {
				t.Fatalf("%s.%s is a %s", table, name, kind)
			}
			columns, values = columns+", "+name, values+", "+value
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "INSERT INTO "+table+" ("+columns[2:]+") VALUES ("+values[2:]+")"); err != nil {
			t.Fatal(err)
		}
		if after := used(); after <= before {
			t.Errorf("a row of %s takes nothing: %d bytes before it, %d with it", table, before, after)
		}
	}
}

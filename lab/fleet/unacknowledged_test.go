package fleet

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// database is one that `weir analytics` writes to.
type database struct {
	url string
	// lock lets nobody write until the function that it returns is called.
	lock func(t *testing.T) (unlock func())
}

func sqliteFile(t *testing.T) *database {
	path := filepath.Join(t.TempDir(), "weir.db")
	return &database{"sqlite:" + path, func(t *testing.T) func() {
		c, err := zombie.OpenConn(path, zombie.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		do := func(query string) {
			t.Helper()
			if err := sqlitex.ExecuteTransient(c, query, nil); err != nil {
				t.Fatal(err)
			}
		}
		do("BEGIN IMMEDIATE")
		return func() { do("ROLLBACK") }
	}}
}

// postgresSchema is a database of its own within a server.
func postgresSchema(t *testing.T, server *servertest.PostgresServer, name string) *database {
	c, err := pgx.Connect(t.Context(), server.URL+"&search_path="+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context()) })
	do := func(t *testing.T, query string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	do(t, "CREATE SCHEMA "+name)
	return &database{server.URL + "&search_path=" + name, func(t *testing.T) func() {
		do(t, "BEGIN")
		do(t, "LOCK TABLE sources IN EXCLUSIVE MODE")
		return func() { do(t, "ROLLBACK") }
	}}
}

// unacknowledged kills analytics when a batch is in the database and the broker does
// not know it, and just before: in the end everything has been counted once.
func unacknowledged(t *testing.T, b *broker) {
	server := servertest.Postgres(t)
	for _, committed := range []bool{true, false} {
		for _, kind := range []string{"SQLite", "PostgreSQL"} {
			t.Run(fmt.Sprintf("%s committed %t", kind, committed), func(t *testing.T) {
				t.Parallel()
				queue := fmt.Sprintf("%s_%t", strings.ToLower(kind), committed)
				db := sqliteFile(t)
				if kind == "PostgreSQL" {
					db = postgresSchema(t, server, queue)
				}
				killedUnacknowledged(t, b, queue, db, committed)
			})
		}
	}
}

// killedUnacknowledged kills analytics that hold a batch: when it has been committed
// and its acknowledgement is on the way, or before.
func killedUnacknowledged(t *testing.T, b *broker, queue string, db *database, committed bool) {
	const clients, limit = 100, 3
	url := b.url(queue)
	proxy := servertest.NewProxy(t, b.Addr)
	first := keep(t, strings.Replace(url, b.Addr, proxy.Addr, 1), db.url)
	unlock := db.lock(t)
	n := serve(t, "memory:", rules(t, fmt.Sprintf("{key: client, limit: %d/day, algorithm: fixed_window}", limit)),
		"--events", url, "--events-sample", "1", "--events-unhashed")
	var sent [clients]atomic.Int64
	var all asked
	for i := range clients {
		all.askFor(t, n, "client", fmt.Sprint(i), 5)
		sent[i].Add(5)
	}
	n.end(t)
	servertest.Await(t, "a batch to be taken", func() bool { return first.metric(t, "weir_analytics_pending_events") > 0 })

	// From now on the broker hears nothing.
	proxy.Stall(servertest.Requests, true)
	var counted float64
	if committed {
		unlock()
		servertest.Await(t, "a batch to be counted", func() bool {
			counted = first.events(t, "counted")
			return counted > 0
		})
	}
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Reset() // what was on the way is lost
	proxy.Stall(servertest.Requests, false)
	if !committed {
		unlock()
	}

	last := keep(t, url, db.url)
	servertest.Await(t, "what was counted to come again", func() bool { return last.events(t, "duplicate") >= counted })
	countedOnce(t, last, sent[:], &all, limit)
	t.Logf("%g events were counted and not acknowledged, %g came twice, %g were counted after the restart",
		counted, last.events(t, "duplicate"), last.events(t, "counted"))
}

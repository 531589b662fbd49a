package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirlimit/weir/analytics"
	"github.com/weirlimit/weir/internal/analyticstest"
	"github.com/weirlimit/weir/internal/servertest"
)

// A bound in bytes deletes what is over it, and no more: files that do not shrink are
// not rows.
func TestFamilyRetention(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.Retention(t, open(t, inSchema(t, server.URL, "retention")+"&statement_timeout=300000"))
}

// A vacuum, whenever it comes, changes nothing of what the rows take.
func TestFamilyRetentionVacuum(t *testing.T) {
	server := servertest.Postgres(t)
	url := inSchema(t, server.URL, "vacuum")
	db := open(t, url)
	analyticstest.Fill(t, db, time.Unix(1_800_000_000, 0), analyticstest.Size{Limits: 2, Clients: 40, Hours: 30, Minutes: 30})
	used := func() int64 {
		t.Helper()
		n, err := db.Used(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
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
	var files int64
	if err := conn.QueryRow(t.Context(), "SELECT pg_total_relation_size('clients')").Scan(&files); err != nil {
		t.Fatal(err)
	}
	if ratio := float64(left) / float64(files); ratio < 0.8 || ratio > 1.25 {
		t.Errorf("rows take %d bytes of files of %d without gaps", left, files)
	}
}

// Each question of the dashboard is answered in a second at the documented size.
func TestFamilyAnswersInTime(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.Times(t, open(t, inSchema(t, server.URL, "times")+"&statement_timeout=300000"))
}

// Answers from blocks of clients are those from the rows.
func TestFamilyBlocks(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.Blocks(t, func(seed uint64) analytics.Database {
		return open(t, inSchema(t, server.URL, fmt.Sprint("blocks", seed)))
	})
}

// One event that the database refuses is set aside, and the others are counted.
func TestFamilyRefusedEvents(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.Refused(t, open(t, inSchema(t, server.URL, "refused")))
}

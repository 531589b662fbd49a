package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirlimit/weir/analytics"
	"github.com/weirlimit/weir/analytics/postgres"
	"github.com/weirlimit/weir/internal/analyticstest"
	"github.com/weirlimit/weir/internal/servertest"
)

func TestPostgres(t *testing.T) {
	server := servertest.Postgres(t)
	schemas := 0
	analyticstest.Run(t, func(t *testing.T) func() analytics.Database {
		schemas++
		url := inSchema(t, server.URL, fmt.Sprintf("s%d", schemas))
		return func() analytics.Database { return open(t, url) }
	})
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
	db, err := postgres.Open(t.Context(), url, postgres.Options{})
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

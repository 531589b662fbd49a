package postgres_test

import (
	"fmt"
	"testing"

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

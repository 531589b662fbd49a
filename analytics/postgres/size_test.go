package postgres_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/analyticstest"
	"github.com/weirlimit/weir/internal/servertest"
)

// A bound in bytes deletes what is over it, and no more: files that do not shrink are
// not rows.
func TestFamilyRetention(t *testing.T) {
	server := servertest.Postgres(t)
	analyticstest.Retention(t, open(t, inSchema(t, server.URL, "retention")))
}

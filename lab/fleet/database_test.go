package fleet

import (
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A node whose own analytics cannot write decides as one that has none, and when the
// database is back all is counted once.
func TestDatabaseFails(t *testing.T) {
	processes(t)
	t.Run("locked", func(t *testing.T) {
		t.Parallel()
		db := sqliteFile(t)
		var unlock func()
		databaseFails(t, db.url, func() { unlock = db.lock(t) }, func() { unlock() })
	})
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		server := servertest.Postgres(t)
		databaseFails(t, server.URL, func() { server.Stop(true) }, server.Restart)
	})
}

func databaseFails(t *testing.T, url string, begin, end func()) {
	const few, crowd = 200, 700 // together no more than an hour's list of clients has
	told := []string{"--analytics", url, "--events-sample", "1", "--events-unhashed"}
	nodes := besides(t, told...)
	n := nodes.told
	var calm, faulty came
	nodes.come(t, &calm, 0, few)
	servertest.Await(t, "the first to be counted", func() bool { return n.events(t, "counted") > 0 })

	begin()
	nodes.come(t, &faulty, few, few+crowd/4)
	servertest.Await(t, "the database to be missed", func() bool { return n.metric(t, "weir_analytics_database_up") == 0 })
	nodes.come(t, &faulty, few+crowd/4, few+crowd)
	calm.unharmed(t, "before", few)
	faulty.unharmed(t, "while it could not write", crowd)
	end()
	servertest.Await(t, "the database to be back", func() bool {
		return n.metric(t, "weir_analytics_database_up") == 1 && n.metric(t, "weir_analytics_pending_events") == 0
	})
	n.end(t)

	var sent [few + crowd]atomic.Int64
	for i := range sent {
		sent[i].Store(2)
	}
	countedOnce(t, serve(t, "memory:", nodes.file, told...), sent[:], calm.told.add(&faulty.told), 1)
}

package analytics

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

// maxTries is how often a transaction is tried again that others are in the way
// of, before a caller that cannot wait is told.
const maxTries = 20

// updateRows runs f in a transaction, again while others are in its way.
func updateRows(ctx context.Context, db Database, f func(*statements)) error {
	wait := backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for tries := 1; ; tries++ {
		err := db.Update(ctx, asTx(f))
		if err == nil || !Again(err) || tries == maxTries || !wait.Sleep(ctx) {
			return err
		}
	}
}

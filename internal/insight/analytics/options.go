package analytics

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Options configures a Service.
type Options struct {
	// Bounds say how long rows are kept and how many.
	rows.Bounds
	// Now tells the time. Zero means time.Now.
	Now func() time.Time
	// Log is told when the database does not take events, and when it does again.
	// Zero means nobody is told.
	Log *slog.Logger
}

// complete fills in what is zero: bounds by those of the database.
func (opt *Options) complete(zero rows.Bounds) error {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return opt.Bounds.CompleteWith(zero)
}

// maxWaiting is how many events may wait for a transaction.
const maxWaiting = 20_000

package eventual

import (
	"cmp"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/lot"
)

// Terms are the numbers by which one eventual limit is decided. They are immutable.
type Terms struct {
	limit *weir.Limit
	// slack is the limit by which the store lends what the limit may be overshot by.
	slack *weir.Limit
	most  *weir.Limit // see lot.RaisedByOvershoot
	// by is the limit that names the receipts of windows: of a sliding window one whose
	// units count from the end of their sub-window of batch microseconds, as the store
	// learns of them after they were admitted.
	by    *weir.Limit
	batch int64
	// refiller is set where units are bound to no window.
	refiller weir.Refiller
	// trickles: units flow back all the time.
	trickles bool
	// interval is how long a unit stays in the tally at most, idle how long an entry may
	// lie idle, in microseconds.
	interval, idle int64
}

// NewTerms returns the terms of a limit whose algorithm is a weir.Lender, or nil if the
// limit can be overshot by nothing: then the store decides. The error is one of
// weir.Limit.Compile.
func NewTerms(l *weir.Limit) (d *Terms, err error) {
	over := min(l.Overshoot(), l.Burst)
	if l.Algorithm != algorithm.FixedWindow {
		// Where one window of slack meets the next, both may be in use: what was admitted
		// by the old one counts on in the new.
		over /= 2
	}
	if over == 0 || l.Anchor == params.AnchorFirst {
		return nil, nil
	}
	d = &Terms{limit: l, by: l, most: lot.RaisedByOvershoot(l), interval: micros.Of(cmp.Or(l.Consistency.SyncInterval, 100*time.Millisecond))}
	d.idle = max(d.interval, time.Second.Microseconds())
	d.refiller, _ = l.Algorithm.(weir.Refiller)
	d.trickles = d.refiller != nil || l.Algorithm == algorithm.SlidingCounter
	if l.Algorithm == algorithm.SlidingWindow {
		if d.by, err = lot.Variant(l, func(v *weir.Limit) { v.Grain = 1 }); err != nil {
			return nil, err
		}
		d.batch = lot.DrawableUntil(l, lot.ReceiptAt(d.by, 0))
	}
	d.slack, err = lot.Variant(l, func(v *weir.Limit) {
		v.Scope += "\x1fslack"
		v.Algorithm, v.Count = algorithm.FixedWindow, over
		v.Params = params.Params{Anchor: l.Anchor, Phase: l.Phase, Calendar: l.Calendar, Location: l.Location}
		if refill := time.Duration(float64(l.Burst) / float64(l.Count) * float64(l.Period)); refill > l.Period {
			v.Period = min(refill.Truncate(time.Microsecond)+time.Microsecond, weir.MaxPeriod)
		}
	})
	return d, err
}

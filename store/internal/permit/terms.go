package permit

import (
	"cmp"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// leastIdle is the shortest time in microseconds after which idle permits go back.
const leastIdle = 10_000

// Terms are the numbers by which one concurrency limit is leased. They are immutable.
type Terms struct {
	limit *weir.Limit
	// by is the limit that lots are fetched by, on the counters of limit: a lot lives for
	// a quarter of the period longer than a holder, so that it can be handed out meanwhile.
	by *weir.Limit
	// parts is into how many fetches a node divides its share.
	parts int64
	// period is how long a holder has a permit, life how long the store counts a lot, and
	// renewal how much longer than a holder a lot lives before it is renewed; idle is
	// after how long permits that nobody takes go back. All are microseconds.
	period, life, renewal, idle int64
}

// NewTerms returns the terms of a concurrency limit, or nil if its permits would have to
// go back too soon, or live too long, to be leased. The error is one of
// weir.Limit.Compile.
func NewTerms(l *weir.Limit) (*Terms, error) {
	spare := l.Period / 4
	d := &Terms{
		limit: l, parts: cmp.Or(l.Consistency.Share, 4), idle: micros.Of(l.LeaseTTL()),
		period: micros.Of(l.Period), life: micros.Of(l.Period + spare), renewal: micros.Of(spare / 2),
	}
	if d.idle < leastIdle || l.Period+spare > weir.MaxPeriod {
		return nil, nil
	}
	var err error
	d.by, err = lot.Variant(l, func(v *weir.Limit) { v.Period += spare })
	return d, err
}

// refusal is how long a refusal is remembered that was answered at now: not for long, as a
// permit can become free at any time, but for whoever waited for it.
func (d *Terms) refusal(sent, now clock.Node) int64 { return d.idle/8 + int64(now-sent) }

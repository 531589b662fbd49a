package algorithm

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// LeakyQueue lets requests leave at an even pace, Count per Period, and tells
// each how long to wait ([weir.Decision.Delay]). One leaves at once, Burst units
// may wait behind it; with MaxDelay, as many as need not wait longer. What would
// find no place in the queue is refused. The caller must wait as told;
// [weir.Limiter.Wait] does.
//
// Guarantee: any interval of length d sees at most ceil(d*Count/Period)
// departures of cost 1, and Free more after a pause; it lets in at most as many
// as there are places, 1+Burst+Free by default, and floor(d*Count/Period). No
// wait exceeds MaxDelay (by default, the time that Burst units take to leave);
// order of departure is order of decision. A place is given back (Refund with
// the receipt of its decision) only while nobody has queued behind it: nobody is
// ever moved. Delays are told to the microsecond.
//
// State: 8 bytes when Count/Period in lowest terms (microseconds) has a numerator
// of at most 1996, 16 bytes otherwise. Clock steps and rule changes: as [TokenBucket], so
// that after a raise a request may leave before one that was told to wait earlier.
// RetryAfter is when there will be a place for the request.
//
// Choose it where callers should wait rather than fail, such as calls to
// somebody who limits them.
//
// Source: the leaky bucket as a queue; nginx limit_req is its best known form.
var LeakyQueue weir.Algorithm = leakyQueue{}

type leakyQueue struct{}

// What Prepare leaves in Limit.Const after the constants of the GCRA family, in
// which the full span is that of all who wait, the one who leaves at once, and
// the free ones before.
const (
	queueFree  = gcraCost + 1 + iota // span of the units that pass without delay, microseconds
	queueConst                       // how many there are
)

var _ [len(weir.Limit{}.Const) - queueConst]struct{} // there is room for them

// Name implements weir.Algorithm.
func (leakyQueue) Name() string { return "leaky_queue" }

// Traits implements weir.Algorithm.
func (leakyQueue) Traits() weir.Traits { return weir.Shapes }

// Prepare implements weir.Algorithm.
func (leakyQueue) Prepare(l *weir.Limit) error {
	if err := prepareGCRA(l); err != nil {
		return err
	}
	c := &l.Const
	if l.MaxDelay > 0 {
		c[gcraFull], c[gcraFullPart] = micros.Of(l.MaxDelay), 0
	}
	// Free is rounded down to whole microseconds: never more pass at once.
	free, _, ok := spanOfUnits(l, l.Free)
	if !ok || free >= maxSpan/8 || c[gcraFull] >= maxSpan/4 || c[gcraUnit] >= maxSpan/8 {
		return errTooLong(l)
	}
	full := tat{c[gcraFull] + free, c[gcraFullPart]}.addSpan(l, c[gcraUnit], c[gcraUnitPart])
	c[gcraFull], c[gcraFullPart] = full.us, full.part
	c[queueFree] = free
	c[gcraCost] = unitsThatFit(l, 0, tat{})
	fillBound(l)
	// All places at once, and then as they become free.
	l.Envelope = c[gcraCost] + l.Count
	return nil
}

// Step implements weir.Algorithm.
//
// The TAT is the instant at which the next request may leave: the queue's
// tail.
func (leakyQueue) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	if a.Verb == weir.Refund && a.ID != 0 {
		// Only the last in line can leave without moving another.
		if tail, _ := loadRow(cells, l, a.Now); a.ID != a.Now+micros.Of(resetAfter(a.Now, tail)) {
			a.Cost = 0
		}
	}
	return tokenBucket.Step(cells, l, a)
}

// Carry implements weir.Carrier.
func (leakyQueue) Carry(cells []int64, l *weir.Limit, old []int64, was *weir.Limit, now int64) bool {
	return tokenBucket.Carry(cells, l, old, was, now)
}

// Spent implements weir.Carrier.
func (leakyQueue) Spent(cells []int64, l *weir.Limit, now int64, f func(at, units int64)) bool {
	return tokenBucket.Spent(cells, l, now, f)
}

// Delay implements weir.Shaper.
func (leakyQueue) Delay(d weir.Decision, cost int64) time.Duration {
	l := d.Limit
	q, r, _ := spanOfUnits(l, cost)
	// ResetAfter is the tail after this request, rounded up: its own span and
	// the free span before it leave the wait.
	wait := micros.Of(d.ResetAfter) - q - l.Const[queueFree]
	if r > 0 {
		wait--
	}
	return micros.Duration(max(wait, 0))
}

// Script implements Scripted.
func (leakyQueue) Script() Script { return tokenBucket.Script() }

// Consts implements Scripted.
func (leakyQueue) Consts(dst []int64, l *weir.Limit, _ int64) ([]int64, int64) {
	return gcraConsts(dst, l, 1), forever
}

// Span implements Scripted.
func (leakyQueue) Span(dst []int64, l *weir.Limit, cost int64) []int64 {
	return tokenBucket.Span(dst, l, cost)
}

// Describe implements Scripted.
func (leakyQueue) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	return tokenBucket.Describe(l, a, allowed, state)
}

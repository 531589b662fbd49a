package algorithm

import (
	"time"

	"github.com/weirlimit/weir"
)

// LeakyQueue lets requests leave at an even pace, Count per Period, and tells
// each how long to wait ([weir.Decision.Delay]). A request is refused when its
// wait would exceed MaxDelay (by default, the time that Burst units take to
// leave). The caller must wait as told; [weir.Limiter.Wait] does.
//
// Guarantee: any interval of length d sees at most ceil(d*Count/Period)
// departures of cost 1, and Free more after a pause; no wait exceeds MaxDelay;
// order of departure is order of decision. A place is given back (Refund with
// the receipt of its decision) only while nobody has queued behind it: nobody
// is ever moved.
//
// State: as [TokenBucket]. RetryAfter is when the wait will have come down to
// MaxDelay.
//
// Source: the leaky bucket as a queue; nginx limit_req is its best known form.
var LeakyQueue weir.Algorithm = leakyQueue{}

type leakyQueue struct{}

// queueFree and queueFreePart are the span of Free units, which pass without
// delay. They follow the constants of the GCRA family, in which gcraFull is
// the longest wait and the free span together, without the cost of the request
// itself.
const queueFree = gcraMost + 1

// Name implements weir.Algorithm.
func (leakyQueue) Name() string { return "leaky_queue" }

// Prepare implements weir.Algorithm.
func (leakyQueue) Prepare(l *weir.Limit) error {
	if err := prepareGCRA(l, l.Burst); err != nil {
		return err
	}
	c := &l.Const
	if l.MaxDelay > 0 {
		c[gcraFull], c[gcraFullPart] = weir.Micros(l.MaxDelay), 0
	}
	free, _, ok := span(l, l.Free)
	if !ok || free >= maxSpan/4 || c[gcraFull] >= maxSpan/4 {
		return errTooLong(l)
	}
	// Rounded down to whole microseconds: never more than Free pass at once.
	c[queueFree] = free
	c[gcraFull] += free
	// The cost of the last in line lies beyond the longest wait.
	longest, _, ok := span(l, maxQueueCost(l))
	if !ok || longest >= maxSpan/4 {
		return errTooLong(l)
	}
	c[gcraMost] = c[gcraFull] + longest + 2
	l.Envelope = l.Count + 1 + l.Free
	return nil
}

// maxQueueCost is the largest cost of one request. A request of any cost could
// leave an idle queue at once, and block it for long: so none may cost more
// than the queue can hold, or than a period lets leave.
func maxQueueCost(l *weir.Limit) int64 { return max(l.Burst, l.Count) }

// Step implements weir.Algorithm.
//
// The TAT is the instant at which the next request may leave: the queue's
// tail.
func (leakyQueue) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	tail := load(cells, l, a.Now, l.Const[gcraMost])
	q, r := l.Const[gcraUnit], l.Const[gcraUnitPart]
	if a.Cost != 1 {
		q, r, _ = span(l, a.Cost)
	}
	fits := a.Cost <= maxQueueCost(l)
	allowed := a.Cost == 0 || fits && tail.within(a.Now, l.Const[gcraFull], l.Const[gcraFullPart])

	before := tail
	switch {
	case a.Cost == 0:
	case a.Verb == weir.Refund:
		// Only the last in line can leave without moving another.
		if a.ID != 0 && a.ID != a.Now+weir.Micros(resetAfter(a.Now, tail)) {
			break
		}
		tail = tail.sub(l, q, r)
		if tail.us < a.Now {
			tail = tat{us: a.Now}
		}
		save(cells, l, tail)
		before, allowed = tail, true
	case a.Verb == weir.Force, allowed && a.Verb == weir.Spend:
		tail = tail.add(l, q, r)
		if tail.us >= a.Now+l.Const[gcraMost] {
			tail = tat{us: a.Now + l.Const[gcraMost]}
		}
		save(cells, l, tail)
	}

	d := weir.Decision{Limit: l, Remaining: room(l, a.Now, tail), ResetAfter: resetAfter(a.Now, tail)}
	switch {
	case allowed || a.Verb == weir.Refund:
	case !fits:
		d.RetryAfter = weir.Never
	default:
		wait := before.us - a.Now - l.Const[gcraFull]
		if before.part > l.Const[gcraFullPart] {
			wait++
		}
		d.RetryAfter = weir.FromMicros(wait)
	}
	return d
}

// room returns the largest cost that would be let in.
func room(l *weir.Limit, now int64, tail tat) int64 {
	if !tail.within(now, l.Const[gcraFull], l.Const[gcraFullPart]) {
		return 0
	}
	return maxQueueCost(l)
}

// Delay implements weir.Shaper.
func (leakyQueue) Delay(d weir.Decision, cost int64) time.Duration {
	l := d.Limit
	q, r, _ := span(l, cost)
	// ResetAfter is the tail after this request, rounded up: its own span and
	// the free span before it leave the wait.
	wait := weir.Micros(d.ResetAfter) - q - l.Const[queueFree]
	if r > 0 {
		wait--
	}
	return weir.FromMicros(max(wait, 0))
}

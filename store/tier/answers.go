package tier

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirlimit/weir"
)

const (
	answerStripes = 64
	// answerWays is how many keys share a place among the answers; of more, the
	// one that was heard of longest ago is forgotten.
	answerWays = 4
)

// Answers remembers what the shared store last said about keys: refusals that
// are certain to hold, and how much remained. It is bounded in bytes and forgets
// what is old first.
//
// A refused request changes nothing, so until the instant that the store gave,
// the same cost is refused whoever else spends: they can only make it wait
// longer. The instant is counted from when the request was sent, so it is
// forgotten early and never late. What makes units come back sooner ends it: a
// refund on this node at once, one on another node or a reset within the
// longest life of a refusal. A smaller cost that passes on this node ends it
// too, as the larger must then wait longer.
//
// Safe for concurrent use.
type answers struct {
	stripes  [answerStripes]answerStripe
	places   uint64 // sets of each stripe
	longest  int64  // life of a refusal, microseconds
	recalled atomic.Uint64
}

type answerStripe struct {
	mu   sync.Mutex
	sets []answer
}

// An answer is what the store said about a key. Times are the node's, in
// microseconds.
type answer struct {
	tag       uint64
	limit     *weir.Limit
	at        int64 // when it was asked
	cost      int64 // that was refused, 0 for none, or gaveBack
	until     int64 // the refusal is certain
	retry     int64 // when the cost may pass; math.MaxInt64: never
	reset     int64
	remaining int64
}

// gaveBack as an answer's cost says that units were given back.
const gaveBack = -1

func newAnswers(bytes, longest int64) *answers {
	set := int64(unsafe.Sizeof(answer{})) * answerWays
	return &answers{places: uint64(max(bytes/set/answerStripes, 1)), longest: longest}
}

// set returns the answers among which that of tag is. Requires: the stripe's
// lock.
func (a *answers) set(g *answerStripe, tag uint64) []answer {
	if g.sets == nil {
		g.sets = make([]answer, a.places*answerWays)
	}
	at := tag / answerStripes % a.places * answerWays
	return g.sets[at : at+answerWays]
}

// refusal returns the remembered refusal of cost, if it holds at now.
func (a *answers) refusal(tag uint64, l *weir.Limit, cost, now int64) (weir.Decision, bool) {
	g := &a.stripes[tag%answerStripes]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sets == nil {
		return weir.Decision{}, false
	}
	set := a.set(g, tag)
	for i := range set {
		e := &set[i]
		if e.tag != tag || e.limit != l || e.cost != cost || cost == 0 || now >= e.until {
			continue
		}
		a.recalled.Add(1)
		d := weir.Decision{Limit: l.From(weir.FromCache), Remaining: e.remaining, RetryAfter: weir.Never}
		if e.retry != math.MaxInt64 {
			d.RetryAfter = weir.FromMicros(e.retry - now)
		}
		d.ResetAfter = weir.FromMicros(max(e.reset-now, 0))
		return d, true
	}
	return weir.Decision{}, false
}

// heard remembers what the store said at the node's time sent: a refusal of cost
// if keep, and in any case what remains.
func (a *answers) heard(tag uint64, l *weir.Limit, cost, sent int64, d weir.Decision, keep bool) {
	e := answer{tag: tag, limit: l, at: sent, remaining: d.Remaining, reset: later(sent, weir.Micros(d.ResetAfter))}
	if keep && !d.Allowed() {
		e.cost, e.retry = cost, math.MaxInt64
		e.until = sent + a.longest
		if d.RetryAfter != weir.Never {
			e.retry = later(sent, weir.Micros(d.RetryAfter))
			e.until = min(e.until, e.retry)
		}
	}
	a.put(e)
}

// later returns t and us microseconds, below what stands for never.
func later(t, us int64) int64 {
	if us > math.MaxInt64-1-t {
		return math.MaxInt64 - 1
	}
	return t + us
}

// forget ends a refusal: the key was reset at now. What was asked before and is heard
// after is not remembered either.
func (a *answers) forget(tag uint64, now int64) {
	a.put(answer{tag: tag, at: now, cost: gaveBack, remaining: -1})
}

// refunded is forget for units of the key that were given back: d is what the store
// said of that.
func (a *answers) refunded(tag uint64, l *weir.Limit, now int64, d weir.Decision) {
	a.put(answer{tag: tag, limit: l, at: now, cost: gaveBack, remaining: d.Remaining, reset: later(now, weir.Micros(d.ResetAfter))})
}

func (a *answers) put(e answer) {
	g := &a.stripes[e.tag%answerStripes]
	g.mu.Lock()
	defer g.mu.Unlock()
	set := a.set(g, e.tag)
	oldest := &set[0]
	for i := range set {
		if old := &set[i]; old.tag == e.tag {
			if old.at < e.at || old.at == e.at && old.mayFollow(&e) {
				*old = e
			}
			return
		}
		if set[i].at < oldest.at {
			oldest = &set[i]
		}
	}
	*oldest = e
}

// mayFollow reports whether e, which was asked at the same time, may have been said
// after a. Of spends that were sent in one call, the one that left the least came last.
func (a *answer) mayFollow(e *answer) bool {
	return e.cost == gaveBack || a.cost != gaveBack && (a.limit != e.limit || e.remaining <= a.remaining)
}

// known returns how many units of l remained when the store was last asked, as
// of now.
func (a *answers) known(tag uint64, l *weir.Limit, now int64) (int64, bool) {
	g := &a.stripes[tag%answerStripes]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sets == nil {
		return 0, false
	}
	set := a.set(g, tag)
	for i := range set {
		if e := &set[i]; e.tag == tag && e.limit != nil && e.limit.ID() == l.ID() && e.remaining >= 0 {
			if now >= e.reset {
				return l.Burst, true
			}
			return min(e.remaining, l.Burst), true
		}
	}
	return 0, false
}

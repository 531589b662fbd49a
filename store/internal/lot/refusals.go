package lot

import (
	"sync"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
)

const (
	stripes = 64
	// ways is how many keys share a set; of more, the one that was answered longest ago
	// is forgotten.
	ways = 4
	// refunded as a cost says that units were given back.
	refunded = -1
)

// Refusals remember what the store last answered of each key: refusals that are certain
// to hold, and how much remained. They are of a fixed size and forget what is old first.
//
// A refused request changes nothing, so until the instant that the store named the same
// cost is refused whoever else spends: others can only make it wait longer. The instant
// counts from when the request was sent, and a 512th less, so a refusal is forgotten
// early and never late. What brings units back sooner ends it: a refund on this node at
// once, one on another node, or a reset, within the longest life of a refusal. A smaller
// cost that passes on this node ends it too, as the larger must then wait longer.
//
// Safe for concurrent use.
type Refusals struct {
	stripes [stripes]stripe
	sets    uint64 // of each stripe
	longest int64  // life of a refusal, microseconds
}

type stripe struct {
	mu       sync.Mutex
	sets     []refusal
	recalled uint64   // refusals that were answered from memory
	_        [24]byte // a stripe to a cache line
}

// A refusal is what the store answered of a key.
type refusal struct {
	tag       uint64
	limit     *weir.Limit
	at        clock.Node // when it was asked
	cost      int64      // that was refused, 0 for none, or refunded
	until     clock.Node // it is certain
	retry     clock.Node // when the cost may pass, or clock.Never
	reset     clock.Node
	remaining int64 // negative: not known
}

// NewRefusals returns an empty memory of at most bytes. A refusal lives at most longest
// microseconds.
func NewRefusals(bytes, longest int64) *Refusals {
	set := int64(unsafe.Sizeof(refusal{})) * ways
	return &Refusals{sets: uint64(max(bytes/set/stripes, 1)), longest: longest}
}

// lockSet locks the stripe of a tag and returns what may be of it.
func (r *Refusals) lockSet(tag uint64) (*stripe, []refusal) {
	g := &r.stripes[tag%stripes]
	g.mu.Lock()
	if g.sets == nil {
		g.sets = make([]refusal, r.sets*ways)
	}
	at := tag / stripes % r.sets * ways
	return g, g.sets[at : at+ways]
}

// Recall returns the refusal of a cost that still holds at now. OrMore: one of a smaller
// cost will do, for a decider that may refuse early.
func (r *Refusals) Recall(tag uint64, l *weir.Limit, cost int64, orMore bool, now clock.Node) (weir.Decision, bool) {
	g, set := r.lockSet(tag)
	defer g.mu.Unlock()
	for i := range set {
		e := &set[i]
		if e.tag != tag || e.limit != l || e.cost <= 0 || e.cost != cost && (!orMore || e.cost > cost) || now >= e.until {
			continue
		}
		g.recalled++
		d := weir.Decision{Limit: l.From(weir.FromCache), Remaining: e.remaining, RetryAfter: weir.Never}
		if e.retry != clock.Never {
			d.RetryAfter = micros.Duration(int64(max(e.retry-now, 1)))
		}
		d.ResetAfter = micros.Duration(int64(max(e.reset-now, 0)))
		return d, true
	}
	return weir.Decision{}, false
}

// Recalled returns how many refusals were answered from memory so far.
func (r *Refusals) Recalled() (n uint64) {
	for i := range r.stripes {
		g := &r.stripes[i]
		g.mu.Lock()
		n += g.recalled
		g.mu.Unlock()
	}
	return n
}

// LearnAnswer takes over what the store answered to a request of a cost that was sent at sent:
// what remains, and a refusal, which lives at most life microseconds, zero for none. One
// that rests on counts of a region, which must report first, ends after a sixteenth of
// its retry.
func (r *Refusals) LearnAnswer(tag uint64, l *weir.Limit, cost int64, sent clock.Node, d weir.Decision, life int64) {
	e := refusal{tag: tag, limit: l, at: sent, remaining: d.Remaining, reset: sent.Add(micros.Of(d.ResetAfter))}
	if life = min(life, r.longest); life > 0 && !d.Allowed() {
		e.cost, e.retry = cost, clock.Never
		if d.RetryAfter != weir.Never {
			retry := micros.Of(d.RetryAfter)
			e.retry = sent.Add(retry)
			if life = min(life, retry); d.Guarantee().Source == weir.FromCounts {
				life = min(life, retry/16)
			}
		}
		e.until = sent.Expiry(life)
	}
	r.storeRefusal(e)
}

// ForgetKey ends what is known of a key: it was reset at now. What was asked before and is
// answered after is not remembered either.
func (r *Refusals) ForgetKey(tag uint64, now clock.Node) {
	r.storeRefusal(refusal{tag: tag, at: now, cost: refunded, remaining: -1})
}

// ForgetRefunded is Forget for units that were given back at now, of which the store answered d.
func (r *Refusals) ForgetRefunded(tag uint64, l *weir.Limit, now clock.Node, d weir.Decision) {
	r.storeRefusal(refusal{tag: tag, limit: l, at: now, cost: refunded, remaining: d.Remaining, reset: now.Add(micros.Of(d.ResetAfter))})
}

func (r *Refusals) storeRefusal(e refusal) {
	g, set := r.lockSet(e.tag)
	defer g.mu.Unlock()
	oldest := &set[0]
	for i := range set {
		if old := &set[i]; old.tag == e.tag {
			if old.at < e.at || old.at == e.at && old.mayPrecede(&e) {
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

// mayPrecede reports whether e, which was asked at the same time, may have been answered
// after a. Of spends that were sent in one call, the one that left the least came last.
func (a *refusal) mayPrecede(e *refusal) bool {
	return e.cost == refunded || a.cost != refunded && (a.limit != e.limit || e.remaining <= a.remaining)
}

// KnownRemaining returns how many units of a limit remained when the store was last asked, as of
// now. It reports false if that is not known.
func (r *Refusals) KnownRemaining(tag uint64, l *weir.Limit, now clock.Node) (int64, bool) {
	g, set := r.lockSet(tag)
	defer g.mu.Unlock()
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

package region

import (
	"strings"
	"sync"

	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// An outbound is what the region has admitted of a key in an epoch, and has perhaps not
// reported yet. Counts are as last heard of its store.
type outbound struct {
	outboundKey
	key           string
	limit         *regional
	epoch         *epochCounters
	own, reported int64
	// sent is how much is on its way, or was.
	sent int64
	// since is when there was first something to report; zero: there is nothing.
	since, used int64
	// at is when it is reported next; due: it is in the queue.
	at          int64
	due, urgent bool
	pushing     int
	// calm is until when it is not reported at once: it could not be.
	calm int64
	// readAt is when own was last read.
	readAt clock.Node
}

type outboundKey struct {
	tag uint64
	end int64 // of the epoch
}

const (
	// mostPushes is how many pushes of a key are on their way at a time.
	mostPushes = 4
	// outboundBytes is what an outbound takes beside its key.
	outboundBytes = 320
	// idleFor is how long a key is remembered of which all is reported, in microseconds.
	idleFor = 10_000_000
)

// unreported returns the units that some other region may not know of.
func (b *outbound) unreported() int64 { return max(b.own-b.reported, 0) }

// updateCounts takes over what a call has read of the counters that was asked and answered at the
// given times. Which of two is newer that were under way together is not known: the larger
// count stays, and the next push corrects it.
func (b *outbound) updateCounts(own, reported int64, asked, now clock.Node) {
	if asked <= b.readAt {
		own = max(own, b.own)
	}
	b.own, b.reported, b.readAt = own, max(b.reported, reported), now
}

// A table is what is to be reported, in node time. It is bounded in bytes: of a key
// without room nothing is reported until there is some, and the region's store admits no
// more than the others need not know. Safe for concurrent use.
type table struct {
	mu    sync.Mutex
	all   map[outboundKey]*outbound
	queue []*outbound // to be reported, in the order in which they came
	// held are units that are charged and not counted yet, as their window has turned.
	held  map[outboundKey]int64
	bytes int64
	max   int64
	// wake is when something is urgent.
	wake transport.Gate
}

func newTable(bytes int64) *table {
	return &table{max: bytes, all: map[outboundKey]*outbound{}, held: map[outboundKey]int64{}, wake: transport.NewGate()}
}

// knownUnits returns how much of a key is known to be reported, and how much is held.
func (t *table) knownUnits(k outboundKey) (reported, held int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.all[k]; b != nil {
		reported = b.reported
	}
	return reported, t.held[k]
}

// holdUnits adds to the units that are held.
func (t *table) holdUnits(k outboundKey, units int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[k] += units; t.held[k] <= 0 {
		delete(t.held, k)
	}
}

// updateKey takes over what the region's store said of a key, and has it reported: at once
// when a quarter of what the others need not know is not on its way.
func (t *table) updateKey(r *regional, c *epochCounters, tag uint64, key string, own, reported int64, sent, now clock.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := outboundKey{tag, c.end}
	b := t.all[k]
	if b == nil {
		size := outboundBytes + int64(len(key))
		if t.bytes+size > t.max {
			return
		}
		t.bytes += size
		b = &outbound{outboundKey: k, key: strings.Clone(key), epoch: c}
		t.all[k] = b
	}
	b.limit, b.used = r, int64(now)
	b.updateCounts(own, reported, sent, now)
	t.schedule(b, (b.own-max(b.reported, b.sent))*4 >= r.cap && b.used >= b.calm, b.used+r.interval)
}

// schedule has a key be reported at the given time, or at once. Requires: mu.
func (t *table) schedule(b *outbound, urgent bool, at int64) {
	if b.unreported() == 0 {
		return
	}
	if b.since == 0 {
		b.since = max(at-b.limit.interval, 1)
	}
	if b.urgent = b.urgent || urgent; b.urgent {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
	if !b.due && (b.pushing == 0 || b.urgent && b.pushing < mostPushes) {
		b.due, b.at = true, at
		t.queue = append(t.queue, b)
	}
}

// A push reports a key: urgent when others must know at once, last when there will be no
// other.
type push struct {
	*outbound
	limit        *regional
	urgent, last bool
}

// takeDue takes out what is to be reported by now. A last push reports all.
func (t *table) takeDue(now clock.Node, last bool) (out []push) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := t.queue[:0]
	for _, b := range t.queue {
		if !last && !b.urgent && int64(now) < b.at {
			rest = append(rest, b)
			continue
		}
		out = append(out, push{b, b.limit, b.urgent && !last, last})
		b.due, b.urgent = false, false
		b.pushing++
	}
	clear(t.queue[len(rest):])
	t.queue = rest
	return out
}

// finishPush ends a push, after which all others know of so many units or more. One that
// failed is not repeated before its interval is over.
func (t *table) finishPush(b *outbound, all int64, ok bool, now clock.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.pushing--
	b.reported = max(b.reported, all)
	next := int64(now) + b.limit.interval
	if !ok {
		b.sent, b.urgent, b.calm = b.reported, false, next
	}
	if b.unreported() == 0 {
		b.since, b.urgent = 0, false
	}
	t.schedule(b, false, next)
}

// observe takes over the counters of a key as a push has read them; with mine it reports
// them.
func (t *table) observe(b *outbound, own, reported, sent int64, mine bool, asked, now clock.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine {
		sent = max(sent, own)
	}
	b.sent = max(b.sent, sent)
	b.updateCounts(own, reported, asked, now)
}

// unreported returns of how many keys how many units are not reported, and since how many
// microseconds at worst.
func (t *table) unreported(now clock.Node) (keys int, units, lag int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.all {
		if b.since > 0 {
			keys, units, lag = keys+1, units+b.unreported(), max(lag, int64(now)-b.since)
		}
	}
	return keys, units, lag
}

// sweepKeys forgets what all others know, and what no longer counts by the store's time.
func (t *table) sweepKeys(now clock.Node, wall int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.held {
		if wall > k.end {
			delete(t.held, k) // of a call without an answer
		}
	}
	for k, b := range t.all {
		if b.due || b.pushing > 0 {
			continue
		}
		if b.unreported() == 0 && int64(now)-b.used > idleFor || wall > k.end+max(b.limit.length, 1_000_000) {
			delete(t.all, k)
			t.bytes -= outboundBytes + int64(len(b.key))
		}
	}
}

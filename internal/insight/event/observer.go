package event

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/limits"
)

// Options configures an Observer.
type Options struct {
	// Queue takes the events. Required. The caller closes it, after Run.
	Queue Queue
	// Live hears all events as they are made, also while Queue takes none. Zero
	// means nobody.
	Live *Broadcast
	// Limits returns the limits in use with their words; it is called at each
	// roll-up and when a limit is met that was not known. It must be safe for
	// concurrent use. Required.
	Limits func() []limits.Ref
	// Node names this node. Zero means "node".
	Node string
	// Region is where this node is, told with each event; at most MaxRegion bytes.
	// Zero means that it is not told.
	Region string
	// Secret keys the hashes of keys and identities; the same on every node, or
	// their clients cannot be put together. At least 16 bytes. Zero means a random one, which a
	// restart changes.
	Secret []byte
	// Unhashed tells keys, addresses and users as they are.
	Unhashed bool
	// Sample is how many keys there are for each one whose allowed decisions are
	// told, and of whose requests the arrivals. It is keys that are sampled, not
	// decisions, so that what is told of a key is complete. 1 tells all, negative
	// none. Zero means 1000.
	Sample int64
	// Every is how often records are put together and sent, 10 ms to a minute.
	// Zero means a second.
	Every time.Duration
	// RollupEvery is how often roll-ups are made, aligned to the clock; a
	// multiple of Every. Zero means a minute.
	RollupEvery time.Duration
	// Ring is how many decisions can wait to be looked at, 64 to 1 Mi, rounded up
	// to a power of two. One takes 576 bytes. Zero means 8192.
	Ring int
	// MaxRecords is the most records in Every; further clients are merged into one
	// record for each limit and outcome. Zero means 20,000.
	MaxRecords int
	// MaxBacklog is the most events that wait for the queue. Zero means 200,000.
	MaxBacklog int
	// Now tells the time of roll-ups and of events, for decisions of another clock that
	// Flush hands over. Zero means time.Now.
	Now func() time.Time
	// Log is told when the queue stops taking events and when it takes them again.
	// Zero means nobody is told.
	Log *slog.Logger
}

// Observer hears decisions and tells them to a queue. Observe is safe for
// concurrent use; Run is called once, or Flush in its place.
type Observer struct {
	opt    Options
	source string
	hash   hasher
	// sample is above the hashes that are sampled.
	sample  uint64
	ring    *ring
	watched watch
	fast    fastCounters
	taker   taker
	dropped atomic.Uint64
	failed  atomic.Uint64

	// The rest is that of Run or Flush, but for top, outbox and known, which lock, and what decisions and
	// answers count in rollups.
	merge   *merger
	rollups *roller
	outbox  *outbox
	top     top
	names   *keyHasher
	known   knownKeys
	// schedule is nil until the first of what is due was looked for.
	schedule *schedule
	// droppedBefore is what dropped was when records were told last.
	droppedBefore uint64
	// sequence numbers events.
	sequence uint64
}

// New returns an observer. It tells nothing until Run or Flush.
func New(opt Options) (*Observer, error) {
	if err := opt.complete(); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	var start [8]byte
	rand.Read(start[:]) // never fails
	seed := hmac.New(sha256.New, opt.Secret)
	seed.Write([]byte("weir event sample"))
	sum := seed.Sum(nil)
	o := &Observer{
		opt:    opt,
		source: fmt.Sprintf("%s/%x", opt.Node, start),
		hash:   hasher{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])},
		ring:   newRing(1 << bits.Len(uint(opt.Ring-1))),
		taker:  taker{seed: maphash.MakeSeed()},
		names:  newKeyHasher(opt.Secret, opt.Unhashed),
	}
	switch {
	case opt.Sample == 1:
		o.sample = math.MaxUint64
	case opt.Sample > 1:
		o.sample = math.MaxUint64 / uint64(opt.Sample)
	}
	o.merge = newMerger(opt.MaxRecords)
	o.rollups = newRoller(opt.Limits)
	o.outbox = newOutbox(opt.Queue, opt.MaxBacklog, opt.Log)
	return o, o.top.init()
}

func (opt *Options) complete() error {
	if opt.Queue == nil || opt.Limits == nil {
		return errors.New("Options.Queue and Options.Limits are required")
	}
	opt.Node = cmp.Or(opt.Node, "node")
	if len(opt.Region) > MaxRegion {
		return fmt.Errorf("a region of %d bytes: give at most %d", len(opt.Region), MaxRegion)
	}
	if n := len(opt.Secret); n > 0 && n < 16 {
		return fmt.Errorf("the secret has %d bytes: give at least 16", n)
	}
	if len(opt.Secret) == 0 {
		opt.Secret = make([]byte, 32)
		rand.Read(opt.Secret) // never fails
	}
	opt.Sample = cmp.Or(opt.Sample, 1000)
	opt.Every = cmp.Or(opt.Every, time.Second)
	opt.RollupEvery = cmp.Or(opt.RollupEvery, time.Minute)
	opt.Ring = cmp.Or(opt.Ring, 8192)
	opt.MaxRecords = cmp.Or(opt.MaxRecords, 20_000)
	opt.MaxBacklog = cmp.Or(opt.MaxBacklog, 200_000)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	switch {
	case opt.Every < 10*time.Millisecond || opt.Every > time.Minute:
		return fmt.Errorf("records every %s: give 10ms to 1m", opt.Every)
	case opt.RollupEvery < opt.Every || opt.RollupEvery%opt.Every != 0:
		return fmt.Errorf("roll-ups every %s: give a multiple of %s, which is how often records are sent", opt.RollupEvery, opt.Every)
	case opt.Ring < 64 || opt.Ring > 1<<20:
		return fmt.Errorf("a ring of %d: give 64 to %d", opt.Ring, 1<<20)
	case opt.MaxRecords < 1 || opt.MaxBacklog < 1:
		return errors.New("the most records and the backlog must be positive")
	}
	return nil
}

// Observe implements [weir.Observer].
func (o *Observer) Observe(r *weir.Request, d weir.Decision, err error) {
	o.rollups.requests.countRequest(r.Domain, r.Verb, d, err)
	if err != nil {
		o.failed.Add(1)
		return
	}
	ops := r.Ops()
	for i := range ops {
		op := &ops[i]
		if op.Outcome == weir.Uncounted {
			continue
		}
		hash := o.hash.hashText(op.Key)
		if op.Outcome != weir.Allowed {
			o.watched.addHash(hash)
		} else if hash >= o.sample && !o.watched.hasHash(hash) && !degraded(op) {
			continue
		}
		o.observeDecision(r, op, hash, op.Decision.Limit == d.Limit)
	}
	if took := r.Took(); took > 0 {
		o.countLatency(ops, took)
	}
}

// degraded reports whether an op was decided without the guarantee that its limit
// usually gives. Most are decided by the limit itself.
func degraded(op *weir.Op) bool {
	return op.Decision.Limit != op.Limit && op.Decision.Degraded()
}

// observeDecision counts a decision that is hot, and puts another into the ring.
func (o *Observer) observeDecision(r *weir.Request, op *weir.Op, hash uint64, decided bool) {
	limit := op.Limit
	if index, tag := indexAndTag(hash, limit, op.Outcome, op.Cost, decided); o.fast.countDecision(index, tag) {
		return
	}
	s, at := o.ring.claimSlot()
	if s == nil {
		o.dropped.Add(1)
		return
	}
	s.limit, s.source = limit, op.Decision.Limit
	if s.now = op.Now; s.now == 0 {
		s.now = o.opt.Now().UnixMicro() // the store was not asked, or does not tell
	}
	s.isResponse = false
	s.cost, s.remaining = op.Cost, op.Decision.Remaining
	s.retry = -1
	if op.Decision.RetryAfter != weir.Never {
		s.retry = micros.Of(op.Decision.RetryAfter)
	}
	s.delay = 0
	if op.Outcome == weir.Delayed {
		s.delay = micros.Of(op.Decision.Delay(op.Cost))
	}
	s.hash, s.outcome, s.decided = hash, op.Outcome, decided
	s.setKey(op.Key)
	if s.facts.known = false; r.Facts != nil {
		o.taker.takeFacts(&s.facts, r.Facts, &o.hash)
	}
	s.commit(at)
}

// ObserveResult implements [weir.ResultObserver]. Roll-ups count every answer. Records
// tell nothing of keys that are neither sampled nor watched, and decisions come first
// there: an answer that finds half of the ring taken is left out, which shows in
// Answers.Count.
func (o *Observer) ObserveResult(r *weir.Request, res weir.Result) {
	ops := r.Ops()
	for i := range ops {
		op := &ops[i]
		if op.Outcome == weir.Uncounted {
			continue
		}
		if m := o.rollups.meterOf(op.Limit); m != nil {
			m.responses.addResult(&res)
		}
		hash := o.hash.hashText(op.Key)
		if hash >= o.sample && !o.watched.hasHash(hash) || !o.ring.isHalfFree() {
			continue
		}
		s, at := o.ring.claimSlot()
		if s == nil {
			continue
		}
		s.isResponse = true
		s.limit, s.source = op.Limit, nil
		s.now = o.opt.Now().UnixMicro()
		s.hash, s.outcome, s.decided = hash, op.Outcome, false
		s.cost, s.remaining, s.retry = 0, 0, 0
		s.status, s.delay = int16(min(max(res.Code, weir.NoAnswer), weir.MaxCode)), micros.Of(max(res.Duration, 0))
		s.setKey(op.Key)
		s.facts.known = false
		s.commit(at)
	}
}

// Loss returns what the records leave out so far.
func (o *Observer) Loss() Loss {
	l := o.outbox.readLoss()
	l.Dropped, l.Failed = o.dropped.Load(), o.failed.Load()
	return l
}

// Top returns the n keys that were refused most since the observer started,
// of at most 1000 that are followed.
func (o *Observer) Top(n int) []Heavy { return o.top.listHeaviest(n) }

var (
	_ weir.Observer       = (*Observer)(nil)
	_ weir.ResultObserver = (*Observer)(nil)
)

// countLatency counts how long a decision took under each limit that it met.
func (o *Observer) countLatency(ops []weir.Op, took time.Duration) {
	bucket := LatencyBucket(took)
	for i := range ops {
		if ops[i].Outcome == weir.Uncounted {
			continue
		}
		if m := o.rollups.meterOf(ops[i].Limit); m != nil {
			m.took[bucket].Add(1)
		}
	}
}

// Package reserve spends before the cost is known: an estimate is reserved, and
// when the work is done the actual cost is committed, or the reservation is
// canceled. Tokens of a language model, whose number only the answer tells, are
// the usual case.
//
// A reservation spends its estimate at once, so nothing is promised twice. Its
// handle is a signed token that tells everything needed to settle it: no node
// keeps a list, and any node with the same secret, rules and store can settle
// what another reserved, once, whatever is retried, as long as the store keeps what
// it has acknowledged: one that lost it (a server of a ring that is lost, a failover
// that loses the last writes, a restart without persistence) settles a reservation
// once more. A reservation that nobody settles stays spent in full. Where several regions have a store each, a
// reservation is settled in the region in which it was made.
package reserve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// Can be returned by a [Reserver].
var (
	// ErrHandle: the handle was not made with this secret, or was changed.
	ErrHandle = errors.New("reserve: not a handle of this service")
	// ErrExpired: the reservation is over and stays spent in full.
	ErrExpired = errors.New("reserve: the reservation has expired and stays spent in full")
	// ErrSettled: the reservation was committed or canceled before.
	ErrSettled = errors.New("reserve: the reservation was settled before")
	// ErrRegion: the reservation was made in another region, or says none.
	ErrRegion = errors.New("reserve: the reservation was made in another region: settle it there")
	// ErrUnavailable: the store did not answer, so that it is not known whether the
	// reservation is settled. Try again: ErrSettled then says that it was.
	ErrUnavailable = errors.New("reserve: store unavailable: try again")
	// ErrUnsupported: the request meets a limit that cannot take back part of
	// what it gave, or cannot be found again from a handle.
	ErrUnsupported = errors.New("reserve: cannot be reserved")
	// ErrTooLarge: the request is too large for a handle, see MaxHandle.
	ErrTooLarge = errors.New("reserve: the request is too large to be reserved")
)

// MaxTTL is the longest that a reservation may wait to be settled.
const MaxTTL = 24 * time.Hour

// minSecret is the least length of a secret, in bytes.
const minSecret = 16

// Options configures a [Reserver].
type Options struct {
	// Secret signs handles, at least 16 bytes; every node that is to settle
	// must have the same. Zero means a random one, and handles that only this
	// process settles.
	Secret []byte
	// TTL is how long a reservation may wait to be settled, at most MaxTTL.
	// Zero means ten minutes.
	TTL time.Duration
	// Region is the name of the region that the store counts for, where there are
	// several. Each would settle a reservation once: one that was made in another, or
	// that says none, is refused with ErrRegion. Zero means that there is one region.
	Region string
}

// maxRegion is the longest name of a region, in bytes.
const maxRegion = 255

// Reserver reserves and settles. Safe for concurrent use.
type Reserver struct {
	limiter *weir.Limiter
	signer  signer
	ttl     time.Duration
	region  string
	// marks admit each reservation's id once. They differ in nothing but how
	// long they remember it, each twice as long as the one before: all share
	// the counter of an id.
	marks []*weir.Limit
}

// settleSlack is how much longer than a reservation the mark of its settling
// lives. It covers the time between looking and settling.
const settleSlack = 10 * time.Minute

func newMarks() ([]*weir.Limit, error) {
	var marks []*weir.Limit
	for period := settleSlack; ; period *= 2 {
		m := &weir.Limit{
			Name: "settled reservations", Scope: "\x1freserve", Algorithm: algorithm.FixedWindow,
			Count: 1, Period: period, Params: params.Params{Anchor: params.AnchorFirst},
			// Two nodes that each marked on its own would settle twice, and so would two
			// servers of a ring.
			Consistency: params.Consistency{Mode: params.ConsistencyStrict, OnStoreError: params.OnErrorDeny, Pinned: true},
		}
		if err := m.Compile(); err != nil {
			return nil, err
		}
		if marks = append(marks, m); period >= MaxTTL+settleSlack {
			return marks, nil
		}
	}
}

// mark returns the mark that remembers an id for at least d.
func (s *Reserver) mark(d time.Duration) *weir.Limit {
	for _, m := range s.marks {
		if m.Period >= d {
			return m
		}
	}
	return s.marks[len(s.marks)-1]
}

// New returns a reserver that spends through lim.
func New(lim *weir.Limiter, opt Options) (*Reserver, error) {
	if opt.TTL == 0 {
		opt.TTL = 10 * time.Minute
	}
	switch {
	case lim == nil:
		return nil, errors.New("reserve: no limiter")
	case opt.TTL < time.Second || opt.TTL > MaxTTL:
		return nil, fmt.Errorf("reserve: ttl %s must be from 1s to %s", opt.TTL, MaxTTL)
	case len(opt.Region) > maxRegion:
		return nil, fmt.Errorf("reserve: the name of the region has %d bytes, at most %d are allowed", len(opt.Region), maxRegion)
	case opt.Secret != nil && len(opt.Secret) < minSecret:
		return nil, fmt.Errorf("reserve: secret has %d bytes, at least %d are needed", len(opt.Secret), minSecret)
	}
	secret := opt.Secret
	if secret == nil {
		secret = make([]byte, 32)
		rand.Read(secret)
	}
	marks, err := newMarks()
	if err != nil {
		return nil, err
	}
	return &Reserver{limiter: lim, signer: newSigner(secret), ttl: opt.TTL, region: opt.Region, marks: marks}, nil
}

// Reservation is the answer to a request to reserve.
type Reservation struct {
	// Handle settles the reservation, at most MaxHandle bytes of URL-safe
	// text. It is signed, not encrypted: it shows the request's domain and
	// descriptors to whoever holds it. Empty when the request was refused.
	Handle string
	// Decision is what the limiter said.
	Decision weir.Decision
	// Expires is when the reservation can no longer be settled, by the store's
	// clock.
	Expires time.Time
}

// Reserve spends the cost of r, an estimate, and returns how to settle it. A
// refusal is not an error: the reservation then has no handle. On return r
// tells in detail what each limit said.
//
// It returns ErrUnsupported, and spends nothing, if r meets an approximate, a
// concurrency or a delaying limit, replaces a rule's limit, or does not spend.
func (s *Reserver) Reserve(ctx context.Context, r *weir.Request) (Reservation, error) {
	t := ticket{request: r, region: s.region}
	if err := s.check(r); err != nil {
		return Reservation{}, err
	}
	if t.size() > MaxHandle {
		return Reservation{}, fmt.Errorf("%w: its handle would have %d bytes, at most %d are allowed", ErrTooLarge, t.size(), MaxHandle)
	}
	rand.Read(t.id[:])
	d, err := s.limiter.Decide(ctx, r)
	if err != nil || !d.Allowed() {
		return Reservation{Decision: d}, err
	}
	// The rules may have been replaced since the check.
	if err := refundable(r.Ops()); err != nil {
		return Reservation{}, errors.Join(err, s.limiter.Cancel(ctx, r))
	}
	t.charges = appendCharges(t.charges, r.Ops())
	now := int64(0)
	if ops := r.Ops(); len(ops) > 0 {
		now = ops[0].Now
	} else if now, err = s.look(ctx, t.id); err != nil {
		return Reservation{}, err
	}
	t.expires = now + s.ttl.Microseconds()
	if len(t.charges) > maxCharges || t.size() > MaxHandle {
		return Reservation{}, errors.Join(ErrTooLarge, s.limiter.Cancel(ctx, r))
	}
	return Reservation{Handle: s.signer.seal(&t), Decision: d, Expires: time.UnixMicro(t.expires)}, nil
}

// check reports why r cannot be reserved, if it cannot.
func (s *Reserver) check(r *weir.Request) error {
	if r.Verb != weir.Spend {
		return fmt.Errorf("%w: only a request that spends can be", ErrUnsupported)
	}
	if r.Cost < 0 || r.Cost > weir.MaxCost {
		return weir.ErrCost
	}
	if r.Lease != "" {
		return fmt.Errorf("%w: a lease is released, not settled", ErrUnsupported)
	}
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		if d.Override != nil {
			return fmt.Errorf("%w: descriptor %d replaces the limit of its rule", ErrUnsupported, i)
		}
		if d.Cost < 0 || d.Cost > weir.MaxCost {
			return weir.ErrCost
		}
	}
	ops := s.limiter.Match(r)
	if len(ops) > maxCharges {
		return fmt.Errorf("%w: it meets %d limits, at most %d are allowed", ErrTooLarge, len(ops), maxCharges)
	}
	return refundable(ops)
}

// refundable reports which of the limits of ops cannot take units back.
func refundable(ops []weir.Op) error {
	for i := range ops {
		l, why := ops[i].Limit, ""
		switch t := l.Traits(); {
		case t&weir.Sketches != 0:
			why = "is approximate and cannot take units back"
		case t&weir.Leases != 0:
			why = "counts what is under way: acquire and release it instead"
		case t&weir.Shapes != 0:
			why = "is a queue, and who has queued cannot shrink"
		default:
			continue
		}
		return fmt.Errorf("%w: limit %q %s", ErrUnsupported, l.Name, why)
	}
	return nil
}

// Settlement says what became of a reservation.
type Settlement struct {
	// Reserved is the estimate, Actual what was spent in the end, in units.
	Reserved, Actual int64
}

// Commit settles a reservation with its actual cost, 0 to weir.MaxCost: what
// was not used is given back, and what was used above the estimate is spent
// whether it is there or not. Units whose window is over are not given back, nor
// those of a bucket that have flowed in since: after the kept ones.
//
// It returns ErrHandle, ErrRegion, ErrExpired or ErrSettled. After any other error,
// such as ErrUnavailable, it may be called again: the reservation is settled once,
// and ErrSettled then says that an earlier call was heard.
func (s *Reserver) Commit(ctx context.Context, handle string, actual int64) (Settlement, error) {
	if actual < 0 || actual > weir.MaxCost {
		return Settlement{}, weir.ErrCost
	}
	return s.settle(ctx, handle, actual, false)
}

// Cancel settles a reservation as if it had never been made. Errors are as
// those of Commit.
func (s *Reserver) Cancel(ctx context.Context, handle string) (Settlement, error) {
	return s.settle(ctx, handle, 0, true)
}

func (s *Reserver) settle(ctx context.Context, handle string, actual int64, cancel bool) (Settlement, error) {
	t, err := s.signer.open(handle)
	if err != nil {
		return Settlement{}, err
	}
	if t.region != s.region {
		return Settlement{}, ErrRegion
	}
	now, err := s.look(ctx, t.id)
	if err != nil {
		return Settlement{}, err
	}
	if now >= t.expires {
		return Settlement{}, ErrExpired
	}
	ops := make([]weir.Op, 1, 1+len(t.charges))
	ops[0] = weir.Op{Key: string(t.id[:]), Limit: s.mark(micros.Duration(t.expires-now) + settleSlack), Cost: 1}
	ops = s.corrections(ops, &t, actual, cancel)
	d, err := s.limiter.Apply(ctx, ops)
	switch {
	case err != nil:
		return Settlement{}, err
	case !d.Allowed():
		return Settlement{}, refusal(d)
	}
	return Settlement{Reserved: t.cost(), Actual: actual}, nil
}

// look returns the store's time, and ErrSettled if id has been settled.
func (s *Reserver) look(ctx context.Context, id [16]byte) (now int64, err error) {
	ops := []weir.Op{{Key: string(id[:]), Limit: s.marks[0], Cost: 1, Verb: weir.Peek}}
	d, err := s.limiter.Apply(ctx, ops)
	switch {
	case err != nil:
		return 0, err
	case !d.Allowed():
		return 0, refusal(d)
	}
	return ops[0].Now, nil
}

// refusal says why a mark refused: only the store knows that it is there.
func refusal(d weir.Decision) error {
	if d.Degraded() {
		return ErrUnavailable
	}
	return ErrSettled
}

// corrections appends the ops that make what t charged into what actual would
// have been charged; all of it given back, if cancel is set.
//
// The limits are found again by matching the same request. Those that have
// since left the rules have no counters left to correct.
func (s *Reserver) corrections(ops []weir.Op, t *ticket, actual int64, cancel bool) []weir.Op {
	r := s.limiter.Acquire()
	defer s.limiter.Recycle(r)
	t.fill(r)
	// What a request of another cost would be charged tells which charges
	// follow the request's cost, and which the rules or a descriptor fix.
	r.Cost = actual
	if actual == 0 {
		r.Cost = t.cost() + 1
	}
	left := t.charges
	for _, o := range s.limiter.Match(r) {
		if len(left) == 0 {
			break
		}
		c, ok := pick(left, identity(&o))
		if !ok {
			continue
		}
		diff := o.Cost - c.cost
		if cancel || actual == 0 && diff != 0 {
			diff = -c.cost
		}
		// The key may lie in r's buffer, which is about to be given back.
		key := strings.Clone(o.Key)
		switch {
		case diff < 0:
			ops = append(ops, c.refund(key, o.Limit, -diff))
		case diff > 0:
			ops = append(ops, weir.Op{Key: key, Limit: o.Limit, Cost: diff, Role: weir.Always, Verb: weir.Force})
		}
	}
	return ops
}

// refund returns the op that gives back units of the charge to the counter of l,
// at the rate by which it was charged: l may have another by now.
func (c *charge) refund(key string, l *weir.Limit, units int64) weir.Op {
	if c.charged == 0 {
		return weir.Op{Key: key, Limit: l, Cost: units, ID: c.receipt, Role: weir.Always, Verb: weir.Refund}
	}
	charged := weir.Op{Key: key, Limit: l, Cost: c.cost, Now: c.charged, Decision: weir.Decision{ResetAfter: micros.Duration(c.receipt - c.charged)}}
	if c.count != l.Count || c.period != micros.Of(l.Period) {
		// Of the old limit, if it still is one, so that the kept units flow in at its
		// rate. The time that the others took is given back in units of today's.
		if old, err := l.Variant(c.count, micros.Duration(c.period), l.Burst); err == nil {
			charged.Limit = old
		}
		fix := charged.UndoRest(units)
		fix.Limit, fix.Cost = l, c.atRateOf(l, units)
		return fix
	}
	return charged.UndoRest(units)
}

// atRateOf returns how many units flow back at the rate of l in the time that
// units took at the rate by which they were charged, rounded down.
func (c *charge) atRateOf(l *weir.Limit, units int64) int64 {
	n := new(big.Int).Mul(big.NewInt(units), big.NewInt(c.period))
	n.Mul(n, big.NewInt(l.Count))
	n.Quo(n, new(big.Int).Mul(big.NewInt(c.count), big.NewInt(micros.Of(l.Period))))
	if !n.IsInt64() {
		return weir.MaxCost
	}
	return min(n.Int64(), weir.MaxCost)
}

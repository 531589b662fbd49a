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
//
// A reservation is settled key by key, as a store can only do at once what lies
// together. Beside the counters of each key lies a mark that says what was settled, in
// the same call as the correction:
//
//	           first key            second key
//	commit 60  mark 60, +50         no answer            the caller hears ErrUnavailable
//	commit 60  mark 60 is there     mark 60, +50         settled: what was missing is done
//	commit 40  mark 60 is there     mark 60 is there     ErrSettled, with 60
//
// The mark of the first key decides what is settled, so calls that differ cannot each
// settle a part. A call without an answer is made again in the background.
package reserve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/once"
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
	// reservation is settled. It will be, in the background; the same call again says
	// whether it is.
	ErrUnavailable = errors.New("reserve: store unavailable: try again")
	// ErrUnsupported: the request meets a limit that cannot take back part of
	// what it gave, or cannot be found again from a handle.
	ErrUnsupported = errors.New("reserve: cannot be reserved")
	// ErrTooLarge: the request is too large for a handle, see MaxHandle.
	ErrTooLarge = errors.New("reserve: the request is too large to be reserved")
)

// maxTTL is the longest that a reservation may wait to be settled.
const maxTTL = 24 * time.Hour

// minSecret is the least length of a secret, in bytes.
const minSecret = 16

// Options configures a [Reserver].
type Options struct {
	// Secret signs handles, at least 16 bytes; every node that is to settle
	// must have the same. Zero means a random one, and handles that only this
	// process settles.
	Secret []byte
	// TTL is how long a reservation may wait to be settled, at most 24 hours.
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
	repeats repeats
	// marks are of what was settled, ownMarks of what the node counted alone.
	marks, ownMarks *weir.Limit
}

// settleSlack is how much longer than a reservation a mark of its settling lives: so long
// a call that had no answer may be repeated.
const settleSlack = 10 * time.Minute

// New returns a reserver that spends through lim.
func New(lim *weir.Limiter, opt Options) (*Reserver, error) {
	if opt.TTL == 0 {
		opt.TTL = 10 * time.Minute
	}
	switch {
	case lim == nil:
		return nil, errors.New("reserve: no limiter")
	case opt.TTL < time.Second || opt.TTL > maxTTL:
		return nil, fmt.Errorf("reserve: ttl %s must be from 1s to %s", opt.TTL, maxTTL)
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
	return &Reserver{
		limiter: lim, signer: newSigner(secret), ttl: opt.TTL, region: opt.Region, marks: newMark(opt.TTL, false), ownMarks: newMark(opt.TTL, true),
	}, nil
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
// A request with a Mark that was reserved before gets another handle of the same reservation.
// It gives back no more than is known to be charged still: what others have spent since is
// taken for later.
//
// It returns ErrUnsupported, and spends nothing, if r meets an approximate, a
// concurrency or a delaying limit, replaces a rule's limit, or does not spend.
func (s *Reserver) Reserve(ctx context.Context, r *weir.Request) (Reservation, error) {
	t := ticket{request: r, region: s.region}
	if err := s.checkRequest(r); err != nil {
		return Reservation{}, err
	}
	if t.handleSize() > MaxHandle {
		return Reservation{}, fmt.Errorf("%w: its handle would have %d bytes, at most %d are allowed", ErrTooLarge, t.handleSize(), MaxHandle)
	}
	rand.Read(t.id[:])
	d, err := s.limiter.Decide(ctx, r)
	if err != nil || !d.Allowed() {
		return Reservation{Decision: d}, err
	}
	repeated, err := once.IsRepeated(r.Mark)
	if err != nil {
		return Reservation{}, err
	}
	// The rules may have been replaced since the check.
	if err := refundable(r.Ops()); err != nil {
		return Reservation{}, errors.Join(err, s.limiter.Cancel(ctx, r))
	}
	ops, now := r.Ops(), int64(0)
	switch {
	case len(ops) == 0:
		if _, now, err = s.readSettled(ctx, &t, &slot{key: string(t.id[:])}); err != nil {
			return Reservation{}, err
		}
	case r.Mark != nil: // all who make the call settle the same reservation
		now = once.MadeAt(r.Mark)
		t.id = idOf(r.Mark, now)
	default:
		now = ops[0].Now
	}
	if repeated {
		ops = chargedAt(now, ops)
	}
	t.noteCharges(s.limiter.Store(), ops)
	t.expires = now + s.ttl.Microseconds()
	if len(t.charges) > maxCharges || t.handleSize() > MaxHandle {
		return Reservation{}, errors.Join(ErrTooLarge, s.limiter.Cancel(ctx, r))
	}
	return Reservation{Handle: s.signer.sealTicket(&t), Decision: d, Expires: time.UnixMicro(t.expires)}, nil
}

// checkRequest reports why r cannot be reserved, if it cannot.
func (s *Reserver) checkRequest(r *weir.Request) error {
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
// It returns ErrHandle, ErrRegion, weir.ErrNode or ErrExpired; or ErrSettled with what was
// settled, where that is something else. The same call again is answered as the first was.
// After any other error, such as ErrUnavailable, the reservation is settled in the
// background if the store answers in time, and the call may be made again.
func (s *Reserver) Commit(ctx context.Context, handle string, actual int64) (Settlement, error) {
	if actual < 0 || actual > weir.MaxCost {
		return Settlement{}, weir.ErrCost
	}
	return s.settle(ctx, handle, committed(actual))
}

// Cancel settles a reservation as if it had never been made. Errors are as
// those of Commit.
func (s *Reserver) Cancel(ctx context.Context, handle string) (Settlement, error) {
	return s.settle(ctx, handle, canceled)
}

func (s *Reserver) settle(ctx context.Context, handle string, o outcome) (Settlement, error) {
	t, err := s.signer.openHandle(handle)
	if err != nil {
		return Settlement{}, err
	}
	if t.region != s.region {
		return Settlement{}, ErrRegion
	}
	if node, _ := weir.NodeOf(s.limiter.Store(), s.marks); t.node != 0 && t.node != node {
		return Settlement{}, weir.ErrNode
	}
	out, err := s.settleOnce(ctx, &t, o)
	if err != nil && !isFinal(err) {
		s.repeats.beginRepeat(t.id, func(ctx context.Context) bool {
			_, err := s.settleOnce(ctx, &t, o)
			return err == nil || isFinal(err)
		})
	}
	return out, err
}

// Close ends the settlements that are repeated in the background, and waits for them: before
// the store is closed. Others may still settle those reservations.
func (s *Reserver) Close() { s.repeats.endAndWait() }

// isFinal reports whether an error says what became of a reservation, or that nothing will.
func isFinal(err error) bool {
	return errors.Is(err, ErrExpired) || errors.Is(err, ErrSettled) || errors.Is(err, weir.ErrClosed)
}

// settleOnce settles t at each of its slots that has not settled it.
func (s *Reserver) settleOnce(ctx context.Context, t *ticket, o outcome) (Settlement, error) {
	slots := s.findSlots(t, o)
	settled, now, err := s.readSettled(ctx, t, &slots[0])
	switch {
	case err != nil:
		return Settlement{}, err
	case settled == 0 && now >= t.expires:
		return Settlement{}, ErrExpired
	case settled == 0:
		if settled, err = s.settleSlot(ctx, t, &slots[0], o, now); err != nil {
			return Settlement{}, err
		}
	}
	if settled != o { // by an earlier call, or one at the same time: what that left is done
		slots = s.findSlots(t, settled)
	}
	for i := range slots[1:] {
		if _, err := s.settleSlot(ctx, t, &slots[i+1], settled, now); err != nil {
			return Settlement{}, err
		}
	}
	out := Settlement{Reserved: t.reservedCost(), Actual: settled.actual()}
	switch {
	case settled == o:
		return out, nil
	case settled == canceled:
		return out, fmt.Errorf("%w: it was canceled", ErrSettled)
	}
	return out, fmt.Errorf("%w, with %d", ErrSettled, out.Actual)
}

// findSlots returns where t is settled, and the corrections that make what it charged there
// into what o would have been charged. There is at least one.
//
// The limits are found again by matching the same request. Those that have
// since left the rules have no counters left to correct, nor have those that the node
// counted alone and the nodes count together since, or the other way round.
func (s *Reserver) findSlots(t *ticket, o outcome) (slots []slot) {
	r := s.limiter.Acquire()
	defer s.limiter.Recycle(r)
	t.fillRequest(r)
	// What a request of another cost would be charged tells which charges
	// follow the request's cost, and which the rules or a descriptor fix.
	actual := o.actual()
	r.Cost = actual
	if actual == 0 {
		r.Cost = t.reservedCost() + 1
	}
	left := slices.Clone(t.charges)
	for _, op := range s.limiter.Match(r) {
		_, alone := weir.NodeOf(s.limiter.Store(), op.Limit)
		c, ok := pickCharge(left, identity(&op, alone))
		if !ok {
			continue
		}
		i := slices.IndexFunc(slots, func(p slot) bool { return p.key == op.Key && p.alone == alone })
		if i < 0 {
			// The key may lie in r's buffer, which is about to be given back.
			i, slots = len(slots), append(slots, slot{key: strings.Clone(op.Key), alone: alone})
		}
		p := &slots[i]
		diff := op.Cost - c.cost
		if o == canceled || actual == 0 && diff != 0 {
			diff = -c.cost
		}
		switch {
		case diff < 0:
			p.ops = append(p.ops, c.refundOp(p.key, op.Limit, -diff))
		case diff > 0:
			p.ops = append(p.ops, weir.Op{Key: p.key, Limit: op.Limit, Cost: diff, Role: weir.Always, Verb: weir.Force})
		}
	}
	if len(slots) == 0 {
		return []slot{{key: string(t.id[:])}}
	}
	return slots
}

// refundOp returns the op that gives back units of the charge to the counter of l, less
// those that have flowed in since: at the rate by which it was charged or at that of l,
// which may be another by now, whichever is higher.
func (c *charge) refundOp(key string, l *weir.Limit, units int64) weir.Op {
	if c.charged == 0 {
		return weir.Op{Key: key, Limit: l, Cost: units, ID: c.receipt, Role: weir.Always, Verb: weir.Refund}
	}
	charged := weir.Op{Key: key, Limit: l, Cost: c.cost,
		Answer: weir.Answer{Now: c.charged, Decision: weir.Decision{ResetAfter: micros.Duration(c.receipt - c.charged)}}}
	if c.count != l.Count || c.period != micros.Of(l.Period) {
		if old, err := l.Variant(c.count, micros.Duration(c.period), l.Burst); err == nil {
			charged.Limit = old
		}
	}
	u := charged.UndoRest(units)
	if u.Limit != l && !c.isFaster(l) {
		if u.Limit = l; u.FlowsFrom > 1 { // else all has flowed in
			u.FlowsFrom = l.Algorithm.(weir.Refiller).FlowsFrom(l, c.charged, c.charged, c.cost-units)
		}
	}
	return u
}

// isFaster reports whether the charge was made at a higher rate than that of l.
func (c *charge) isFaster(l *weir.Limit) bool {
	hi, lo := bits.Mul64(uint64(c.count), uint64(micros.Of(l.Period)))
	hiOfL, loOfL := bits.Mul64(uint64(l.Count), uint64(c.period))
	return hi > hiOfL || hi == hiOfL && lo > loOfL
}

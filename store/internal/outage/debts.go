package outage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

const (
	// atOnce is how many debts are paid at a time, retryAfter how long one waits that
	// cannot be charged, in microseconds.
	atOnce, retryAfter = 16, 500_000
	// payFor is how long Pay begins payments, in microseconds: who pays has other work.
	payFor = 1_000_000
	// debtBytes is what a debt takes beside its key: itself, and its place in two lists.
	debtBytes = int64(unsafe.Sizeof(debt{})) + 64
)

// A debt is what the node has admitted of a key by its share. All but begin is guarded by
// the lock of the debts.
type debt struct {
	tag   uint64
	key   string
	begin sync.Once // sets up the share; failed is why it could not
	// limit is that of the newest decision. share is the largest that the key had, as a
	// reload lowers a limit: a smaller one does not show all that is used. users is how
	// many decisions are under way.
	failed       error
	limit, share *weir.Limit
	users        int
	// taken is what the share goes back by: what was known to be gone, and what was admitted,
	// but for what the store perhaps does not count.
	owed, taken int64
	due         clock.Node // never while a payment is under way
	ended       bool
}

// CountDebts returns how many keys owe something, or will.
func (u *Outage) CountDebts() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.debts)
}

// Owes reports whether the key of an op owes something, or will.
func (u *Outage) Owes(o *weir.Op) bool {
	tag := u.Table.TagForKey(o.Key, o.Limit)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.debts[tag] != nil
}

// openDebt returns the debt of a key, its share set up, and what is owed. The decision must
// release it. It is nil if there is no room for it, or o gives units back and none is owed.
func (u *Outage) openDebt(o *weir.Op, share *weir.Limit, parts int64) (d *debt, owed int64, err error) {
	tag, size := u.Table.TagForKey(o.Key, o.Limit), int64(len(o.Key))+debtBytes
	u.mu.Lock()
	if d = u.debts[tag]; d == nil {
		if o.Verb == weir.Refund || u.bytes+size > u.max {
			u.mu.Unlock()
			return nil, 0, nil
		}
		d = &debt{tag: tag, key: strings.Clone(o.Key)}
		u.bytes += size
		u.debts[tag], u.order = d, append(u.order, d)
	}
	if d.limit = o.Limit; d.share == nil || share.Burst > d.share.Burst {
		d.share = share
	}
	d.users++
	owed = d.owed
	u.mu.Unlock()
	d.begin.Do(func() { d.failed = u.seedShare(d, o, share, parts) })
	return d, owed, d.failed
}

// seedShare charges a new share with its part of what was last known to be gone.
func (u *Outage) seedShare(d *debt, o *weir.Op, share *weir.Limit, parts int64) error {
	remaining, known := u.Refusals.KnownRemaining(d.tag, o.Limit, u.Clock.Now())
	if gone := share.Burst - min(remaining/parts, share.Burst); known && gone > 0 {
		u.changeDebt(d, 0, gone)
		return u.Local.Take(context.Background(), []weir.Op{{Key: o.Key, Limit: share, Cost: gone, Role: weir.Always, Verb: weir.Force}})
	}
	return nil
}

// changeDebt notes that so many more units are owed and taken of the share, or fewer, and
// returns how many of those were not owed.
func (u *Outage) changeDebt(d *debt, owed, taken int64) (rest int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	d.taken += taken
	rest = max(-owed-d.owed, 0)
	d.owed = min(d.owed+owed+rest, weir.MaxCost)
	return rest
}

// PayDebts begins to charge the store with the debts of shards that answer, as costs that were
// incurred, and gives back the shares of those that end. It must not be called
// concurrently. What cannot be charged is tried again by a later call. It tries each debt
// once, and none that it has not begun with after a second; left is how many those are.
func (u *Outage) PayDebts() (left int, err error) {
	due := u.payable()
	end := u.Clock.Now().Add(payFor)
	for some := range slices.Chunk(due, atOnce) {
		if u.Clock.Now() >= end {
			return len(due), nil
		}
		due = due[len(some):]
		var calls [][]weir.Op
		var paid []*debt
		for _, d := range some {
			if o, err := u.payment(d); err != nil {
				return len(due), err
			} else if o.Cost > 0 {
				u.delayDebt(d, clock.Never)
				calls, paid = append(calls, []weir.Op{o}), append(paid, d)
			}
		}
		u.Once(calls, func(i int, sent clock.Node, err error) { u.finishPayment(paid[i], &calls[i][0], sent, err) })
	}
	return 0, nil
}

// payable returns the debts that are due and that no decision uses.
func (u *Outage) payable() (due []*debt) {
	now := u.Clock.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.order = slices.DeleteFunc(u.order, func(d *debt) bool { return d.ended })
	for _, d := range u.order {
		if d.due <= now && d.users == 0 {
			due = append(due, d)
		}
	}
	return due
}

// payment returns the op that charges what is owed. What has come back into the share
// since is not. Where nothing is, the cost is zero, and the debt ends: the store counts
// what was admitted, and the share goes back. The debt ends before, so that a decision
// that begins another finds the share used by too much, never by too little. The cost is
// zero too where a decision came between.
func (u *Outage) payment(d *debt) (weir.Op, error) {
	if u.IsOpen(d.key) {
		u.delayDebt(d, u.Clock.Now().Add(retryAfter))
		return weir.Op{}, nil
	}
	u.mu.Lock()
	o := weir.Op{Key: d.key, Limit: d.limit, Role: weir.Always, Verb: weir.Force}
	look, taken := []weir.Op{{Key: d.key, Limit: d.share, Cost: 1, Verb: weir.Peek}}, d.taken
	u.mu.Unlock()
	if err := u.Local.Take(context.Background(), look); err != nil {
		return weir.Op{}, err
	}
	used := max(look[0].Limit.Burst-look[0].Decision.Remaining, 0)
	u.mu.Lock()
	if d.users > 0 || d.taken != taken { // used is not of what is owed now
		u.mu.Unlock()
		return o, nil
	}
	d.owed = min(d.owed, used)
	if o.Cost = d.owed; o.Cost > 0 {
		u.mu.Unlock()
		return o, nil
	}
	delete(u.debts, d.tag)
	u.bytes -= int64(len(d.key)) + debtBytes
	d.ended = true
	look[0].Cost, look[0].Role, look[0].Verb = min(used, max(d.taken, 0)), weir.Always, weir.Refund
	u.mu.Unlock()
	return o, u.Local.Take(context.Background(), look)
}

// finishPayment ends the payment of a debt, which was answered if err is nil.
func (u *Outage) finishPayment(d *debt, o *weir.Op, sent clock.Node, err error) {
	u.delayDebt(d, u.Clock.Now().Add(retryAfter))
	switch {
	case err == nil:
		u.Paid.Add(uint64(o.Cost))
		// A share that is set up next begins with what is left now.
		u.Refusals.LearnAnswer(d.tag, o.Limit, o.Cost, sent, o.Decision, 0)
		if rest := u.changeDebt(d, -o.Cost, 0); rest > 0 { // it was given back while it was paid
			back := o.Undo(rest)
			u.returnUnits(&back, rest, false)
		}
	case errors.Is(err, transport.ErrLate) && transport.MayRun(err):
		lost := o.Cost - u.changeDebt(d, -o.Cost, 0)
		u.changeDebt(d, 0, -lost)
		u.Lost.Add(uint64(lost))
	default:
		return
	}
	if o, err := u.payment(d); err != nil || o.Cost > 0 { // else it has ended
		u.delayDebt(d, 0)
	}
}

// delayDebt has a debt tried again from an instant on.
func (u *Outage) delayDebt(d *debt, until clock.Node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	d.due = until
}

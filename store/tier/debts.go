package tier

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A debt is what a node has admitted of a key while the shared store was away.
type debt struct {
	key   string
	limit *weir.Limit
	// share is what it was admitted by, on the node's own store.
	share *weir.Limit
	spent int64
	// due is when it is tried again, in the node's time.
	due int64
	// users are the decisions under way on the share. It is not given back before they
	// have ended: what they admit is a debt.
	users int
	// unsure are units of which nobody knows whether the shared store counts them: the
	// share stays used by them.
	unsure int64
}

// debtBytes is what a debt takes beside its key.
const debtBytes = 160

// Debts are written back when the shared store answers again, as costs that were
// incurred: whoever spent while it was away waits the longer after. They are
// bounded in bytes; what is admitted beyond is not written back, and counted.
//
// Safe for concurrent use.
type debts struct {
	// opening is held while a share begins, so that nobody is admitted by it before
	// what is known to be gone is taken from it. The node's own store is called under
	// it, and mu is taken.
	opening sync.Mutex

	mu       sync.Mutex
	all      map[uint64]*debt
	bytes    int64
	maxBytes int64

	paid, lost atomic.Uint64 // units
}

// open returns whether the debt of a key is new, and makes it. It is kept until
// release. It reports false as ok when there is no room.
func (ds *debts) open(tag uint64, key string, l, share *weir.Limit) (fresh, ok bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d := ds.all[tag]; d != nil {
		d.limit, d.share = l, share
		d.users++
		return false, true
	}
	size := int64(len(key)) + debtBytes
	if ds.bytes+size > ds.maxBytes {
		return false, false
	}
	ds.bytes += size
	ds.all[tag] = &debt{key: strings.Clone(key), limit: l, share: share, users: 1}
	return true, true
}

// release ends what open or owed began.
func (ds *debts) release(tag uint64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.all[tag].users--
}

// add adds cost units.
func (ds *debts) add(tag uint64, cost int64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.all[tag]
	if d == nil {
		ds.lost.Add(uint64(cost))
		return
	}
	d.spent = min(d.spent+cost, weir.MaxCost)
}

// owed returns what a key owes, if it has a debt, which is then kept until release.
func (ds *debts) owed(tag uint64) (units int64, ok bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.all[tag]
	if d == nil {
		return 0, false
	}
	d.users++
	return d.spent, true
}

// payable returns up to n debts that are due by now, as they are, but for those of
// which nothing is owed yet.
func (ds *debts) payable(n int, now int64) map[uint64]debt {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	some := make(map[uint64]debt, n)
	for tag, d := range ds.all {
		if len(some) == n {
			break
		}
		if d.due <= now && (d.spent > 0 || d.users == 0) {
			some[tag] = *d
		}
	}
	return some
}

// pay notes that so many units of a debt are not owed any more, and returns how many
// of them were not owed. It reports whether nothing is from now on.
func (ds *debts) pay(tag uint64, units int64) (rest int64, clear bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.all[tag]
	if d == nil {
		return units, false
	}
	rest = max(units-d.spent, 0)
	d.spent -= units - rest
	return rest, d.spent == 0
}

// keep is pay for units of which nobody knows whether the shared store counts them.
func (ds *debts) keep(tag uint64, units int64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d := ds.all[tag]; d != nil {
		d.spent -= min(units, d.spent)
		d.unsure = min(d.unsure+units, weir.MaxCost)
	}
}

// postpone keeps a debt from being tried until then.
func (ds *debts) postpone(tag uint64, until int64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d := ds.all[tag]; d != nil {
		d.due = until
	}
}

// forget takes out a debt of which nothing is owed and that nobody uses, and reports
// whether it did.
func (ds *debts) forget(tag uint64) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.all[tag]
	if d == nil || d.spent > 0 || d.users > 0 {
		return false
	}
	delete(ds.all, tag)
	ds.bytes -= int64(len(d.key)) + debtBytes
	return true
}

func (ds *debts) len() int {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return len(ds.all)
}

// debtsAtOnce is how many debts one call pays.
const debtsAtOnce = 16

// payDebts writes back what was admitted while the shared store was away, and
// still counts. It stops at the first call that fails. A call that was not
// answered in time is not made again: it may have been carried out, and nobody
// shall pay twice. One that failed at once is: should it have been carried out
// all the same, too little is admitted for a while, and never too much.
//
// The share by which it was admitted is given back when the shared store has counted
// it, and not before: while a part of the store is away, the share is handed out once.
func (s *Store) payDebts() error {
	for {
		some := s.debts.payable(debtsAtOnce, s.link.now())
		if len(some) == 0 {
			return nil
		}
		ops := make([]weir.Op, 0, len(some))
		tags := make([]uint64, 0, len(some))
		for tag, d := range some {
			used, err := s.shareUsed(&d)
			if err != nil {
				return err
			}
			// What has come back into the share since is not owed.
			owed := min(d.spent, used)
			if _, clear := s.debts.pay(tag, d.spent-owed); clear {
				if err := s.returnShare(tag, &d); err != nil {
					return err
				}
				continue
			}
			if owed == 0 {
				continue // what has been admitted since is looked at in the next round
			}
			ops = append(ops, weir.Op{Key: d.key, Limit: d.limit, Cost: owed, Role: weir.Always, Verb: weir.Force})
			tags = append(tags, tag)
		}
		if len(ops) == 0 {
			continue
		}
		paid := func(i int) error {
			o := &ops[i]
			rest, clear := s.debts.pay(tags[i], o.Cost)
			if rest > 0 {
				// Units were given back while it was paid.
				back := o.Undo(rest)
				s.returnLater(&back)
			}
			if d := some[tags[i]]; clear {
				return s.returnShare(tags[i], &d)
			}
			return nil
		}
		if err := s.pay(ops, tags, paid); err != nil {
			return err
		}
	}
}

// pay pays with one call, or where a part of the store is away with one for each,
// so that debts there do not hold up others: they are tried again later. paid is told
// which are not owed any more.
func (s *Store) pay(ops []weir.Op, tags []uint64, paid func(i int) error) error {
	err := s.force(ops)
	switch {
	case err == nil:
		s.debts.paid.Add(units(ops))
		for i := range ops {
			err = errors.Join(err, paid(i))
		}
	case errors.Is(err, transport.ErrLate):
		// The share stays used: nobody knows whether the store counts the units.
		s.debts.lost.Add(units(ops))
		for i := range ops {
			s.debts.keep(tags[i], ops[i].Cost)
			s.debts.forget(tags[i])
		}
	case partial(err) && len(ops) > 1:
		for i := range ops {
			if one := s.pay(ops[i:i+1], tags[i:i+1], func(int) error { return paid(i) }); one != nil {
				err = one
			}
		}
	case partial(err):
		s.debts.postpone(tags[0], s.link.now()+2*s.probing.Microseconds())
	}
	return err
}

func units(ops []weir.Op) (n uint64) {
	for i := range ops {
		n += uint64(ops[i].Cost)
	}
	return n
}

// force charges what ops say.
func (s *Store) force(ops []weir.Op) error {
	sent, err := s.link.takeLater(ops)
	if err == nil {
		// A share that is handed out next begins with what is left now.
		s.learn(ops, sent)
	}
	return err
}

// shareUsed returns how much of a share is in use.
func (s *Store) shareUsed(d *debt) (int64, error) {
	look := []weir.Op{{Key: d.key, Limit: d.share, Cost: 1, Verb: weir.Peek}}
	if err := s.local.Take(context.Background(), look); err != nil {
		return 0, err
	}
	return max(d.share.Burst-look[0].Decision.Remaining, 0), nil
}

// returnShare makes a share as if never used, but for what the shared store perhaps
// does not count, and forgets its debt, of which nothing is owed: the shared store
// counts the rest from now on. If somebody is being admitted by the share, it stays as
// it is, until it is tried again.
//
// The debt is forgotten first. Who opens it anew meanwhile finds the share used by
// more than it will be, and never by less.
func (s *Store) returnShare(tag uint64, d *debt) error {
	used, err := s.shareUsed(d)
	if err != nil || !s.debts.forget(tag) {
		return err
	}
	back := []weir.Op{{Key: d.key, Limit: d.share, Cost: max(used-d.unsure, 0), Role: weir.Always, Verb: weir.Refund}}
	return s.local.Take(context.Background(), back)
}

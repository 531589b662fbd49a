package tier

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// A debt is what a node has admitted of a key while the shared store was away.
type debt struct {
	key   string
	limit *weir.Limit
	// share is what it was admitted by, on the node's own store.
	share *weir.Limit
	spent int64
}

// debtBytes is what a debt takes beside its key.
const debtBytes = 160

// Debts are written back when the shared store answers again, as costs that were
// incurred: whoever spent while it was away waits the longer after. They are
// bounded in bytes; what is admitted beyond is not written back, and counted.
//
// Safe for concurrent use.
type debts struct {
	mu       sync.Mutex
	all      map[uint64]*debt
	bytes    int64
	maxBytes int64

	paid, lost atomic.Uint64 // units
}

// open returns whether the debt of a key is new, and makes it. It reports false
// as ok when there is no room.
func (ds *debts) open(tag uint64, key string, l, share *weir.Limit) (fresh, ok bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d := ds.all[tag]; d != nil {
		d.limit, d.share = l, share
		return false, true
	}
	size := int64(len(key)) + debtBytes
	if ds.bytes+size > ds.maxBytes {
		return false, false
	}
	ds.bytes += size
	ds.all[tag] = &debt{key: strings.Clone(key), limit: l, share: share}
	return true, true
}

// add adds cost units, less than none for units given back.
func (ds *debts) add(tag uint64, cost int64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.all[tag]
	if d == nil {
		ds.lost.Add(uint64(max(cost, 0)))
		return
	}
	d.spent = min(max(d.spent+cost, 0), weir.MaxCost)
}

// take takes out up to n debts.
func (ds *debts) take(n int) map[uint64]*debt {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	some := make(map[uint64]*debt, n)
	for tag, d := range ds.all {
		if len(some) == n {
			break
		}
		some[tag] = d
		delete(ds.all, tag)
		ds.bytes -= int64(len(d.key)) + debtBytes
	}
	return some
}

// putBack keeps a debt that could not be paid. What was admitted meanwhile is
// added.
func (ds *debts) putBack(tag uint64, d *debt) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if now := ds.all[tag]; now != nil {
		now.spent = min(now.spent+d.spent, weir.MaxCost)
		return
	}
	ds.all[tag] = d
	ds.bytes += int64(len(d.key)) + debtBytes
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
func (s *Store) payDebts() error {
	for s.debts.len() > 0 {
		some := s.debts.take(debtsAtOnce)
		ops := make([]weir.Op, 0, len(some))
		tags := make([]uint64, 0, len(some))
		for tag, d := range some {
			used, err := s.settleShare(d)
			if err != nil {
				s.debts.putBack(tag, d)
				return err
			}
			if owed := min(d.spent, used); owed > 0 {
				ops = append(ops, weir.Op{Key: d.key, Limit: d.limit, Cost: owed, Role: weir.Always, Verb: weir.Force})
				tags = append(tags, tag)
			}
		}
		if len(ops) == 0 {
			continue
		}
		keep := func(i int) {
			d := some[tags[i]]
			// The share was given back: it is charged again.
			s.chargeShare(d, ops[i].Cost)
			s.debts.putBack(tags[i], d)
		}
		if err := s.pay(ops, keep); err != nil {
			return err
		}
	}
	return nil
}

// pay pays with one call, or where a part of the store is away with one for each,
// so that debts there do not hold up others. keep is told which are still owed.
func (s *Store) pay(ops []weir.Op, keep func(i int)) error {
	err := s.force(ops)
	switch {
	case err == nil:
		s.debts.paid.Add(units(ops))
	case errors.Is(err, errLate):
		s.debts.lost.Add(units(ops))
	case partial(err) && len(ops) > 1:
		for i := range ops {
			if one := s.pay(ops[i:i+1], func(int) { keep(i) }); one != nil {
				err = one
			}
		}
	default:
		for i := range ops {
			keep(i)
		}
	}
	return err
}

func units(ops []weir.Op) (n uint64) {
	for i := range ops {
		n += uint64(ops[i].Cost)
	}
	return n
}

// force charges what ops say, for the other regions too.
func (s *Store) force(ops []weir.Op) error {
	companions, err := s.companions(ops)
	if err != nil {
		return err
	}
	all := append(slices.Clip(ops), companions...)
	if _, err := s.link.takeLater(all); err != nil {
		return err
	}
	s.accompanied(all[:len(ops)], all[len(ops):])
	return nil
}

// settleShare returns how much of a share is in use, and gives it back: the
// shared store counts it from now on.
func (s *Store) settleShare(d *debt) (int64, error) {
	look := []weir.Op{{Key: d.key, Limit: d.share, Cost: 1, Verb: weir.Peek}}
	if err := s.local.Take(context.Background(), look); err != nil {
		return 0, err
	}
	used := d.share.Burst - look[0].Decision.Remaining
	if used <= 0 {
		return 0, nil
	}
	back := []weir.Op{{Key: d.key, Limit: d.share, Cost: used, Role: weir.Always, Verb: weir.Refund}}
	return used, s.local.Take(context.Background(), back)
}

// chargeShare counts cost units of a share as used.
func (s *Store) chargeShare(d *debt, cost int64) {
	ops := []weir.Op{{Key: d.key, Limit: d.share, Cost: cost, Role: weir.Always, Verb: weir.Force}}
	if err := s.local.Take(context.Background(), ops); err != nil {
		s.log.Error("tier: a share could not be charged", "err", err)
	}
}

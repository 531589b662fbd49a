package region

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
)

// limitLife is how long a limit is known that is not in use, in microseconds.
const limitLife = 3_600_000_000

// Join has a limit be counted by all regions together from now on, if it can be, see
// [Check], and if it says eventual or nothing; variants of it on the same counters are
// counted with it. It returns how many regions divide it, one if each counts it alone,
// and how many units one may admit that the others do not know of. A store that asks by
// variants of a limit must join it before, and again when it has changed.
func (s *Store) Join(l *weir.Limit) (regions int, most int64, err error) {
	r, err := s.joinLimit(l)
	if r == nil {
		return 1, weir.MaxCost, err
	}
	return len(s.peers) + 1, r.cap, nil
}

// An entry is what limits of one ID are counted by, since it was last used.
type entry struct {
	limit     *weir.Limit
	*regional // nil if each region counts them alone
	used      atomic.Int64
}

func (s *Store) joinLimit(l *weir.Limit) (*regional, error) {
	if v, ok := s.limits.Load(l.ID()); ok && v.(*entry).limit == l {
		return v.(*entry).regional, nil
	}
	e, m := &entry{limit: l}, l.Consistency.Mode
	if l.Traits()&weir.Sketches == 0 && (m == params.ConsistencyDefault || m == params.ConsistencyEventual) && Check(l, len(s.peers)+1) == nil {
		var err error
		if e.regional, err = newRegional(l, s.name, len(s.peers)+1); err != nil {
			return nil, err
		}
	}
	e.used.Store(int64(s.clock.Now()))
	s.limits.Store(l.ID(), e)
	return e.regional, nil
}

// regionalOf returns how the limit of an op is counted, nil if it is by this region alone or the
// op changes nothing.
func (s *Store) regionalOf(o *weir.Op) (*regional, error) {
	if o.Role == weir.Deny || o.Verb == weir.Peek || o.Cost == 0 {
		return nil, nil
	}
	if v, ok := s.limits.Load(o.Limit.ID()); ok {
		e := v.(*entry)
		e.used.Store(int64(s.clock.Now()))
		return e.regional, nil
	}
	return s.joinLimit(o.Limit)
}

// sweepIdle forgets keys and limits that are not in use. A limit stays for longer than a store
// that has joined it knows it.
func (s *Store) sweepIdle() {
	now := s.clock.Now()
	s.table.sweepKeys(now, s.storeTime())
	s.limits.Range(func(id, v any) bool {
		if int64(now)-v.(*entry).used.Load() > limitLife {
			s.limits.Delete(id)
		}
		return true
	})
}

// storeTime is the own store's time, as far as it is known.
func (s *Store) storeTime() int64 { return int64(s.clock.Latest(s.clock.Now())) }

func (s *Store) counterTag(key string, l *weir.Limit) uint64 {
	return maphash.String(s.seed, key) ^ l.ID()
}

package reserve_test

import (
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// mapStore keeps rows in a map; its time is the tester's.
type mapStore struct {
	mu   sync.Mutex
	now  int64
	rows map[string][]int64
	err  error
}

func newStore() *mapStore { return &mapStore{now: 1_700_000_000_000_000, rows: map[string][]int64{}} }

func (s *mapStore) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += d.Microseconds()
}

func (s *mapStore) row(o *weir.Op) []int64 {
	k := o.Limit.Scope + "|" + o.Limit.Algorithm.Name() + "|" + o.Limit.Layout + "|" + o.Key
	if s.rows[k] == nil {
		s.rows[k] = make([]int64, o.Limit.Cells)
	}
	return s.rows[k]
}

func (s *mapStore) Take(_ context.Context, ops []weir.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	for i := range ops {
		o := &ops[i]
		o.Now = s.now
		o.Decision = o.Limit.Algorithm.Step(s.row(o), o.Limit, weir.Ask{Now: s.now, Cost: o.Cost + o.Reserve, ID: o.ID, Verb: weir.Peek})
	}
	weir.Settle(ops)
	for i := range ops {
		if o := &ops[i]; o.Charged {
			o.Decision = o.Limit.Algorithm.Step(s.row(o), o.Limit, weir.Ask{Now: s.now, Cost: o.Cost, ID: o.ID, Verb: o.Commit()})
		}
	}
	return nil
}

func (s *mapStore) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	ops := []weir.Op{{Key: key, Limit: l, Cost: cost}}
	err := s.Take(ctx, ops)
	return ops[0].Decision, err
}

func (s *mapStore) Close() error { return nil }

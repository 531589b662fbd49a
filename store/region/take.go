package region

import (
	"context"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	o := weir.Op{Key: key, Limit: l, Cost: cost}
	if r, err := s.of(&o); r == nil && err == nil {
		return s.own.TakeOne(ctx, key, l, cost)
	}
	ops := []weir.Op{o}
	err := s.Take(ctx, ops)
	return ops[0].Decision, err
}

// Take implements weir.Store. It charges the own store with ops, and in the same call
// counts them for the other regions. What these must know of before is refused with the
// retry of a push, from weir.FromCounts.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	a, err := s.ask(ops, false, clock.Never)
	if a == nil && err == nil {
		return s.own.Take(ctx, ops)
	}
	for more := true; more && err == nil; {
		if err = s.own.Take(ctx, a.all); err == nil {
			more, err = a.hear()
		}
	}
	return err
}

// countTurned counts an op in the window that charged it, in the background: until then
// this node spends as many fewer in it. The counter of the window that is over stays too
// high, which costs nothing there.
func (s *Store) countTurned(r *regional, c *epochCounters, o *weir.Op) {
	k := outboundKey{s.tag(o.Key, o.Limit), c.end}
	charge := weir.Op{Key: strings.Clone(o.Key), Limit: c.own, Cost: o.Cost, Role: weir.Always, Verb: weir.Force}
	s.table.hold(k, charge.Cost)
	s.queue.Go(func() {
		ops := []weir.Op{charge}
		sent, err := s.queue.Later(ops)
		if err != nil {
			s.log.Warn("units charged at the end of a window not sent to other regions: the store is unavailable", "limit", r.limit.Name, "units", charge.Cost, "error", err)
			return // they are held until the window ends
		}
		s.table.update(r, c, k.tag, charge.Key, count(&ops[0]), 0, sent, s.clock.Now())
		s.table.hold(k, -charge.Cost)
	})
}

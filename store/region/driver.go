package region

import (
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

var _ transport.Driven = (*Store)(nil)

// Driver implements transport.Driven by the own store's driver, which gets calls with the
// counters of the region.
func (s *Store) Driver() (transport.Driver, transport.Tuning) {
	d, t := transport.DriverOf(s.own)
	t.Send = s.send
	return d, t
}

// send has the own driver carry out calls, each of those that regions count together by
// calls of its own.
func (s *Store) send(own transport.Driver, shard int, calls []*transport.Call) {
	alone := calls[:0]
	var pending *transport.Group
	for _, c := range calls {
		if !s.joins(c.Ops) {
			alone = append(alone, c)
			continue
		}
		if pending == nil {
			pending = transport.NewGroup(s.env)
		}
		pending.Go(func() { c.Finish(s.decide(c)) })
	}
	if len(alone) > 0 {
		own.Send(shard, alone)
	}
	if pending != nil {
		pending.Wait()
	}
}

// decide decides the ops of a call within its time.
func (s *Store) decide(c *transport.Call) (r *transport.Result) {
	ends := s.clock.Now().Add(c.Within.Microseconds())
	err := asking{s, c.Undoes, func(all []weir.Op) error {
		if r := c.Ask(all, time.Duration(ends-s.clock.Now())*time.Microsecond); r != nil {
			return r
		}
		return nil
	}}.take(c.Ops)
	if err != nil && !errors.As(err, &r) {
		r = &transport.Result{Outcome: transport.Rejected, Err: err}
	}
	return r
}

package region

import (
	"time"

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

// send has the own driver carry out calls, those with counters in a call of their own.
func (s *Store) send(own transport.Driver, shard int, calls []*transport.Call) {
	made := calls[:0]
	for _, c := range calls {
		a, err := s.ask(c.Ops, c.Undoes, s.clock.Now().Add(c.Within.Microseconds()))
		switch {
		case err != nil:
			c.Finish(&transport.Result{Outcome: transport.Rejected, Err: err})
		case a == nil:
			made = append(made, c)
		default:
			made = append(made, a.callFor(c, own, shard))
		}
	}
	if len(made) > 0 {
		own.Send(shard, made)
	}
}

// callFor returns the call that is made for c, which finishes c or is followed by another.
func (a *asking) callFor(c *transport.Call, own transport.Driver, shard int) *transport.Call {
	return c.Sub(a.all, time.Duration(a.ends-a.clock.Now())*time.Microsecond, func(made *transport.Call, r *transport.Result) {
		first, more := len(a.ops) == len(c.Ops), false
		if r == nil {
			var err error
			if more, err = a.hear(); err != nil {
				more, r = false, &transport.Result{Outcome: transport.Rejected, MayRun: true, Err: err}
			}
			c.Renewed = append(c.Renewed[:0], made.Renewed[:min(len(made.Renewed), len(c.Ops))]...)
		} else if !first {
			all := *r
			all.MayRun, r = true, &all // those before have run
		}
		if more {
			if a.clock.Now() < a.ends && a.queue.Go(func() { own.Send(shard, []*transport.Call{a.callFor(c, own, shard)}) }) {
				return
			}
			r = &transport.Result{Outcome: transport.Late, MayRun: true, Excused: true, Err: transport.ErrLate}
		}
		c.Finish(r)
	})
}

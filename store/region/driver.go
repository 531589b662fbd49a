package region

import (
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

var _ transport.Driven = (*Store)(nil)

// inside has what the other packages of this module ask of a Store, with types that no program
// can name. It is embedded, so that a Store has it and its documentation does not.
type inside struct{ of *Store }

// Driver implements transport.Driven by the own store's driver, which gets calls with the
// counters of the region. As many calls are under way at a time as that wants, and none waits
// for the others of a batch, as it may be made several times.
func (in inside) Driver() (transport.Driver, transport.Tuning) {
	s := in.of
	d, t := transport.DriverOf(s.own)
	t.Workers, t.Batch, t.Send = t.Workers*max(t.Batch, 1), 1, s.sendBatch
	return d, t
}

// sendBatch has the own driver carry out the call of a batch, which is one, or calls in its stead.
func (s *Store) sendBatch(own transport.Driver, shard int, batch []*transport.Call) {
	if c := batch[0]; s.hasRegionalOp(c.Ops) {
		c.Finish(s.decideCall(c))
	} else {
		own.Send(shard, batch)
	}
}

// decideCall decides the ops of a call within its time.
func (s *Store) decideCall(c *transport.Call) (r *transport.Result) {
	ends := s.clock.Now().Add(c.Within.Microseconds())
	err := asking{s, c.Undoes, func(all []weir.Op) error {
		if r := c.AskDriver(all, time.Duration(ends-s.clock.Now())*time.Microsecond); r != nil {
			return r
		}
		return nil
	}}.takeOps(c.Ops)
	if err != nil && !errors.As(err, &r) {
		r = &transport.Result{Outcome: transport.Rejected, Err: err}
	}
	return r
}

package redis

import (
	"context"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
)

// Inspect returns the state that is kept for key under l, as its script tells it,
// for the eyes of an operator, and whether there is any.
func (s *Store) Inspect(ctx context.Context, key string, l *weir.Limit) (state []int64, found bool, err error) {
	name, p, err := s.locateKey(key, l)
	if err != nil {
		return nil, false, err
	}
	asked, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var there int64
	err = p.askServer(func(client rueidis.Client) (err error) {
		there, err = client.Do(asked, client.B().Exists().Key(name).Build()).AsInt64()
		return err
	})
	if err != nil || there == 0 {
		return nil, false, err
	}
	pl, err := s.plans.planForLimit(l, s.readClock)
	if err != nil {
		return nil, false, err
	}
	c := newCall(pl.single)
	c.keys = append(c.keys, name)
	c.args = append(c.args, "look", "0")
	c.args = pl.appendSpan(c.args, l, 0)
	c.args = append(c.args, pl.consts...)
	if _, err := s.runOutsideQueue(asked, p, c); err != nil {
		return nil, false, err
	}
	state = append(state, c.reply[1:]...)
	c.recycle()
	return state, true, nil
}

// Forget makes key under l as if never seen, and reports whether anything was
// known of it.
func (s *Store) Forget(ctx context.Context, key string, l *weir.Limit) (found bool, err error) {
	name, p, err := s.locateKey(key, l)
	if err != nil {
		return false, err
	}
	names := []string{name}
	if pl, err := s.plans.planForLimit(l, s.readClock); err == nil {
		for _, e := range pl.elderPlans(s.readClock) {
			names = append(names, s.opt.Prefix+":{"+tagForKey(key)+e.suffix)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var n int64
	err = p.askServer(func(client rueidis.Client) (err error) {
		n, err = client.Do(ctx, client.B().Del().Key(names...).Build()).AsInt64()
		return err
	})
	return n > 0, err
}

// Name returns the name of key under l in Redis, for those who look there.
func (s *Store) Name(key string, l *weir.Limit) (string, error) {
	name, _, err := s.locateKey(key, l)
	return name, err
}

func (s *Store) locateKey(key string, l *weir.Limit) (string, route, error) {
	if s.closed.Load() {
		return "", route{}, weir.ErrClosed
	}
	pl, err := s.plans.planForLimit(l, s.readClock)
	if err != nil {
		return "", route{}, err
	}
	t := tagForKey(key)
	return s.opt.Prefix + ":{" + t + pl.suffix, s.nodes.routeTag(t), nil
}

// Check says why the store cannot serve l, nil if it can.
func (s *Store) Check(l *weir.Limit) error { return Check(l) }

// Stats says what a store had to do. Counts are since Open.
type Stats struct {
	// Calls is how many requests were sent to servers, Scripts in how many scripts:
	// those that meet under the same limits go together.
	Calls, Scripts uint64
	// Errors counts decisions that were not made, Timeouts those of them that no
	// server answered in time, Busy those that found too many waiting.
	Errors, Timeouts, Busy uint64
	// Reloads counts scripts that a server did not know and was sent again.
	Reloads uint64
	// Rollbacks counts ops that were charged on one server and given back, as
	// another refused; Lost those of them that could not be given back.
	Rollbacks, Lost uint64
	// Moved counts decisions on keys whose own server of a ring is lost.
	Moved uint64
	// Servers is how many servers of a ring there are, LostServers how many of
	// them are lost. Zero if it is no ring.
	Servers, LostServers int
	// LostSlots is about how many slots of a cluster are on servers that do not
	// answer.
	LostSlots int
	// InFlight is how many calls wait to be sent.
	InFlight int
}

// counters are the counts of Stats.
type counters struct {
	calls, scripts, errors, timeouts, busy, reloads, rollbacks, lost, moved atomic.Uint64
}

// Stats returns what the store had to do so far.
func (s *Store) Stats() Stats {
	c := &s.stats
	st := Stats{
		Calls: c.calls.Load(), Scripts: c.scripts.Load(), Errors: c.errors.Load(), Timeouts: c.timeouts.Load(), Busy: c.busy.Load(),
		Reloads: c.reloads.Load(), Rollbacks: c.rollbacks.Load(), Lost: c.lost.Load(), Moved: c.moved.Load(),
	}
	st.InFlight = s.bound.Load().Waiting()
	switch n := s.nodes.(type) {
	case *cluster:
		st.LostSlots = s.countLostShards() * slots / len(n.shards)
	case *ring:
		st.Servers, st.LostServers = len(n.servers), s.countLostShards()
	}
	return st
}

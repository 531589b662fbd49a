package shared

import (
	"context"
	"errors"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// observe has the clock take over the time of the shard that has answered a call which was
// sent at sent.
func (s *Store) observe(ops []weir.Op, sent clock.Node, err error) error {
	for i := range ops {
		if o := &ops[i]; err == nil && o.Role != weir.Deny {
			s.clock.Observe(s.queue.ShardOfKey(o.Key), clock.Store(o.Now), sent)
			break
		}
	}
	return err
}

// callInBackground makes a call that no decision waits for.
func (s *Store) callInBackground(ops []weir.Op) error {
	sent, err := s.queue.DecideInBackground(ops)
	return s.observe(ops, sent, err)
}

// callEachOnce has each of some calls carried out once, all at the same time, and returns after the
// first try. The ops of each are of one part. It calls end of each when that is over.
func (s *Store) callEachOnce(calls [][]weir.Op, end func(i int, sent clock.Node, err error)) {
	group := transport.NewGroup(s.env)
	for i, ops := range calls {
		group.Go(func() {
			over := func(all []weir.Op, sent clock.Node, err error) {
				copy(ops, all)
				end(i, sent, s.observe(ops, sent, err))
			}
			if s.nodes.countsOnly.Load() { // it has no call that is carried out whole
				sent, err := s.queue.DecideInBackground(ops)
				over(ops, sent, err)
			} else if sent, again, err := s.queue.Repeater.CallOnce(context.Background(), transport.Background, ops, false, over); !again {
				over(ops, sent, err)
			}
		})
	}
	group.Wait()
}

// renewNode renews the node's registration by ask.
func (s *Store) renewNode(ask func([]weir.Op) error) error {
	before := s.nodes.countsOnly.Load()
	err := s.nodes.renewRegistration(ask)
	if !before && s.nodes.countsOnly.Load() {
		s.policies.clear() // it cannot count what is reported once only
		s.log.Info("shared store keeps no register of nodes; the configured number is used", "nodes", s.nodes.least)
	}
	return err
}

// isExcused reports whether err says nothing of the store as a whole.
func (s *Store) isExcused(err error) bool {
	r, ok := errors.AsType[*transport.Result](err)
	return s.maintenance.shards > 1 && !s.queue.IsOpen() || ok && r.Excused
}

// takeLocal decides ops on the node alone.
func (s *Store) takeLocal(ctx context.Context, ops []weir.Op) error {
	if err := s.local.Take(ctx, ops); err != nil {
		return err
	}
	for i := range ops {
		if ops[i].Role != weir.Deny {
			ops[i].Answer = ops[i].WithDecision(relabel(ops[i].Decision, ops[i].Limit))
		}
	}
	return nil
}

// relabel says that d was decided on this node alone.
func relabel(d weir.Decision, l *weir.Limit) weir.Decision {
	if d.Limit == l && l.Traits()&weir.Sketches == 0 {
		d.Limit = l.From(weir.FromLocal)
	}
	return d
}

package shared

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/lateness"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/eventual"
	"github.com/weirlimit/weir/store/internal/leased"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/outage"
	"github.com/weirlimit/weir/store/internal/permit"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Store decides on a store that nodes share. Safe for concurrent use.
type Store struct {
	inside
	shared, local weir.Store
	mode          params.ConsistencyMode
	meter         *lateness.Meter
	clock         *clock.Clock
	env           *transport.Env
	queue         *transport.Queue
	mark          *weir.Limit // of calls that are carried out once
	nodes         *nodes
	policies      policies
	refusals      *lot.Refusals
	returns       *lot.Returns
	table         *lot.Table
	leased        *leased.Env
	eventual      *eventual.Env
	permits       *permit.Env
	outage        *outage.Outage
	decisions     sync.Pool // of *decision
	maintenance   *maintenance
	log           *slog.Logger
	unheard       atomic.Int64 // ops that are owed, of calls that are made again
	closed        atomic.Bool
}

var (
	_ weir.Store     = (*Store)(nil)
	_ weir.NodeStore = (*Store)(nil)
)

// New returns a store over shared, which must end a call when its context ends. Close it
// before shared. The error says which option cannot be. That shared does not answer is no
// error: limits are decided by their policies until it does.
//
// The servers of a store/redis or store/memcached store, also under one of store/region, each
// have a circuit breaker of their own, another store has one. An error of such a store opens
// none if it has a method Partial() bool or Rejected() bool which returns true: it is about some
// of the store's servers, or says that what was asked cannot be decided.
func New(shared weir.Store, opt Options) (*Store, error) {
	if shared == nil {
		return nil, errors.New("shared: no shared store")
	}
	if err := opt.fillDefaults(); err != nil {
		return nil, err
	}
	if node, ok := shared.(transport.Simulated); ok {
		c, env := transport.NewSimulated(node)
		s, err := newStore(shared, &opt, c, nil, env)
		if err == nil {
			s.table.Hash = hashAlike
		}
		return s, err
	}
	c := clock.New(nil, nil)
	if opt.Now != nil {
		c = clock.New(func() clock.Node { return clock.Node(opt.Now()) }, func() clock.Store { return clock.Store(time.Now().UnixMicro()) })
		c.Tolerate(time.Second.Microseconds())
	}
	meter := lateness.New()
	return newStore(shared, &opt, c, meter, transport.NewEnv(c.Now, meter))
}

// hashAlike stands for a key under a limit, and is the same in every process: a simulation can
// be repeated.
func hashAlike(key string, l *weir.Limit) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, part := range [...]string{key, l.Scope, l.Algorithm.Name(), l.Layout} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
		h = (h ^ 0x1f) * 1099511628211
	}
	return max(h, 1)
}

// newStore returns a store of a node whose time is that of c, and which is late as a meter
// says; nil: never.
func newStore(shared weir.Store, opt *Options, c *clock.Clock, meter *lateness.Meter, env *transport.Env) (s *Store, err error) {
	s = &Store{mark: transport.NewMark(algorithm.FixedWindow), shared: shared, local: opt.Local, mode: opt.Mode, log: opt.Logger, meter: meter, clock: c, env: env}
	s.inside = inside{s}
	if s.nodes, err = newNodes(opt, env.Rand); err != nil {
		meter.Close()
		return nil, fmt.Errorf("shared: %w", err)
	}
	s.maintenance = newMaintenance(s, opt)
	s.policies.make = s.newPolicy
	s.decisions.New = func() any { return &decision{Store: s} }
	s.refusals = lot.NewRefusals(opt.MaxBytes/8, opt.RefusalLife.Microseconds())
	s.returns = lot.NewReturns(opt.MaxBytes/8, s.maintenance.hurryReturns)
	s.table = lot.NewTable(opt.MaxBytes/8*5, s.returns)
	s.wireDeciders(opt)
	s.queue = s.newQueue(opt)
	// No decision waits yet: a store, or a node, that is busy for a moment just now is not out.
	if err := s.renewNode(s.callInBackground); err != nil && !s.isExcused(err) {
		s.queue.TripBreaker(0, err)
	}
	s.maintenance.running.Go(s.maintenance.renewAndPay)
	s.maintenance.running.Go(s.maintenance.runSweeps)
	return s, nil
}

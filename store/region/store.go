package region

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// MaxRegions is how many regions there can be.
const MaxRegions = 64

// A Peer is the store of another region.
type Peer struct {
	// Name is the region's, the same in all regions.
	Name string
	// Store must end a call when its context ends. It is its owner's to close, after the
	// region's.
	Store weir.Store
}

// Options configures a [Store].
type Options struct {
	// Name is this region's, and Peers are the others. Both are required.
	Name  string
	Peers []Peer
	// PeerTimeout is the longest that a peer is waited for; no decision waits. Zero means a
	// second.
	PeerTimeout time.Duration
	// MaxBytes bounds the memory of what is to be reported. Zero means 8 MiB.
	MaxBytes int64
	// ProbeEvery is how often a store is tried whose breaker is open. Zero means 250
	// milliseconds.
	ProbeEvery time.Duration
	// Now is the node's monotonic time in microseconds, for tests and replays. Nil means the
	// process's own.
	Now func() int64
	// Logger gets a line when a peer goes out and when it is back. Nil means none.
	Logger *slog.Logger
}

// Store is the store of one region, on which it counts together with others. Safe for
// concurrent use.
type Store struct {
	inside
	own      weir.Store
	name     string
	seed     maphash.Seed
	clock    *clock.Clock
	env      *transport.Env
	queue    *transport.Queue // of what no decision waits for
	peers    []*peer
	limits   sync.Map // of *regional by Limit.ID, nil for limits that each region counts alone
	log      *slog.Logger
	probe    *weir.Limit     // by which a store is asked that may be out: any will do
	ctx      context.Context // ends when the loop is to
	stop     context.CancelFunc
	loop     *transport.Group
	closing  sync.Once
	table    *table
	pushing  atomic.Int64 // how many pushes are under way
	capped   atomic.Uint64
	overshot atomic.Int64
}

var (
	_ weir.Store      = (*Store)(nil)
	_ documents.Board = (*Store)(nil)
)

// New returns a store of a region around its own store. Close it before that and before
// the peers. The error is about the options: a store that does not answer is none.
func New(own weir.Store, opt Options) (*Store, error) {
	switch {
	case own == nil:
		return nil, errors.New("region: no store")
	case len(opt.Peers) == 0:
		return nil, fmt.Errorf("region: region %q without other regions: name their stores in Peers", opt.Name)
	case opt.Name == "":
		return nil, errors.New("region: other regions are named, and this one is not: set its name")
	case len(opt.Peers) >= MaxRegions:
		return nil, fmt.Errorf("region: %d regions are too many: at most %d", len(opt.Peers)+1, MaxRegions)
	case opt.PeerTimeout < 0 || opt.ProbeEvery < 0 || opt.MaxBytes < 0:
		return nil, fmt.Errorf("region: timeout %s, probe interval %s and %d bytes must not be negative", opt.PeerTimeout, opt.ProbeEvery, opt.MaxBytes)
	}
	c, env := newEnv(own, &opt)
	opt.ProbeEvery, opt.Logger = cmp.Or(opt.ProbeEvery, 250*time.Millisecond), cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
	s := &Store{
		own: own, name: opt.Name, seed: maphash.MakeSeed(), clock: c, env: env, log: opt.Logger, probe: weir.PerMinute(1, algorithm.FixedWindow),
		loop: transport.NewGroup(env), table: newTable(cmp.Or(opt.MaxBytes, 8<<20)),
	}
	s.inside = inside{s}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.probe.Compile(); err != nil {
		return nil, err
	}
	seen := map[string]bool{opt.Name: true}
	for _, p := range opt.Peers {
		switch {
		case p.Name == "" || p.Store == nil:
			return nil, errors.New("region: a region without a name or a store")
		case seen[p.Name]:
			return nil, fmt.Errorf("region: region %q is named twice", p.Name)
		}
		seen[p.Name] = true
		o := faults.NewOutage(opt.Logger, "region unavailable; admission is bounded by max_overshoot", "region recovered", "region", p.Name)
		queue := s.newQueue(p.Store, cmp.Or(opt.PeerTimeout, time.Second), &opt, o)
		s.peers = append(s.peers, &peer{name: p.Name, store: p.Store, queue: queue, clock: clock.New(s.clock.Now, nil)})
	}
	s.queue = s.newQueue(own, 0, &opt, faults.NewOutage(nil, "", ""))
	s.loop.Go(s.runReports)
	return s, nil
}

// newEnv returns the clock and the environment of a store over own.
func newEnv(own weir.Store, opt *Options) (*clock.Clock, *transport.Env) {
	if node, ok := own.(transport.Simulated); ok {
		return transport.NewSimulated(node)
	}
	c := clock.New(nil, nil)
	if opt.Now != nil {
		c = clock.New(func() clock.Node { return clock.Node(opt.Now()) }, nil)
	}
	return c, transport.NewEnv(c.Now, nil)
}

// leastTimeout is the least timeout of a call: longer than a healthy store stalls.
const leastTimeout = 750 * time.Millisecond

// newQueue returns the queue of calls before a store, or before the servers of one that has
// a driver.
func (s *Store) newQueue(store weir.Store, timeout time.Duration, opt *Options, outage *faults.Outage) *transport.Queue {
	timeout = max(timeout, leastTimeout)
	driver, tuning := transport.DriverOf(store)
	return transport.New(driver, s.env, transport.Options{
		Budget: timeout, Timeout: timeout, Workers: 512, Batch: 1, Waiting: 16_384, PerKey: 4096, ProbeEvery: opt.ProbeEvery, Seed: s.env.Rand(), Tuning: tuning, Mark: transport.NewMark(algorithm.FixedWindow),
		Opened: outage.Failed, Closed: outage.Succeeded,
		Probe: func(ask func([]weir.Op) error) error {
			return ask([]weir.Op{{Key: "regions", Limit: s.probe, Cost: 1, Verb: weir.Peek}})
		},
	})
}

// closeFor is how long Close begins pushes, in microseconds, and closeRounds how often it
// repeats those that failed.
const closeFor, closeRounds = 2_000_000, 3

// Close reports what is not reported yet, and waits for calls under way. It begins pushes
// for two seconds, and logs what other regions have not heard of by then. It returns nil.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.stop()
		s.loop.Wait()
		s.queue.Wait() // what was spent while a push was under way is due after it
		end := s.clock.Now().Add(closeFor)
		for range closeRounds {
			s.publish(end)
			s.queue.Wait()
		}
		if keys, units, _ := s.table.unreported(end); keys > 0 {
			s.log.Warn("shutdown: other regions unreachable, units not reported", "keys", keys, "units", units)
		}
		s.queue.Close()
		for _, p := range s.peers {
			p.queue.Close()
		}
	})
	return nil
}

package shared

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/virtual"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// NewVirtual is [New] for a node of a simulation, in whose time it runs and waits. All that
// the store does by chance follows from the seed, so a run can be repeated. Its methods must
// be called by tasks of the node.
func NewVirtual(shared weir.Store, opt Options, node *virtual.Node, seed uint64) (*Store, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	start := node.Now()
	c := clock.New(func() clock.Node { return clock.Node(1 + node.Now() - start) }, func() clock.Store { return clock.Store(node.Now()) })
	env := &transport.Env{
		Now: c.Now, Go: node.Go, Rand: rand.New(rand.NewPCG(seed, 6)).Uint64,
		Park: func(ctx context.Context, g transport.Gate, d time.Duration) transport.Wake {
			return transport.Wake(node.Park(ctx, g, d))
		},
	}
	s, err := newStore(shared, &opt, c, nil, env)
	if err == nil {
		s.table.Hash = hashOf
	}
	return s, err
}

// hashOf stands for a key under a limit, and is the same in every process.
func hashOf(key string, l *weir.Limit) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, part := range [...]string{key, l.Scope, l.Algorithm.Name(), l.Layout} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
		h = (h ^ 0x1f) * 1099511628211
	}
	return max(h, 1)
}

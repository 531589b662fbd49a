package region_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/region"
)

// gated is a store that holds calls back until its gate is open, and then fails as many
// as it is told to.
type gated struct {
	weir.Store
	gate chan struct{}
	mu   sync.Mutex
	fail int
}

// lagging is a store whose answers to calls that only look are held back.
type lagging struct {
	weir.Store
	gate chan struct{}
}

func (g *lagging) Take(ctx context.Context, ops []weir.Op) error {
	err := g.Store.Take(ctx, ops)
	if ops[0].Verb == weir.Peek {
		<-g.gate
	}
	return err
}

func (g *gated) Take(ctx context.Context, ops []weir.Op) error {
	<-g.gate
	g.mu.Lock()
	isFailed := g.fail > 0
	g.fail--
	g.mu.Unlock()
	if isFailed {
		return errors.New("connection lost")
	}
	return g.Store.Take(ctx, ops)
}

// A store that is closed reports all that it has admitted: what came while a push was
// under way, keys beyond those that are pushed at a time, and again what failed once.
// What it cannot report it logs.
func TestCloseReportsTheRest(t *testing.T) {
	for name, c := range map[string]struct{ keys, fail, failAtClose int }{
		"push under way": {keys: 1}, "look under way": {keys: 1}, "many keys": {keys: 500}, "failed push": {keys: 1, fail: 1}, "failed last push": {keys: 2, failAtClose: 1},
		"lost region": {keys: 2, failAtClose: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				own, other := memory.New(memory.Options{MaxBytes: 1 << 20}), memory.New(memory.Options{MaxBytes: 1 << 20})
				defer own.Close()
				defer other.Close()
				peer := &gated{Store: other, gate: make(chan struct{}), fail: c.fail}
				var log bytes.Buffer
				beneath := weir.Store(own)
				if name == "look under way" {
					beneath = &lagging{Store: own, gate: peer.gate}
				}
				s, err := region.New(beneath, region.Options{Name: "a", Peers: []region.Peer{{Name: "b", Store: peer}}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				if err != nil {
					t.Fatal(err)
				}
				l := compiled(t, weir.PerDay(100, algorithm.FixedWindow), func(l *weir.Limit) {
					l.Name, l.Consistency.Mode, l.Consistency.MaxOvershoot = "limit", params.ConsistencyEventual, 50
				})
				spend := func(cost int64) {
					for i := range c.keys {
						if d, err := s.TakeOne(context.Background(), fmt.Sprint(i), l, cost); err != nil || !d.Allowed() {
							t.Fatal(d, err)
						}
					}
				}
				spend(20) // is pushed at once
				synctest.Wait()
				spend(1) // waits for its turn
				closed := make(chan error)
				if c.failAtClose > 0 {
					close(peer.gate)
					synctest.Wait()
					peer.fail = c.failAtClose
				}
				go func() { closed <- s.Close() }()
				synctest.Wait()
				if c.failAtClose == 0 {
					close(peer.gate)
				}
				if err := <-closed; err != nil {
					t.Fatal(err)
				}
				lost := int64(0)
				for i := range c.keys {
					o := []weir.Op{{Key: fmt.Sprint(i), Limit: l, Cost: 1, Verb: weir.Peek}}
					if err := other.Take(context.Background(), o); err != nil {
						t.Fatal(err)
					}
					lost += 21 - (l.Burst - o[0].Decision.Remaining)
				}
				isSaid := strings.Contains(log.String(), fmt.Sprintf("keys=%d units=%d", c.keys, lost))
				if isSaid != (lost > 0) || lost > 0 != (c.failAtClose > 100) {
					t.Errorf("%d units are not reported; the log says: %s", lost, &log)
				}
			})
		})
	}
}

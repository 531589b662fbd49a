package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/region"
	"github.com/weirlimit/weir/store/shared"
)

// openShared puts what a node does on its own before a store that nodes share:
// leases, failure policies, and the limits that each node counts alone; and before that
// what counts with other regions, if there are any. keys looks at its keys, nil if it cannot.
func openShared(own sharedServers, keys httpapi.Keyring, conf *config.Config, log *slog.Logger) (openedStore, error) {
	peers, peerTimeout, err := openPeers(conf, log)
	if err != nil {
		return openedStore{}, errors.Join(err, own.Close())
	}
	local := memory.New(memory.Options{Logger: log})
	store, beneath := weir.Store(own), closers{func() error { return closePeers(peers) }, local.Close, own.Close}
	var inRegion *region.Store
	if len(peers) > 0 {
		inRegion, err = region.New(own, region.Options{Name: conf.Region, Peers: peers, PeerTimeout: peerTimeout, MaxBytes: int64(conf.StoreHeld) / 8, Logger: log})
		if err != nil {
			return openedStore{}, errors.Join(fmt.Errorf("--store: %w", err), beneath.close())
		}
		store, beneath = inRegion, append(beneath, inRegion.Close)
	}
	s, err := shared.New(store, shared.Options{
		Local: local, Timeout: timeoutOf(conf.Store), Nodes: int(conf.StoreNodes), MaxBytes: int64(conf.StoreHeld), Logger: log,
	})
	if err != nil {
		return openedStore{}, errors.Join(fmt.Errorf("--store: %w", err), beneath.close())
	}
	opened := openedStore{
		Store:  &stack{s, beneath},
		stats:  func() metrics.Store { return storeMetrics(local.Stats()) },
		sketch: local.Approximate,
		shared: func() metrics.Shared {
			m := sharedMetrics(s.Stats(), own.NotReached() == nil)
			if inRegion != nil {
				addRegions(&m, inRegion.Stats(), time.Now())
			}
			return m
		},
		restarts: restartsOf((*weir.Limit).Restarts),
	}
	opened.board = local
	if keys != nil {
		opened.keyring = &nodeKeys{s, keys, local}
	}
	if _, ok := own.(documents.Board); ok {
		opened.board, opened.fleet = s, true
	}
	return opened, nil
}

// stack is a shared store, and what is beneath it, which is closed after it.
type stack struct {
	*shared.Store
	beneath closers
}

// Close implements weir.Store.
func (s *stack) Close() error { return errors.Join(s.Store.Close(), s.beneath.close()) }

// nodeKeys looks at keys where they are counted, and forgets them there and on this node.
type nodeKeys struct {
	shared.Forgetter
	own, local httpapi.Keyring
}

// Inspect implements httpapi.Keyring.
func (k *nodeKeys) Inspect(ctx context.Context, key string, l *weir.Limit) ([]int64, bool, error) {
	if countsAlone(l) {
		return k.local.Inspect(ctx, key, l)
	}
	return k.own.Inspect(ctx, key, l)
}

// sharedMetrics translates what the shared store says of itself.
func sharedMetrics(s shared.Stats, reached bool) metrics.Shared {
	return metrics.Shared{
		Nodes: s.Nodes, Reached: reached, Up: !s.BreakerOpen,
		Calls: s.Calls, Failed: s.Failed, Late: s.Late, Busy: s.Busy,
		Combined: s.Combined, Recalled: s.Recalled, Held: s.Held, Fetched: s.Fetched,
		Leases: int64(s.LeaseKeys), LeasedUnits: s.LeaseUnits, Returned: s.Returned, Stranded: s.Stranded,
		Overshot: s.Overshot, Degraded: s.Degraded, Debts: int64(s.Debts), DebtPaid: s.DebtPaid, DebtLost: s.DebtLost,
		TimerDelay: s.NodeLate.Seconds(),
	}
}

// addRegions adds what the store of the region says of itself and of the others.
func addRegions(m *metrics.Shared, s region.Stats, now time.Time) {
	m.Lag, m.Capped, m.Overshot = s.Lag.Seconds(), s.Capped, max(m.Overshot, s.Overshot)
	for _, p := range s.Peers {
		m.Regions = append(m.Regions, metrics.Region{
			Name: p.Name, Up: !p.Open, LastSuccess: now.Add(-p.SinceAnswer), Synced: p.Reported, Failed: p.Failures,
		})
	}
}

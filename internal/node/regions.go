package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/redact"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/region"
)

// peerTimeout is how long another region's store is waited for if its URL does not
// say.
const peerTimeout = time.Second

// openPeers opens the stores of the other regions. One that cannot be reached is
// tried until it can.
func openPeers(conf *config.Config, log *slog.Logger) (peers []region.Peer, longest time.Duration, err error) {
	all, err := config.ParseRegions(conf.Regions)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range all {
		if r.Name == conf.Region {
			continue
		}
		setting := "--regions: " + r.Name
		store, err := redis.Open(context.Background(), r.URL, redis.Options{Logger: log, Timeout: peerTimeout, Late: true})
		if err != nil {
			return nil, 0, errors.Join(fmt.Errorf("%s: %w", setting, err), closePeers(peers))
		}
		if why := store.NotReached(); why != nil {
			log.Warn("started without another region; admission is bounded by max_overshoot until it is reached", "setting", setting, "store", redact.URL(r.URL), "err", why)
		}
		longest = max(longest, timeoutOf(r.URL))
		peers = append(peers, region.Peer{Name: r.Name, Store: store})
	}
	if longest == 0 {
		longest = peerTimeout
	}
	return peers, longest, nil
}

func closePeers(peers []region.Peer) error {
	var errs []error
	for _, p := range peers {
		errs = append(errs, p.Store.Close())
	}
	return errors.Join(errs...)
}

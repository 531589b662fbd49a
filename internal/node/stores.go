package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/redact"
	"github.com/weirlimit/weir/internal/spell"
	"github.com/weirlimit/weir/internal/storecalls"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
)

// openMemory opens the embedded store.
func openMemory(conf *config.Config, log *slog.Logger) (openedStore, error) {
	text := conf.Store
	bad := func(format string, args ...any) (openedStore, error) {
		return openedStore{}, fmt.Errorf("--store %q: "+format, append([]any{text}, args...)...)
	}
	u, err := url.Parse(text)
	if err != nil {
		return bad("not a URL: write memory:?max_bytes=512MiB")
	}
	if u.Host != "" || u.Opaque != "" || u.Path != "" && u.Path != "/" {
		return bad("memory takes no name: write memory:?max_bytes=512MiB")
	}
	opt := memory.Options{Logger: log}
	for key, values := range u.Query() {
		if key != "max_bytes" {
			return bad("unknown parameter %q%s", key, spell.Hint(key, []string{"max_bytes"}))
		}
		var b config.Bytes
		if err := b.UnmarshalText([]byte(values[0])); err != nil || b < memory.MinBytes {
			return bad("max_bytes %q is not a number of bytes such as 512MiB, at least %s", values[0], config.Bytes(memory.MinBytes))
		}
		opt.MaxBytes = int64(b)
	}
	s := memory.New(opt)
	return openedStore{
		Store:    s,
		keyring:  s,
		board:    s,
		stats:    func() metrics.Store { return storeMetrics(s.Stats()) },
		sketch:   s.Approximate,
		restarts: memory.Restarts,
	}, nil
}

// A sharedServers is a store on servers that nodes share, which may not have reached them yet.
type sharedServers interface {
	weir.Store
	NotReached() error
	Version() string
	Watch(w storecalls.Watcher)
}

// openRedis opens Redis or Valkey, in any topology.
func openRedis(conf *config.Config, log *slog.Logger) (openedStore, error) {
	own, err := redis.Open(context.Background(), conf.Store, redis.Options{Logger: log, Late: conf.StoreStart == startServe})
	if err != nil {
		return openedStore{}, explainStart(err, redis.Unreachable)
	}
	opened, err := openWatched(own, own, conf, log)
	opened.redis = func() metrics.Redis { return redisMetrics(own.Stats()) }
	return opened, err
}

// redisMetrics translates what Redis says of itself.
func redisMetrics(s redis.Stats) metrics.Redis {
	return metrics.Redis{
		Requests: s.Calls, Scripts: s.Scripts, Reloads: s.Reloads, Waiting: s.InFlight,
		RolledBack: s.Rollbacks, Kept: s.Lost, Moved: s.Moved, Servers: s.Servers, Lost: s.LostServers, LostSlots: s.LostSlots,
	}
}

// openMemcached opens Memcached.
func openMemcached(conf *config.Config, log *slog.Logger) (openedStore, error) {
	opt, err := memcached.ParseURL(conf.Store)
	if err != nil {
		return openedStore{}, fmt.Errorf("%s: %w", theStore, err)
	}
	opt.Logger = log
	own, err := memcached.New(opt)
	if err != nil {
		return openedStore{}, fmt.Errorf("%s: %w", theStore, err)
	}
	if err := own.Probe(context.Background()); err != nil && (conf.StoreStart != startServe || !memcached.Unreachable(err)) {
		return openedStore{}, errors.Join(explainStart(err, memcached.Unreachable), own.Close())
	}
	opened, err := openWatched(own, nil, conf, log)
	opened.alignedOnly = true
	opened.restarts = restartsOf(memcached.Restarts)
	return opened, err
}

// startServe is the value of --store-start with which a node starts without its
// store.
const startServe = "serve"

// theStore is the setting of the store that this node shares with others.
const theStore = "--store"

// explainStart says why the store cannot be opened, and what to do where it is unreachable.
func explainStart(err error, unreachable func(error) bool) error {
	if unreachable(err) {
		return fmt.Errorf("%s: %w; to start without it and decide by on_store_error until it is there give --store-start serve", theStore, err)
	}
	return fmt.Errorf("%s: %w", theStore, err)
}

// openWatched is openShared with the calls of own measured, and logs whether that was reached.
func openWatched(own sharedServers, keys httpapi.Keyring, conf *config.Config, log *slog.Logger) (openedStore, error) {
	calls, name := newStoreCalls(), redact.URL(conf.Store)
	own.Watch(calls)
	why := own.NotReached()
	if why != nil {
		log.Warn("started without the store; decisions follow on_store_error until it is reached", "store", name, "err", why)
	}
	opened, err := openShared(own, keys, conf, log)
	if err == nil && why == nil {
		log.Info("store reached", "store", name, "version", own.Version(), "nodes", opened.shared().Nodes)
	}
	opened.calls, opened.follow = calls.Calls, calls.followBy
	return opened, err
}

// openStoreOf opens the store that conf names.
func openStoreOf(conf *config.Config, log *slog.Logger) (openedStore, error) {
	kind, err := config.FindStoreKind(conf)
	if err != nil {
		return openedStore{}, err
	}
	if own := conf.StoreOfRegion(); own != conf.Store {
		in := *conf
		in.Store, conf = own, &in
	}
	opened, err := stores[kind.Name](conf, log)
	opened.name, opened.check = kind.Name, kind.Check
	return opened, err
}

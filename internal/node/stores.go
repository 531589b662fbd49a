package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/redact"
	"github.com/weirlimit/weir/internal/spell"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/shared"
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

// openRedis opens Redis or Valkey, in any topology.
func openRedis(conf *config.Config, log *slog.Logger) (openedStore, error) {
	mayServe := conf.StoreStart == startServe
	own, err := openDriven(theStore, conf.Store, mayServe, redis.Options{Logger: log, Late: mayServe})
	if err != nil {
		return openedStore{}, err
	}
	opened, err := openShared(own, own, own.reached, conf, log)
	own.logReached(opened, log)
	opened.calls, opened.redis = own.calls, own.stats
	opened.follow = own.followBy
	return opened, err
}

// openMemcached opens Memcached.
func openMemcached(conf *config.Config, log *slog.Logger) (openedStore, error) {
	opt, err := memcached.ParseURL(conf.Store)
	if err != nil {
		return openedStore{}, fmt.Errorf("--store: %w", err)
	}
	shards, tuning, err := memcached.Layout(opt)
	if err != nil {
		return openedStore{}, fmt.Errorf("%s: %w", theStore, err)
	}
	late := newLate[*memcached.Store](redact.URL(conf.Store), log, netFailure)
	tuning.Begun, tuning.Ended, tuning.Failed = late.begin, late.note, late.countFailure
	driver := shared.NewLateStore(shards, tuning)
	open := func(ctx context.Context) (*memcached.Store, error) {
		s, err := memcached.New(opt)
		if err != nil {
			return nil, err
		}
		warnings, err := s.Probe(ctx)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		for _, w := range warnings {
			log.Warn(w)
		}
		driver.Reach(s)
		return s, nil
	}
	if err := late.start(theStore, conf.StoreStart == startServe, open, memcached.Unreachable); err != nil {
		return openedStore{}, err
	}
	opened, err := openShared(drivenMemcached{late, driver}, nil, late.reached, conf, log)
	late.logReached(opened, log)
	opened.calls, opened.follow = late.calls, late.followBy
	opened.alignedOnly = true
	opened.restarts = restartsOf(memcached.Restarts)
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

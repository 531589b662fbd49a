package ratelimit

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sort"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/redact"
)

// opener opens the store of the counters. The settings are good, and files of
// TLS are read already: what can fail is the network. follow, if not nil, is to
// run until the store is closed.
type opener func(ctx context.Context) (store counter.Store, follow func(context.Context), err error)

// storeOpener returns how to open the store that the settings ask for.
func storeOpener(s *settings.Settings, h *health, scope *stats.Scope, log *slog.Logger) (opener, error) {
	switch s.ChooseStore(settings.IsSocket) {
	case settings.StoreMemcache:
		return memcachedOpener(s, h, scope, log)
	case settings.StoreRedis:
		return redisOpener(s, h, scope, log)
	}
	return func(context.Context) (counter.Store, func(context.Context), error) {
		log.Warn("counters are kept in this process because REDIS_URL is not set")
		h.setComponent(storeHealth, true)
		return counter.NewMemory(counter.MemoryOptions{}), nil, nil
	}, nil
}

func redisOpener(s *settings.Settings, h *health, scope *stats.Scope, log *slog.Logger) (opener, error) {
	var conf *tls.Config
	if s.RedisTLS || s.PerSecond && s.PerSecondTLS {
		var err error
		if conf, err = redisTLS(s).Config(nil); err != nil {
			return nil, err
		}
	}
	opt := counter.RedisOptions{JitterSeconds: s.ExpirationJitterMaxSeconds}
	for i, r := range s.Redises() {
		log.Warn("connecting to redis on "+redact.URL(r.URL), "type", r.Type, "tls", r.TLS)
		server := counter.RedisServer{
			URL: r.URL, Type: r.Type, Network: r.SocketType, Auth: r.Auth, SentinelAuth: r.SentinelAuth, Timeout: s.RedisTimeout,
		}
		if i == 1 {
			server.Timeout = s.PerSecondTimeout
		}
		if r.TLS {
			server.TLS = conf.Clone()
		}
		if s.RedisHealthCheck {
			server.OnConnections = func(active uint64) { h.setComponent(storeHealth, active > 0) }
		}
		if i == 0 {
			opt.Server = server
		} else {
			opt.PerSecond = &server
		}
	}
	return func(ctx context.Context) (counter.Store, func(context.Context), error) {
		var store *counter.Redis
		err := openWithRetry(ctx, s, log, func() (err error) {
			store, err = counter.OpenRedis(ctx, opt)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		h.setComponent(storeHealth, true)
		poolStats(scope, s.PerSecond, store)
		if !s.RedisHealthCheck {
			return store, nil, nil
		}
		return store, func(ctx context.Context) { reconnect(ctx, store, s.PerSecond) }, nil
	}, nil
}

// reconnectEvery is how soon a connection that is lost is made again.
const reconnectEvery = time.Second

// reconnect asks a Redis to which there is no connection until there is one. Calls
// do so too, but nobody sends them to a node that is not healthy.
func reconnect(ctx context.Context, store *counter.Redis, perSecond bool) {
	for backoff.Sleep(ctx, reconnectEvery) {
		main, second := store.Stats()
		var look []counter.Hit
		for _, of := range []struct{ gone, perSecond bool }{{main.Active == 0, false}, {perSecond && second.Active == 0, true}} {
			if of.gone {
				look = append(look, counter.Hit{Key: []byte("weir_is_there"), PerSecond: of.perSecond})
			}
		}
		if look != nil {
			_ = store.Look(ctx, 0, look) // that it fails is what health says already
		}
	}
}

// poolStats has the numbers of connections set at each flush.
func poolStats(scope *stats.Scope, perSecond bool, store *counter.Redis) {
	show := func(sc *stats.Scope, n counter.RedisStats) {
		sc.Gauge("cx_active").Set(n.Active)
		sc.Counter("cx_total").Set(n.Total)
		sc.Counter("cx_local_close").Set(n.Closed)
	}
	scope.Generate(func() {
		main, second := store.Stats()
		show(scope.Scope("redis_pool"), main)
		if perSecond {
			show(scope.Scope("redis_per_second_pool"), second)
		}
	})
}

// openWithRetry calls open until it succeeds, ctx ends, or the time that the settings
// allow is over.
func openWithRetry(ctx context.Context, s *settings.Settings, log *slog.Logger, open func() error) error {
	began := time.Now()
	wait := backoff.Backoff{Min: max(s.RedisStartupInitial, 0), Max: max(s.RedisStartupMax, 0)}
	for {
		err := open()
		if err == nil {
			return nil
		}
		took := time.Since(began).Round(time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("ended while waiting for Redis: %w", err)
		}
		if s.RedisStartupElapsed > 0 && took >= s.RedisStartupElapsed {
			return fmt.Errorf("timed out waiting for Redis connection after %s (REDIS_STARTUP_MAX_ELAPSED_TIME=%s): %w", took, s.RedisStartupElapsed, err)
		}
		pause := wait.Next()
		log.Warn("Redis unreachable; will retry", "err", err, "in", pause.Round(time.Millisecond), "elapsed", took)
		backoff.Sleep(ctx, pause)
	}
}

func memcachedOpener(s *settings.Settings, h *health, scope *stats.Scope, log *slog.Logger) (opener, error) {
	opt := counter.MemcachedOptions{
		Servers: s.MemcacheHostPort, Refresh: s.MemcacheSRVRefresh, MaxIdleConns: s.MemcacheMaxIdleConns,
		JitterSeconds: s.ExpirationJitterMaxSeconds, Logger: log,
	}
	if s.MemcacheTLS {
		var err error
		if opt.TLS, err = memcacheTLS(s).Config(nil); err != nil {
			return nil, err
		}
	}
	if s.MemcacheSRV != "" {
		service, proto, name, err := s.SplitSRV()
		if err != nil {
			return nil, err
		}
		opt.Lookup = func(ctx context.Context) ([]string, error) { return lookupSRV(ctx, service, proto, name) }
	}
	return func(ctx context.Context) (counter.Store, func(context.Context), error) {
		store, err := counter.OpenMemcached(ctx, opt)
		if err != nil {
			return nil, nil, err
		}
		h.setComponent(storeHealth, true)
		memcachedStats(scope.Scope("memcache"), store)
		return store, nil, nil
	}, nil
}

// lookupSRV returns host:port of the servers of a record, sorted: which of them
// has a key depends on their order.
func lookupSRV(ctx context.Context, service, proto, name string) ([]string, error) {
	_, records, err := net.DefaultResolver.LookupSRV(ctx, service, proto, name)
	if err != nil {
		return nil, fmt.Errorf("MEMCACHE_SRV: %w", err)
	}
	servers := make([]string, 0, len(records))
	for _, r := range records {
		servers = append(servers, net.JoinHostPort(r.Target, strconv.Itoa(int(r.Port))))
	}
	sort.Strings(servers)
	return servers, nil
}

func memcachedStats(scope *stats.Scope, store *counter.Memcached) {
	n := store.Stats()
	scope.Generate(func() {
		for _, c := range []struct {
			name, code string
			value      uint64
		}{
			{"multiget", "success", n.MultiGets.Load()}, {"multiget", "error", n.MultiGetErrors.Load()},
			{"increment", "success", n.Increments.Load()}, {"increment", "miss", n.IncrementMisses.Load()}, {"increment", "error", n.IncrementErrors.Load()},
			{"add", "success", n.Adds.Load()}, {"add", "error", n.AddErrors.Load()}, {"add", "not_stored", n.AddNotStored.Load()},
		} {
			scope.CounterTagged(c.name, map[string]string{"code": c.code}).Set(c.value)
		}
		scope.Counter("keys_requested").Set(n.KeysRequested.Load())
		scope.Counter("keys_found").Set(n.KeysFound.Load())
	})
}

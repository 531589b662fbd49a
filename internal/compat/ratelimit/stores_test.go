package ratelimit_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	redis, second := servertest.Redis(t), servertest.Redis(t)
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop + `
  - key: fast
    rate_limit: {unit: second, requests_per_unit: 3}
`})
	n := start(t, program, append(inPlace(root), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "CACHE_KEY_PREFIX=p:",
		"REDIS_PERSECOND=true", "REDIS_PERSECOND_SOCKET_TYPE=unix", "REDIS_PERSECOND_URL="+second.Socket, "LOCAL_CACHE_SIZE_IN_BYTES=1000000")...)
	conn := n.dial()
	for range 5 {
		if _, err := ask(t, conn, "shop", "user=ann"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask(t, conn, "shop", "fast=x"); err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprint("p:shop_user_ann_", time.Now().Unix()/3600*3600)
	if got := fmt.Sprint(redis.Do(t, "GET", key)); got != "4" { // the fifth was known to be over
		t.Errorf("%s is %s, want 4", key, got)
	}
	if got := fmt.Sprint(second.Do(t, "DBSIZE")); got != "1" {
		t.Errorf("the second Redis has %s keys, want 1", got)
	}
	servertest.Await(t, "a connection in the statistics", func() bool {
		active, ok := n.value("ratelimit_redis_pool_cx_active")
		return ok && active >= 1
	})
	n.series("ratelimit_localcache_hitCount", 1)
	n.series("ratelimit_localcache_entryCount", 1)
	n.series("ratelimit_service_rate_limit_shop_user_over_limit_with_local_cache", 1)

	// Redis goes: calls fail, and are counted as such.
	redis.Kill(t)
	if _, err := ask(t, conn, "shop", "user=bob"); err == nil {
		t.Error("a call succeeds without Redis")
	}
	if code, _ := n.post(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]}`); code != 500 {
		t.Errorf("/json without Redis: %d, want 500", code)
	}
	if code, _ := get(t, n.http, "/healthcheck"); code != 200 {
		t.Errorf("/healthcheck: %d; it does not follow Redis unless told to", code)
	}
	n.series(`ratelimit_service_should_rate_limit_error{err_type="redis_error"}`, 2)
}

func TestHealthFollowsRedis(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	n := start(t, program, append(inPlace(root), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true")...)
	healthy := func(want bool) {
		t.Helper()
		servertest.Await(t, fmt.Sprint("health to be ", want), func() bool {
			code, _ := get(t, n.http, "/healthcheck")
			return (code == 200) == want
		})
	}
	healthy(true)
	redis.Kill(t)
	healthy(false)
	redis.Restart(t)
	healthy(true)
}

func TestWaitsForRedis(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	redis.Kill(t)
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	n := launch(t, program, append(inPlace(root), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr,
		"REDIS_STARTUP_INITIAL_INTERVAL=10ms", "REDIS_STARTUP_MAX_INTERVAL=30ms")...)
	servertest.Await(t, "three attempts", func() bool { return strings.Count(n.proc.Output(), "Redis unreachable; will retry") >= 3 })
	if conn, err := net.Dial("tcp", n.http); err == nil {
		conn.Close()
		t.Error("it listens before it has reached Redis")
	}
	redis.Restart(t)
	servertest.Await(t, "it to listen", func() bool {
		conn, err := net.Dial("tcp", n.http)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	if code, _ := get(t, n.http, "/healthcheck"); code != 200 {
		t.Errorf("/healthcheck: %d", code)
	}
}

func TestEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	n := launch(t, program, "RUNTIME_ROOT="+t.TempDir(), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:1")
	servertest.Await(t, "an attempt", func() bool { return strings.Contains(n.proc.Output(), "Redis unreachable; will retry") })
	if err := n.proc.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if code, err := n.proc.Wait(ctx); err != nil || code != 0 {
		t.Errorf("ended with %d, %v", code, err)
	}
}

func TestRedisOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, pair := servertest.Certificate(t, dir, "redis")
	redis := servertest.RedisTLS(t, cert, key, pair)
	_, port, _ := net.SplitHostPort(redis.Addr)
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	env := append(inPlace(root), "REDIS_SOCKET_TYPE=tcp", "REDIS_TLS=true", "REDIS_TLS_CACERT="+cert,
		"REDIS_TLS_CLIENT_CERT="+cert, "REDIS_TLS_CLIENT_KEY="+key)
	n := start(t, program, append(env, "REDIS_URL="+redis.Addr)...)
	if _, err := ask(t, n.dial(), "shop", "user=ann"); err != nil {
		t.Error(err)
	}
	// The certificate is for 127.0.0.1 and no other name.
	n = launch(t, program, append(env, "REDIS_URL=localhost:"+port)...)
	servertest.Await(t, "the refusal of another name", func() bool { return strings.Contains(n.proc.Output(), "certificate") })
	n = start(t, program, append(env, "REDIS_URL=localhost:"+port, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true")...)
	if _, err := ask(t, n.dial(), "shop", "user=ann"); err != nil {
		t.Error(err)
	}
	// Whoever skips the name still asks for the authority.
	stranger, _, _ := servertest.Certificate(t, t.TempDir(), "stranger")
	env = append(env, "REDIS_URL="+redis.Addr, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true", "REDIS_TLS_CACERT="+stranger)
	n = launch(t, program, env...)
	servertest.Await(t, "the refusal of another authority", func() bool { return strings.Contains(n.proc.Output(), "unknown authority") })
}

func TestMemcached(t *testing.T) {
	t.Parallel()
	addr := fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	servertest.Memcached(t, addr)
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	n := start(t, program, append(inPlace(root), "BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT="+addr)...)
	conn := n.dial()
	servertest.Await(t, "the limit to be over", func() bool {
		res, err := ask(t, conn, "shop", "user=ann")
		return err == nil && res.OverallCode.String() == "OVER_LIMIT"
	})
	if code, _ := get(t, n.http, "/healthcheck"); code != 200 {
		t.Errorf("/healthcheck: %d", code)
	}
	servertest.Await(t, "statistics", func() bool {
		v, ok := n.value("ratelimit_memcache_multiget___code_success")
		return ok && v >= 4
	})
}

// A call under way when the end is asked for is answered, and meanwhile the node
// says that it is not for new ones.
func TestDrain(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	proxy := servertest.NewProxy(t, redis.Addr)
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	n := start(t, program, append(inPlace(root), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+proxy.Addr)...)
	conn := n.dial()
	if _, err := ask(t, conn, "shop", "user=ann"); err != nil {
		t.Fatal(err)
	}
	proxy.Stall(servertest.Replies, true)
	answered := make(chan error, 1)
	go func() {
		_, err := ask(t, conn, "shop", "user=ann")
		answered <- err
	}()
	servertest.Await(t, "the call to reach Redis", func() bool {
		return fmt.Sprint(redis.Do(t, "GET", fmt.Sprint("shop_user_ann_", time.Now().Unix()/3600*3600))) == "2"
	})
	if err := n.proc.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "/healthcheck to turn bad", func() bool {
		code, _ := get(t, n.http, "/healthcheck")
		return code == 500
	})
	proxy.Stall(servertest.Replies, false)
	if err := <-answered; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if code, err := n.proc.Wait(ctx); err != nil || code != 0 {
		t.Errorf("ended with %d, %v", code, err)
	}
}

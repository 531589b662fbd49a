package counter_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func openRedis(t *testing.T, o counter.RedisOptions) *counter.Redis {
	t.Helper()
	r, err := counter.OpenRedis(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func hit(key string, hits uint64) counter.Hit {
	return counter.Hit{Key: []byte(key), Hits: hits, Period: 3600, End: 1_700_002_800}
}

const now = 1_700_000_000

// counts adds hits and returns where the counters stand.
func counts(t *testing.T, s counter.Store, hits ...counter.Hit) string {
	t.Helper()
	if err := s.Add(t.Context(), now, hits); err != nil {
		t.Fatal(err)
	}
	return told(hits)
}

func told(hits []counter.Hit) string {
	var l []string
	for _, h := range hits {
		l = append(l, fmt.Sprint(h.Count))
	}
	return strings.Join(l, " ")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func back(key string, hits uint64) counter.Hit {
	h := hit(key, hits)
	h.Back = true
	return h
}

// stores are played the same history.
func TestStoresCountAlike(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	for name, s := range map[string]counter.Store{
		"memory": counter.NewMemory(counter.MemoryOptions{}),
		"redis":  openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: redis.Addr}}),
	} {
		t.Run(name, func(t *testing.T) {
			want(t, "in turn", counts(t, s, hit("a", 1), hit("b", 5), hit("a", 2)), "1 5 3")
			want(t, "a look", counts(t, s, hit("a", 0), hit("new", 0)), "3 0")
			want(t, "given back", counts(t, s, back("a", 2), back("b", 99), back("none", 1)), "1 0 0")
			want(t, "after that", counts(t, s, hit("a", 0), hit("b", 1), hit("none", 0)), "1 1 0")
			look := []counter.Hit{hit("a", 7), hit("never", 7)}
			if err := s.(counter.Looker).Look(t.Context(), now, look); err != nil {
				t.Fatal(err)
			}
			want(t, "looked at", told(look), "1 0")
			err := s.Add(t.Context(), now, []counter.Hit{hit("a", math.MaxInt64), hit("b", 1)})
			text := `command ["INCRBY" "a" "9223372036854775807"] in pipeline returned error: ERR increment or decrement would overflow`
			if err == nil || err.Error() != text {
				t.Errorf("an overflow: %v", err)
			}
			want(t, "what came with it", counts(t, s, hit("a", 0), hit("b", 0)), "1 2")
		})
	}
}

func TestRedisExpires(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: redis.Addr}, JitterSeconds: 50})
	some := map[int64]bool{}
	for i := range 40 {
		key := fmt.Sprint("k", i)
		counts(t, s, hit(key, 1))
		ttl := redis.Do(t, "TTL", key).(int64)
		if ttl < 3599 || ttl >= 3650 {
			t.Errorf("a counter of an hour is kept for %d seconds", ttl)
		}
		some[ttl] = true
	}
	if len(some) < 5 {
		t.Errorf("counters are kept for %d different times only", len(some))
	}
	// Each hit says anew how long.
	redis.Do(t, "EXPIRE", "k1", "5")
	counts(t, s, hit("k1", 0))
	if ttl := redis.Do(t, "TTL", "k1").(int64); ttl < 3599 {
		t.Errorf("after another hit it is kept for %d seconds", ttl)
	}
	long := hit("long", 1)
	long.Period = math.MaxInt64
	want(t, "a window without end", counts(t, s, long), "1")
}

func TestRedisPerSecond(t *testing.T) {
	t.Parallel()
	main, second := servertest.Redis(t), servertest.RedisPassword(t, "secret")
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: "redis://" + main.Addr + "/3"},
		PerSecond: &counter.RedisServer{URL: second.Addr, Auth: "secret"}})
	sec := func(key string, n uint64) counter.Hit {
		h := hit(key, n)
		h.PerSecond = true
		return h
	}
	want(t, "both", counts(t, s, sec("a", 1), hit("a", 5), sec("a", 1)), "1 5 2")
	want(t, "one", counts(t, s, sec("a", 1)), "3")
	want(t, "the other", counts(t, s, hit("a", 1)), "6")
	second.Password = "secret"
	if got := second.Do(t, "GET", "a"); got != "3" {
		t.Errorf("the server of seconds has %v", got)
	}
	if got := main.Do(t, "GET", "a"); got != nil {
		t.Errorf("database 0 has %v", got)
	}
	look := []counter.Hit{sec("a", 1), hit("a", 1)}
	if err := s.Look(t.Context(), now, look); err != nil {
		t.Fatal(err)
	}
	want(t, "looked at", told(look), "3 6")
}

// Credentials stand in the URL, or beside it, which goes first.
func TestRedisCredentials(t *testing.T) {
	t.Parallel()
	redis := servertest.RedisPassword(t, "secret")
	redis.Password = "secret"
	redis.Do(t, "ACL", "SETUSER", "ann", "on", ">hers", "~*", "+@all")
	for url, auth := range map[string]string{
		"redis://:secret@" + redis.Addr + "/2":                               "",
		"redis://ann:hers@" + redis.Addr + "?db=2":                           "",
		"redis://" + redis.Addr + "/2?username=ann&password=hers":            "",
		"redis://nobody:wrong@" + redis.Addr + "/2":                          "ann:hers",
		"redis://ann@" + redis.Addr + "/2":                                   "hers",
		"redis://ann:hers@" + redis.Addr + "/2?username=nobody&password=bad": "",
	} {
		s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: url, Auth: auth}})
		counts(t, s, hit("a", 1))
	}
	redis.Do(t, "SELECT", "0")
	if n := redis.Do(t, "EVAL", "redis.call('SELECT', 2) return redis.call('GET', 'a')", "0"); n != "6" {
		t.Errorf("of 6 hits %v were counted in database 2", n)
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t, 3)
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: nodes[0].Addr + ",redis://" + nodes[1].Addr, Type: "CLUSTER"}})
	var all []counter.Hit
	for i := range 50 {
		all = append(all, hit(fmt.Sprint("key", i), uint64(i)))
	}
	counts(t, s, all...)
	for i := range all {
		if all[i].Count != uint64(i) {
			t.Errorf("counter %d stands at %d", i, all[i].Count)
		}
	}
	want(t, "the same twice", counts(t, s, hit("key7", 1), hit("key8", 1), hit("key7", 1)), "8 9 9")
	want(t, "given back", counts(t, s, back("key7", 5)), "4")
}

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	primary, _, sentinels := servertest.RedisSentinels(t)
	url := "primary"
	for _, s := range sentinels {
		url += "," + s.Addr
	}
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: url, Type: "sentinel"}})
	want(t, "counted", counts(t, s, hit("a", 2)), "2")
	if got := primary.Do(t, "GET", "a"); got != "2" {
		t.Errorf("the primary has %v", got)
	}
	primary.Kill(t)
	servertest.Await(t, "another primary", func() bool { return s.Add(t.Context(), now, []counter.Hit{hit("a", 1)}) == nil })
}

func TestRedisTLS(t *testing.T) {
	t.Parallel()
	cert, key, pair := servertest.Certificate(t, t.TempDir(), "redis")
	redis := servertest.RedisTLS(t, cert, key, pair)
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: redis.Addr,
		TLS: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}})
	want(t, "counted", counts(t, s, hit("a", 2)), "2")
	if _, err := counter.OpenRedis(t.Context(), counter.RedisOptions{Server: counter.RedisServer{URL: redis.Addr, TLS: &tls.Config{}}}); err == nil {
		t.Error("a server whose certificate nobody vouches for was taken")
	}
}

func TestRedisSocketAndConnections(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	var active atomic.Uint64
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: redis.Socket, Network: "unix", OnConnections: active.Store}})
	want(t, "counted", counts(t, s, hit("a", 2)), "2")
	if c, _ := s.Stats(); active.Load() == 0 || c.Active != active.Load() || c.Total < c.Active {
		t.Errorf("%d connections are told of, Stats says %+v", active.Load(), c)
	}
	s.Close()
	servertest.Await(t, "the end of the connections", func() bool { return active.Load() == 0 })
	if c, _ := s.Stats(); c.Closed != c.Total {
		t.Errorf("after Close: %+v", c)
	}
}

func TestRedisIsFoundAgain(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: redis.Addr}})
	want(t, "counted", counts(t, s, hit("a", 2)), "2")
	redis.Kill(t)
	if err := s.Add(t.Context(), now, []counter.Hit{hit("a", 1)}); err == nil {
		t.Error("a server that is gone has counted")
	}
	redis.Restart(t)
	servertest.Await(t, "the server", func() bool { return s.Add(t.Context(), now, []counter.Hit{hit("a", 1)}) == nil })
}

// A server that stalls costs each call its time and no more, however many wait.
func TestRedisStalls(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	proxy := servertest.NewProxy(t, redis.Addr)
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: proxy.Addr, Timeout: time.Second}})
	patient := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: proxy.Addr, Timeout: time.Minute}})
	want(t, "counted", counts(t, s, hit("a", 2)), "2")
	proxy.Stall(servertest.Replies, true)
	var wg sync.WaitGroup
	var longest atomic.Int64
	for range 3000 {
		wg.Go(func() {
			began := time.Now()
			err := s.Add(context.Background(), now, []counter.Hit{hit("a", 1)})
			took := int64(time.Since(began))
			for was := longest.Load(); took > was && !longest.CompareAndSwap(was, took); was = longest.Load() {
			}
			if err == nil || !errors.Is(err, counter.ErrTimeout) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if d := time.Duration(longest.Load()); d > 30*time.Second {
		t.Errorf("a call with a second to go took %s", d)
	}
	// The caller's own time counts too.
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := patient.Add(ctx, now, []counter.Hit{hit("a", 1)}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 30*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	proxy.Stall(servertest.Replies, false)
	servertest.Await(t, "the server", func() bool { return s.Add(t.Context(), now, []counter.Hit{hit("b", 1)}) == nil })
	// What nobody waited for any more when its turn came was not sent.
	if n := counts(t, s, hit("a", 0)); len(n) > 3 {
		t.Errorf("%s hits were counted of calls that had failed", n)
	}
}

func TestRedisRefusals(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	for name, c := range map[string]struct {
		server counter.RedisServer
		text   string
	}{
		"nobody there": {counter.RedisServer{URL: "127.0.0.1:1"}, "127.0.0.1:1"},
		"type":         {counter.RedisServer{URL: redis.Addr, Type: "ring"}, "unrecognized redis type ring"},
		"sentinel":     {counter.RedisServer{URL: "primary", Type: "sentinel"}, "expected master name and a list of urls"},
		"URL":          {counter.RedisServer{URL: "redis://u:geheim@" + redis.Addr + "/x"}, "redis://xxxxx@"},
		"no URL":       {counter.RedisServer{URL: "redis://u:geheim@" + redis.Addr + "/%zz"}, "redis://xxxxx@"},
		"password":     {counter.RedisServer{URL: redis.Addr, Auth: "user:geheim"}, "WRONGPASS"},
	} {
		_, err := counter.OpenRedis(t.Context(), counter.RedisOptions{Server: c.server})
		if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: redis.Addr}})
	redis.Do(t, "RPUSH", "list", "x")
	err := s.Add(t.Context(), now, []counter.Hit{hit("list", 1)})
	if text := `command ["INCRBY" "list" "1"] in pipeline returned error: WRONGTYPE Operation against a key holding the wrong kind of value`; err == nil || err.Error() != text {
		t.Error(err)
	}
	redis.Do(t, "SET", "text", "x")
	err = s.Add(t.Context(), now, []counter.Hit{hit("text", 1)})
	if text := `command ["INCRBY" "text" "1"] in pipeline returned error: ERR value is not an integer or out of range`; err == nil || err.Error() != text {
		t.Error(err)
	}
}

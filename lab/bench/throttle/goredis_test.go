package throttle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/resp"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/store/memory"
)

// TestGoRedis stands here because this module has go-redis; the one that users
// import does not need it.
func TestGoRedis(t *testing.T) {
	_, _, pair := servertest.Certificate(t, t.TempDir(), "127.0.0.1")
	addr := start(t, func() (Server, func(), error) {
		limiter, done, err := ours.Open(weir.Limits{{Name: "per client", Algorithm: algorithm.FixedWindow, Count: 5, Period: time.Hour}}, memory.Options{})
		if err != nil {
			return nil, nil, err
		}
		s, err := resp.New(resp.Options{Limiter: limiter, Keyring: limiter.Store().(resp.Keyring), Password: "correct-horse", User: "app",
			TLS: &tls.Config{Certificates: []tls.Certificate{pair}}})
		return s.Serve, done, err
	})
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: addr, Username: "app", Password: "correct-horse", DB: 3, Protocol: protocol,
			ClientName: "by-go-redis", TLSConfig: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"},
			MaxRetries: -1})
		defer c.Close()
		ctx := t.Context()
		key := fmt.Sprint("user", protocol)
		got, err := c.Do(ctx, "CL.THROTTLE", key, 15, 30, 60).Int64Slice()
		if err != nil || fmt.Sprint(got) != "[0 16 15 -1 2]" {
			t.Errorf("RESP%d: %v, %v", protocol, got, err)
		}
		checkPipelines(ctx, t, c, key)
		name, err := c.ClientGetName(ctx).Result()
		if err != nil || name != "by-go-redis" {
			t.Errorf("%q, %v", name, err)
		}
		reply, err := c.Do(ctx, "WEIR.CHECK", "api", "client_id", key).Result()
		if err != nil {
			t.Fatal(err)
		}
		check := pairs(reply)
		if a := check["allowed"]; a != true && a != int64(1) || check["limit"] != "per client" || check["remaining"] != int64(4) {
			t.Errorf("RESP%d: %v", protocol, check)
		}
		if err := c.Do(ctx, "CL.THROTTLE", "k", "x", 1, 1).Err(); err == nil || err.Error() != "Cell error: Store error: Couldn't parse as integer: x" {
			t.Error(err)
		}
		if d, err := c.TTL(ctx, key).Result(); err != nil || d != 2*time.Second {
			t.Errorf("%s, %v", d, err)
		}
		if n, err := c.Del(ctx, key).Result(); err != nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := c.Get(ctx, key).Result(); err == nil {
			t.Error("GET is answered")
		}
		if commands, err := c.Command(ctx).Result(); err != nil || commands["cl.throttle"] == nil || commands["cl.throttle"].FirstKeyPos != 1 {
			t.Errorf("%v, %v", commands, err)
		}
	}
	wrong := redis.NewClient(&redis.Options{Addr: addr, Username: "app", Password: "wrong", MaxRetries: -1,
		TLSConfig: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}})
	defer wrong.Close()
	if err := wrong.Ping(t.Context()).Err(); err == nil {
		t.Error("a wrong password is taken")
	}
}

// checkPipelines: of twenty at once sixteen pass, in a pipeline and in a
// transaction.
func checkPipelines(ctx context.Context, t *testing.T, c *redis.Client, key string) {
	t.Helper()
	for name, p := range map[string]redis.Pipeliner{"pipeline": c.Pipeline(), "transaction": c.TxPipeline()} {
		var replies []*redis.Cmd
		for range 20 {
			replies = append(replies, p.Do(ctx, "CL.THROTTLE", key+name, 15, 30, 60))
		}
		if _, err := p.Exec(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, r := range replies {
			n, err := r.Int64Slice()
			if want := int64(i / 16); err != nil || n[0] != want {
				t.Errorf("%s, %d: %v, %v", name, i, n, err)
			}
		}
	}
}

// pairs returns a map of RESP3, or an array of RESP2, by its names.
func pairs(reply any) map[string]any {
	out := map[string]any{}
	switch v := reply.(type) {
	case map[any]any:
		for k, value := range v {
			out[fmt.Sprint(k)] = value
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			out[fmt.Sprint(v[i])] = v[i+1]
		}
	}
	return out
}

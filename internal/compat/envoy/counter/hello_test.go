package counter_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// strict passes connections on to a Redis and ends them, as twemproxy does, on a
// command that it does not know.
func strict(t *testing.T, redis string) string {
	ln := servertest.Listen(t)
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", redis)
				if err != nil {
					return
				}
				defer server.Close()
				go func() {
					_, _ = io.Copy(client, server)
					client.Close()
				}()
				b := make([]byte, 64<<10)
				for {
					n, err := client.Read(b)
					if err != nil || bytes.Contains(b[:n], []byte("HELLO")) || bytes.Contains(b[:n], []byte("CLIENT")) {
						return
					}
					if _, err := server.Write(b[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func TestRedisBehindAProxy(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	s := openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: strict(t, redis.Addr)}})
	want(t, "counted", counts(t, s, hit("a", 1), hit("a", 2)), "1 3")
	locked := servertest.RedisPassword(t, "secret")
	proxy := strict(t, locked.Addr)
	s = openRedis(t, counter.RedisOptions{Server: counter.RedisServer{URL: "redis://" + proxy + "/3", Auth: "secret"}})
	want(t, "with a password and a database", counts(t, s, hit("a", 1), hit("a", 2)), "1 3")
	_, err := counter.OpenRedis(t.Context(), counter.RedisOptions{Server: counter.RedisServer{URL: proxy, Auth: "wrong"}})
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("with a wrong password: %v", err)
	}
}

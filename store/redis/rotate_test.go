package redis

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A certificate, its key and its authority are renewed in place, on servers of every kind:
// a connection that is made afterwards goes by the new ones, and by what the files said
// before while they are half written.
func TestCertificatesAreFollowed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rediss", "rediss+ring", "rediss+sentinel", "rediss+cluster"} {
		t.Run(strings.ReplaceAll(kind, "+", " "), func(t *testing.T) { // a folder of this name is in the URL
			t.Parallel()
			dir := t.TempDir()
			cert, key, pair := servertest.Certificate(t, dir, "redis")
			url := "?tls_ca=" + cert + "&tls_cert=" + cert + "&tls_key=" + key
			var r, sentinel *servertest.RedisServer
			switch kind {
			case "rediss+cluster":
				r = servertest.RedisTLS(t, cert, key, pair, "--cluster-enabled", "yes", "--tls-cluster", "yes")
				serveAllSlots(t, r)
			case "rediss+sentinel":
				r = servertest.RedisTLS(t, cert, key, pair)
				sentinel = servertest.SentinelTLS(t, r, cert, key, pair)
				url = sentinel.Addr + "/primary" + url
			default:
				r = servertest.RedisTLS(t, cert, key, pair)
			}
			if sentinel == nil {
				url = r.Addr + url
			}
			do := r.Session(t) // a connection of before
			s, l := open(t, kind+"://"+url, Options{Timeout: time.Second}), perHour(t, 1000, algorithm.TokenBucket)
			take := func() bool {
				_, err := s.TakeOne(t.Context(), kind, l, 1)
				return err == nil
			}
			servertest.Await(t, "a decision at first", take)
			for range 2 {
				_, _, pair = servertest.Certificate(t, dir, "redis")
				if sentinel != nil { // it reads its files when it starts
					sentinel.Kill(t)
					sentinel.Dial = func() (net.Conn, error) {
						return tls.Dial("tcp", sentinel.Addr, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
					}
					sentinel.Restart(t)
				}
				do("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", cert)
				do("CLIENT", "KILL", "TYPE", "normal")
				servertest.Await(t, "decisions by a renewed certificate", take)
				if sentinel != nil {
					servertest.Await(t, "the Sentinel to be asked again", func() bool { return strings.Contains(fmt.Sprint(sentinel.Do(t, "CLIENT", "LIST")), "name=weir") })
				}
			}
		})
	}
}

// The password of a server is changed while its name moves to one that has it still: neither
// those who are let in no more, nor those who were before, keep the name from being followed.
func TestNameIsFollowedPastAnotherPassword(t *testing.T) {
	t.Parallel()
	const password = "the password of the URL"
	for _, kind := range []string{"redis", "redis+ring", "redis+cluster"} {
		for _, kept := range []string{"cut", "kept"} {
			t.Run(kind+"/"+kept, func(t *testing.T) {
				t.Parallel()
				start := func() *servertest.RedisServer {
					if kind == "redis+cluster" {
						s := servertest.RedisPassword(t, password, "--cluster-enabled", "yes")
						serveAllSlots(t, s)
						return s
					}
					return servertest.RedisPassword(t, password)
				}
				was, is := start(), start()
				name := servertest.NewProxy(t, was.Addr)
				if kind == "redis+cluster" {
					_, port, _ := net.SplitHostPort(name.Addr)
					was.Do(t, "CONFIG", "SET", "cluster-announce-port", port)
				}
				s, l := open(t, kind+"://:"+strings.ReplaceAll(password, " ", "%20")+"@"+name.Addr, Options{Timeout: time.Second}), perHour(t, 1<<40, algorithm.FixedWindow)
				n := 0
				take := func() bool { n++; _, err := s.TakeOne(t.Context(), fmt.Sprint(n), l, 1); return err == nil }
				servertest.Await(t, "a decision of the first server", take)
				was.Do(t, "CONFIG", "SET", "requirepass", "another")
				was.Password = "another"
				if kept == "kept" { // an old connection is let in still, until the server is a replica
					leave(t, was, servertest.RedisPassword(t, password), "NOREPLICAS")
				} else {
					was.Do(t, "CLIENT", "KILL", "TYPE", "normal")
				}
				servertest.Await(t, "the first server to refuse", func() bool { return !take() })
				name.Target(is.Addr)
				servertest.Await(t, "a decision of the second server", func() bool {
					return take() && strings.Contains(fmt.Sprint(is.Do(t, "INFO", "keyspace")), "keys=")
				})
			})
		}
	}
}

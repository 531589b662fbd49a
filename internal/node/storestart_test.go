package node_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// newOn builds a node on a store, and returns why it could not be.
func newOn(t *testing.T, store, start string, limits ...string) error {
	t.Helper()
	conf := local(limits...)
	conf.Store, conf.StoreStart = store, start
	s, err := node.New(conf, node.Build{}, slog.New(slog.DiscardHandler))
	if err == nil {
		err = s.Close()
	}
	return err
}

// A store that cannot be reached ends the start unless it is said to serve; one that
// was reached and cannot be used does in any case.
func TestStoreStart(t *testing.T) {
	defer servertest.NoLeaks(t, goleak.IgnoreCurrent())
	t.Run("redis", func(t *testing.T) {
		redis := servertest.RedisPassword(t, "secret")
		dead := fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
		const any = "3/hour by client_id"
		f := func(store, start, want string) {
			t.Helper()
			err := newOn(t, store, start, any)
			if want == "" && err == nil {
				return
			}
			if err == nil || want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %q: %v, want %q", store, start, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "--store-start serve") != (start == "fail" && strings.Contains(store, dead)) {
				t.Errorf("%s, %q: the cure is not that of the error: %v", store, start, err)
			}
		}
		for _, scheme := range []string{"redis://:secret@", "redis+cluster://:secret@", "redis+ring://:secret@"} {
			f(scheme+dead, "fail", "nobody listens there")
			f(scheme+dead, "serve", "")
		}
		f("redis+sentinel://"+dead+"/primary", "serve", "")
		f("redis+unix:///nowhere/s", "serve", "")
		f("redis://"+greeter(t, "-LOADING Redis is loading the dataset in memory\r\n"), "serve", "")
		f("redis://:secret@"+redis.Addr, "serve", "")
		f("redis://:wrong@"+redis.Addr, "serve", "password")
		f("redis+cluster://:secret@"+redis.Addr, "serve", "not part of a cluster")
		f("redis://:secret@"+dead+"?timeout=x", "serve", "timeout")
	})
	t.Run("memcached", func(t *testing.T) {
		dead := fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
		stranger := greeter(t, "HTTP/1.1 400 Bad Request\r\n")
		const fixed = "3/year by client_id using fixed_window"
		if err := newOn(t, "memcached://"+dead, "fail", fixed); err == nil || !strings.Contains(err.Error(), "--store-start serve") {
			t.Error(err)
		}
		if err := newOn(t, "memcached://"+dead, "serve", fixed); err != nil {
			t.Error(err)
		}
		for _, hosts := range []string{stranger, dead + "," + stranger} {
			if err := newOn(t, "memcached://"+hosts, "serve", fixed); err == nil || !strings.Contains(err.Error(), "not Memcached") {
				t.Error(err)
			}
		}
	})
}

// greeter listens and says the same to everybody, whatever is asked.
func greeter(t *testing.T, text string) string {
	t.Helper()
	ln := servertest.Listen(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				// A command of Redis begins with a line of its own, one of Memcached is one.
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "*") || lines.Text() == "version" {
						// Whoever asks reads it or hangs up.
						_, _ = io.WriteString(conn, text)
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// A node that began without its Memcached uses it once it is there.
func TestMemcachedStartsLater(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr := fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	conf := local("3/year by client_id using fixed_window")
	conf.Store, conf.StoreStart = "memcached://"+addr, "serve"
	s, err := node.New(conf, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan node.Ready, 1), make(chan error)
	go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
	admin := (<-ready).URLs["admin"]
	says := func(want string) bool {
		_, text := get(t, admin+"/metrics")
		return strings.Contains(text, want+"\n")
	}
	if !says("weir_shared_store_reached 0") {
		t.Error("the metrics do not say that the store was not reached")
	}
	servertest.Memcached(t, addr)
	servertest.Await(t, "the node to find its store", func() bool {
		return says("weir_shared_store_reached 1") && says("weir_shared_store_up 1")
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

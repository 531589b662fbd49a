package client_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weirlimit/weir/client"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// command builds the weir command once, when the first test asks for it.
var command = sync.OnceValues(func() (string, error) {
	path, clean, err := servertest.Command()
	if err == nil {
		cleanCommand = clean
	}
	return path, err
})

// cleanCommand is set by command, and called by TestMain.
var cleanCommand = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	cleanCommand()
	if err := servertest.Leaks(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const rules = `domain: shop
descriptors:
  - key: user
    limit: 3/minute
    algorithm: fixed_window
  - key: tokens
    limit: 100/hour
    algorithm: token_bucket
  - key: slots
    limit: 1
    algorithm: concurrency
    ttl: 1m
  - key: queue
    limit: 10/second
    algorithm: leaky_queue
    max_delay: 5s
  - key: quick
    limit: 1/second
    algorithm: token_bucket
  - key: free
    limit: 1000000/second
    algorithm: token_bucket
`

// server is a running service.
type server struct {
	*servertest.Process
	addr string
}

// serve starts the service on addr, a free port if that is empty.
func serve(t *testing.T, addr string, args ...string) *server {
	t.Helper()
	return serveRules(t, rules, addr, args...)
}

// serveRules is serve with other rules.
func serveRules(t *testing.T, rules, addr string, args ...string) *server {
	t.Helper()
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"serve", "--rules", file, "--http", addr, "--admin", "127.0.0.1:0", "--log-format", "json"}, args...)
	p := servertest.Serve(t, exec.Command(path, args...), "http")
	return &server{p, p.Listening("http")}
}

// to returns a client of the service at addr.
func to(t *testing.T, addr string, opt client.Options) *client.Client {
	t.Helper()
	var err error
	if opt.Wire, err = client.NewHTTP(client.HTTPOptions{URL: "http://" + addr}); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// silent listens, and answers whoever speaks with what it is told to.
func silent(t *testing.T, says string) string {
	t.Helper()
	ln := servertest.Listen(t)
	var conns sync.WaitGroup
	done := make(chan struct{})
	var mu sync.Mutex
	var open []net.Conn
	conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			conns.Go(func() {
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					fmt.Fprint(conn, says) // to a client that may have gone
				}
				<-done
				conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		close(done)
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		conns.Wait()
	})
	return ln.Addr().String()
}

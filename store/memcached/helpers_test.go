package memcached_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memcached"
)

// patient is a timeout that a busy test machine keeps.
const patient = 30 * time.Second

// start is an instant on no boundary of anything: 2026-03-14 15:09:26.535897.
const start = 1_773_500_966_535_897

func open(t testing.TB, o memcached.Options) *memcached.Store {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	s, err := memcached.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// fixed returns a compiled limit of count in windows of period.
func fixed(t testing.TB, name string, count int64, period time.Duration, p params.Params) *weir.Limit {
	t.Helper()
	l := &weir.Limit{Name: name, Algorithm: algorithm.FixedWindow, Count: count, Period: period, Params: p}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// yearly returns a limit whose window does not end during a test.
func yearly(t testing.TB, name string, count int64) *weir.Limit {
	return fixed(t, name, count, 20*24*time.Hour, params.Params{})
}

func take(t testing.TB, s weir.Store, ops ...weir.Op) []weir.Op {
	t.Helper()
	if err := s.Take(t.Context(), ops); err != nil {
		t.Fatalf("Take: %v", err)
	}
	return ops
}

func left(t testing.TB, s weir.Store, key string, l *weir.Limit, want int64) {
	t.Helper()
	if got := take(t, s, weir.Op{Key: key, Limit: l, Cost: 1, Verb: weir.Peek})[0].Decision.Remaining; got != want {
		t.Errorf("%d of %q remain for %q, want %d", got, l.Name, key, want)
	}
}

// each runs f on so many goroutines at once.
func each(n int, f func(worker int)) {
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() { f(w) })
	}
	wg.Wait()
}

// command sends one line to a server and returns the first of its answer.
func command(t testing.TB, addr, line string) string {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, patient)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patient)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(nc, "%s\r\n", line); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1024)
	n, err := nc.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func server(t testing.TB) string {
	addr, _ := servertest.Memcached(t, "")
	return addr
}

// guarded starts a server that asks for a password.
func guarded(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte("user:password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, _ := servertest.Memcached(t, "", "-Y", path)
	return addr
}

func webServer(t testing.TB) string {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// answers reports whether a server says its version at once.
func answers(addr string) bool {
	nc, err := net.DialTimeout("tcp", addr, patient)
	if err != nil {
		return false
	}
	defer nc.Close()
	if nc.SetDeadline(time.Now().Add(500*time.Millisecond)) != nil {
		return false
	}
	if _, err := fmt.Fprint(nc, "version\r\n"); err != nil {
		return false
	}
	_, err = nc.Read(make([]byte, 1))
	return err == nil
}

// losing listens in front of a server and passes everything on but the answers to
// one command, and what comes after them on the same connection.
func losing(t testing.TB, addr, command string) string {
	t.Helper()
	ln := servertest.Listen(t)
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go lose(client, addr, command)
		}
	}()
	return ln.Addr().String()
}

func lose(client net.Conn, addr, command string) {
	defer client.Close()
	up, err := net.DialTimeout("tcp", addr, patient)
	if err != nil {
		return
	}
	defer up.Close()
	var mute atomic.Bool
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := up.Read(buf)
			if err != nil {
				return
			}
			if !mute.Load() {
				if _, err := client.Write(buf[:n]); err != nil {
					return
				}
			}
		}
	}()
	for lines := bufio.NewReader(client); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if strings.HasPrefix(line, command+" ") {
			mute.Store(true)
		}
		if _, err := up.Write([]byte(line)); err != nil {
			return
		}
	}
}

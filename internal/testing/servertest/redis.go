package servertest

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// RedisServer is a redis-server, or a Sentinel, that a test started.
type RedisServer struct {
	*Process
	// Addr is HOST:PORT, Socket the path of the Unix socket.
	Addr, Socket string
	// Dial connects. It is set to speak TLS where the server does.
	Dial func() (net.Conn, error)
	// Password is sent before every command of Do.
	Password string

	bin       string
	args, env []string
}

// Redis starts a redis-server with further arguments on a free loopback port. It
// keeps nothing on disk.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, func(port int, dir string) []string {
		return append(redisArgs(dir, "--port", fmt.Sprint(port)), args...)
	}, nil, "")
}

// RedisClock starts a redis-server whose clock is ahead of the machine's, or behind
// it if ahead is negative.
func RedisClock(t testing.TB, ahead time.Duration, args ...string) *RedisServer {
	t.Helper()
	lib := fakeClock(t)
	return startRedis(t, func(port int, dir string) []string {
		return append(redisArgs(dir, "--port", fmt.Sprint(port)), args...)
		// The C library's memory in place of jemalloc's, which asks for the time before
		// libfaketime is ready.
	}, nil, "", "LD_PRELOAD="+lib+" libc.so.6", fmt.Sprintf("FAKETIME=%+.3f", ahead.Seconds()), "DONT_FAKE_MONOTONIC=1")
}

// fakeClock returns the path of libfaketime. Its command is not used: it would stand
// between the test and the server.
func fakeClock(t testing.TB) string {
	t.Helper()
	Binary(t, "faketime")
	for _, dir := range []string{"/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime"} {
		if found, err := filepath.Glob(dir + "/libfaketimeMT.so.1"); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	t.Fatal("faketime is installed, but libfaketimeMT.so.1 is not where it is looked for")
	return ""
}

// RedisPassword starts a redis-server that asks for a password.
func RedisPassword(t testing.TB, password string, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, func(port int, dir string) []string {
		return append(redisArgs(dir, "--port", fmt.Sprint(port), "--requirepass", password), args...)
	}, nil, password)
}

// RedisTLS starts a redis-server that speaks TLS only, with the given files for
// itself and as authority, and asks clients for a certificate too. It has further arguments.
func RedisTLS(t testing.TB, certFile, keyFile string, pair tls.Certificate, more ...string) *RedisServer {
	t.Helper()
	conf := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}
	return startRedis(t, func(port int, dir string) []string {
		return redisArgs(dir, append([]string{"--port", "0", "--tls-port", fmt.Sprint(port), "--tls-cert-file", certFile,
			"--tls-key-file", keyFile, "--tls-ca-cert-file", certFile, "--tls-auth-clients", "yes"}, more...)...)
	}, conf, "")
}

// redisArgs returns the arguments that every server has, and more.
func redisArgs(dir string, more ...string) []string {
	return append([]string{"--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
		"--unixsocket", socketIn(dir), "--loglevel", "warning",
		// A replica is served at once: others are not waited for.
		"--repl-diskless-sync-delay", "0"}, more...)
}

func socketIn(dir string) string { return filepath.Join(dir, "s") }

// startRedis starts a server whose arguments depend on its folder and on the
// port that was free.
func startRedis(t testing.TB, argsFor func(port int, dir string) []string, conf *tls.Config, password string, env ...string) *RedisServer {
	t.Helper()
	bin := Binary(t, "redis-server")
	const attempts = 5
	for range attempts {
		port := busPort(t)
		// The path of a socket must be short: a test's own folder need not be.
		dir, err := os.MkdirTemp("", "redis")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		s := &RedisServer{bin: bin, Addr: fmt.Sprintf("127.0.0.1:%d", port), Socket: socketIn(dir), Password: password, env: env}
		s.Dial = func() (net.Conn, error) {
			conn, err := net.DialTimeout("tcp", s.Addr, 30*time.Second)
			if err == nil && conf != nil {
				conn = tls.Client(conn, conf)
			}
			return conn, err
		}
		s.args = argsFor(port, dir)
		if s.start(t) {
			return s
		}
		t.Logf("redis-server did not start on %s:\n%s", s.Addr, s.Output())
	}
	t.Fatalf("redis-server did not start in %d attempts", attempts)
	return nil
}

// busPort returns a free port whose cluster bus, 10000 above it, is free too.
func busPort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := FreePort(t)
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10000))
		if err != nil {
			continue
		}
		ln.Close()
		return port
	}
	t.Fatal("no port is free that has a free one 10000 above it")
	return 0
}

func (s *RedisServer) start(t testing.TB) bool {
	t.Helper()
	cmd := exec.Command(s.bin, s.args...)
	cmd.Env = append(os.Environ(), s.env...)
	s.Process = Start(t, cmd)
	// The process id tells that it is this server which listens.
	return s.await(t, "redis-server on "+s.Addr, func() bool {
		reply, err := s.Try("INFO", "server")
		return err == nil && strings.Contains(fmt.Sprint(reply), fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid))
	})
}

// Kill ends the server as a crash would, and waits until it is gone.
func (s *RedisServer) Kill(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.done
}

// Restart starts a server that has ended again on the same port, with what it has kept
// on disk.
func (s *RedisServer) Restart(t testing.TB) {
	t.Helper()
	if !s.start(t) {
		t.Fatalf("redis-server did not start again on %s:\n%s", s.Addr, s.Output())
	}
}

// Do sends one command and returns the reply: a string, an int64, nil, or a
// []any of these. An error ends the test.
func (s *RedisServer) Do(t testing.TB, args ...string) any {
	t.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		t.Fatalf("redis on %s: %v: %v", s.Addr, args, err)
	}
	return reply
}

// Session returns Do for commands that follow each other on one connection, which ends with
// the test.
func (s *RedisServer) Session(t testing.TB) func(args ...string) any {
	t.Helper()
	conn, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := newRESP(conn)
	return func(args ...string) any {
		t.Helper()
		reply, err := c.do(args...)
		if err != nil {
			t.Fatalf("redis on %s: %v: %v", s.Addr, args, err)
		}
		return reply
	}
}

// Try is Do for commands that may fail.
func (s *RedisServer) Try(args ...string) (any, error) {
	conn, err := s.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	c := newRESP(conn)
	if s.Password != "" {
		if _, err := c.do("AUTH", s.Password); err != nil {
			return nil, err
		}
	}
	return c.do(args...)
}

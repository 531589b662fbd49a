package envoy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// reference is an envoyproxy/ratelimit that a test started.
type reference struct {
	client rlsv3.RateLimitServiceClient
	conn   *grpc.ClientConn
	// http and debug are the addresses of those listeners.
	http, debug string
	// runtime holds current, a link to the folder of rules in use.
	runtime string
	version int
	logs    *tail
	stats   *statsd
}

// startReference starts the binary that WEIR_REFERENCE names, with Redis at redis.
func startReference(t testing.TB, redis string, env ...string) *reference {
	t.Helper()
	binary := os.Getenv("WEIR_REFERENCE")
	if binary == "" {
		t.Skip("WEIR_REFERENCE names no binary of envoyproxy/ratelimit to compare with")
	}
	stats := startStatsd(t)
	r := startNode(t, binary, append([]string{
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "BACKEND_TYPE=redis",
		"USE_STATSD=true", "STATSD_HOST=127.0.0.1", "STATSD_PORT=" + stats.port,
	}, env...)...)
	r.stats = stats
	return r
}

// startNode starts a program that is envoyproxy/ratelimit, or says so.
func startNode(t testing.TB, binary string, env ...string) *reference {
	t.Helper()
	r := &reference{runtime: t.TempDir()}
	// Of these it takes none: as long as no others come, there are no rules.
	r.folder(t, []File{{Name: "config.broken.yaml", Content: []byte("domain: [")}})
	port := func() string { return strconv.Itoa(servertest.FreePort(t)) }
	http, grpcPort, debug := port(), port(), port()
	logs := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command("/bin/sh", "-c", `exec "$0" >"$1" 2>&1`, binary, logs)
	cmd.Env = append([]string{
		"HOST=127.0.0.1", "PORT=" + http, "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + grpcPort, "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + debug,
		"LOG_LEVEL=info", "LOG_FORMAT=json", "RUNTIME_ROOT=" + filepath.Join(r.runtime, "current"), "RUNTIME_SUBDIRECTORY=rl", "STATS_FLUSH_INTERVAL=100ms",
	}, env...)
	servertest.Start(t, cmd)
	t.Cleanup(func() {
		if said, err := os.ReadFile(logs); t.Failed() && err == nil {
			t.Logf("%s said last:\n%s", binary, said[max(0, len(said)-2000):])
		}
	})
	servertest.Await(t, "the log", func() (ok bool) {
		f, err := os.Open(logs)
		if err == nil {
			t.Cleanup(func() { f.Close() })
			r.logs = &tail{f: f}
		}
		return err == nil
	})
	r.http, r.debug = "http://127.0.0.1:"+http, "http://127.0.0.1:"+debug
	conn, err := grpc.NewClient("127.0.0.1:"+grpcPort, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r.conn, r.client = conn, rlsv3.NewRateLimitServiceClient(conn)
	servertest.Await(t, "the reference", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := r.client.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{})
		return err != nil && strings.Contains(err.Error(), "domain must not be empty")
	})
	return r
}

// folder writes the rules into a new folder and makes current a link to it.
func (r *reference) folder(t testing.TB, files []File) {
	t.Helper()
	r.version++
	dir := filepath.Join(r.runtime, fmt.Sprint("v", r.version))
	if err := os.MkdirAll(filepath.Join(dir, "rl", "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimPrefix(f.Name, "config.")
		if err := os.WriteFile(filepath.Join(dir, "rl", "config", name), f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	next := filepath.Join(r.runtime, "next")
	if err := os.Symlink(dir, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(r.runtime, "current")); err != nil {
		t.Fatal(err)
	}
	os.RemoveAll(filepath.Join(r.runtime, fmt.Sprint("v", r.version-2)))
}

// load makes the reference load files and returns the error that it logs.
func (r *reference) load(t testing.TB, files []File) string {
	t.Helper()
	for ok := true; ok; {
		_, ok = r.logs.next(t)
	}
	r.folder(t, files)
	const failed, done = "Error loading new configuration: ", "Successfully loaded new configuration"
	var said struct {
		Message string `json:"@message"`
	}
	servertest.Await(t, "a word of the reference on new rules", func() bool {
		line, ok := r.logs.next(t)
		for ; ok; line, ok = r.logs.next(t) {
			if strings.Contains(line, failed) || strings.Contains(line, done) {
				if err := json.Unmarshal([]byte(line), &said); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				return true
			}
		}
		return false
	})
	_, text, _ := strings.Cut(said.Message, failed)
	return text
}

// fetch returns status and body of a request over HTTP.
func fetch(t testing.TB, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// tail reads a file that grows, line by line.
type tail struct {
	f    *os.File
	rest []byte
}

// next returns the next line, ok is false if there is none yet.
func (l *tail) next(t testing.TB) (line string, ok bool) {
	t.Helper()
	i := bytes.IndexByte(l.rest, '\n')
	if i < 0 {
		more, err := io.ReadAll(l.f)
		if err != nil {
			t.Fatal(err)
		}
		l.rest = append(l.rest, more...)
		if i = bytes.IndexByte(l.rest, '\n'); i < 0 {
			return "", false
		}
	}
	line, l.rest = string(l.rest[:i]), l.rest[i+1:]
	return line, true
}

// statsd sums the counters that it is sent.
type statsd struct {
	port string
	mu   sync.Mutex
	sums map[string]uint64
}

func startStatsd(t testing.TB) *statsd {
	ln := servertest.Listen(t)
	s := &statsd{sums: map[string]uint64{}}
	_, s.port, _ = net.SplitHostPort(ln.Addr().String())
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go s.read(conn)
		}
	}()
	return s
}

func (s *statsd) read(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		name, value, ok := strings.Cut(in.Text(), ":")
		n, kind, _ := strings.Cut(value, "|")
		if count, err := strconv.ParseUint(n, 10, 64); ok && err == nil && kind == "c" {
			s.mu.Lock()
			s.sums[name] += count
			s.mu.Unlock()
		}
	}
}

// Counter, Gauge, Timer and Flush implement stats.Sink, for our own.
func (s *statsd) Counter(name string, delta uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums[name] += delta
}
func (s *statsd) Gauge(string, uint64)        {}
func (s *statsd) Timer(string, int64, uint64) {}
func (s *statsd) Flush()                      {}

// under returns the sums whose names begin with prefix.
func (s *statsd) under(prefix string) map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]uint64{}
	for name, n := range s.sums {
		if strings.HasPrefix(name, prefix) {
			m[name] = n
		}
	}
	return m
}

package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// halves are how connections begin that go no further, by port.
var halves = map[string][]string{
	"http":      {"", "GET / HTTP/1.1\r\nHost: h\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", preface[:12], preface + frame(frameSettings, 0, 0, "")},
	"admin":     {"", "GET /metrics HTTP/1.1\r\nAuthorization: Bearer g", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", preface + frame(frameSettings, 0, 0, "")},
	"grpc":      {"", preface[:12], preface, preface + frame(frameSettings, 0, 0, "")},
	"resp":      {"", "*2\r\n$4\r\nAUTH\r\n$20\r\nx", "AUTH"},
	"analytics": {"", "GET /v1/analytics/ HTTP/1.1\r\nHost: h\r\n", preface + frame(frameSettings, 0, 0, "")},
}

// TestFamilyOperatorsAreAnswered: while many addresses open connections at a port that go no
// further, more than there are places, and open each anew that is closed, whoever has a
// question is answered, at that port and by the operators' one. Where all places are taken
// anew all the time, a first connection may be closed before its first bytes come.
func TestFamilyOperatorsAreAnswered(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	s := serve(t, "--limit", unlimited, "WEIR_ADMIN_TOKEN="+token, "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "WEIR_RESP_PASSWORD="+respPassword,
		"--config", servertest.Config(t, "http: {max_connections: 32}\ngrpc: {max_connections: 32}\nresp: {max_clients: 32}"))
	// Its queue is away, of which it tells at the same port.
	keeper := servertest.Serve(t, servertest.Invoke(command, "analytics", "--events", fmt.Sprintf("amqp://127.0.0.1:%d/weir", servertest.FreePort(t)), "--analytics", "memory:",
		"--listen", "127.0.0.1:0", "--log-format", "json", "WEIR_ADMIN_TOKEN="+token), "analytics")
	at := map[string]string{"analytics": keeper.Listening("analytics")}
	for _, port := range []string{"http", "admin", "grpc", "resp"} {
		at[port] = s.Listening(port)
	}
	web := func(addr, path string) func() error {
		return func() error {
			req, err := http.NewRequest(http.MethodGet, "http://"+addr+path, nil)
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+token)
			res, err := neighbour.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if _, err = io.Copy(io.Discard, res.Body); err == nil && res.StatusCode != http.StatusOK {
				err = errors.New(res.Status)
			}
			return err
		}
	}
	ask := map[string]func() error{
		"http": web(at["http"], "/v1/rules"), "admin": web(at["admin"], "/metrics"), "analytics": web(at["analytics"], "/metrics"),
		"grpc": func() error {
			c, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{})
			return err
		},
		"resp": func() error {
			c, err := net.DialTimeout("tcp", at["resp"], time.Minute)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				return err
			}
			if _, err := io.WriteString(c, bulk("AUTH", respPassword)); err != nil {
				return err
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if err == nil && line != "+OK\r\n" {
				err = fmt.Errorf("answered %q", line)
			}
			return err
		},
	}
	for port, firsts := range halves {
		t.Run(port, func(t *testing.T) {
			stop := make(chan struct{})
			var all sync.WaitGroup
			var opened atomic.Int64
			many := n(100, 400)
			if port == "analytics" {
				many += 200 // of 256 places
			}
			for i := range many {
				all.Go(func() { halfOpen(fmt.Sprintf("127.0.0.%d", 10+i%50), at[port], firsts[i%len(firsts)], &opened, stop) })
			}
			servertest.Await(t, "the flood", func() bool { return opened.Load() > int64(many) })
			again := 0
			for range n(5, 100) {
				for _, whom := range []string{port, "admin"} {
					var err error
					for tries := range 5 {
						if err = ask[whom](); err == nil {
							again += tries
							break
						}
					}
					if err != nil {
						t.Errorf("a question at %s: %v", whom, err)
					}
				}
			}
			close(stop)
			all.Wait()
			t.Logf("%d connections, and %d questions were asked again", opened.Load(), again)
		})
	}
}

// halfOpen opens a connection, says how it begins and no more, and opens another when it is
// closed.
func halfOpen(from, to, first string, opened *atomic.Int64, stop chan struct{}) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	for {
		if c, err := d.Dial("tcp", to); err == nil {
			opened.Add(1)
			_, err = io.WriteString(c, first)
			for b := make([]byte, 64); err == nil; {
				select {
				case <-stop:
					err = os.ErrClosed
					continue
				default:
				}
				if err = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err == nil {
					if _, err = c.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
						err = nil
					}
				}
			}
			c.Close()
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

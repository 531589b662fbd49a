package node

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/config"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// started runs a node until the test ends and returns it with where it listens.
func started(t *testing.T, c *config.Config, log *slog.Logger) (*Server, Ready) {
	t.Helper()
	for _, listen := range []string{c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen, c.RESP.Listen} {
		if listen != "" && listen != "off" && !strings.HasSuffix(listen, ":0") && !strings.HasPrefix(listen, config.UnixPrefix) {
			t.Fatalf("listens on %s, which others may use: let a test listen on a free port", listen)
		}
	}
	s, err := New(c, Build{}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan Ready, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(r Ready) { ready <- r }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case r := <-ready:
		return s, r
	case err := <-ended:
		ended <- err
		t.Fatal(err)
		return nil, Ready{}
	}
}

// fromUpstream marks the answers of the upstream of these tests.
const fromUpstream = "X-From-Upstream"

func markedUpstream(t *testing.T) string {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(fromUpstream, "yes") }))
	t.Cleanup(up.Close)
	return up.URL
}

// TestFamilyNoTrustWithoutAWord: beside an upstream no path of the API and no gRPC
// call is answered to whoever is not named by --trust and has no token, from
// whatever loopback address, in whatever version of HTTP, with and without the
// fields that proxies set. With either, all of them are answered.
func TestFamilyNoTrustWithoutAWord(t *testing.T) {
	const token = "0123456789abcdef"
	upstream := markedUpstream(t)
	for _, host := range []string{"127.0.0.1", "::1"} {
		listen := net.JoinHostPort(host, "0")
		if ln, err := net.Listen("tcp", listen); err != nil {
			t.Logf("%s is left out: %v", host, err)
			continue
		} else {
			ln.Close()
		}
		for _, c := range []struct {
			name          string
			trust         []string
			authorization string
			answered      bool // over HTTP
			calls         bool // over gRPC
		}{
			{"nobody", nil, "", false, false},
			{"others", []string{"192.0.2.0/24", "2001:db8::/32"}, "", false, false},
			{"wrong token", nil, "Bearer 0123456789abcdeF", false, false},
			{"token of another scheme", nil, "Basic " + token, false, false},
			{"token", nil, "Bearer " + token, true, false},
			{"trusted", []string{host}, "", true, true},
			{"mapped", []string{"::1", "::ffff:127.0.0.1"}, "", true, true},
		} {
			t.Run(host+" "+c.name, func(t *testing.T) {
				t.Parallel()
				conf := config.Defaults()
				conf.Limits, conf.Trust, conf.Upstream = []string{"1000000/second by all"}, c.trust, upstream
				conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = listen, "127.0.0.1:0", listen
				conf.Admin.Token = token
				s, r := started(t, conf, slog.New(slog.DiscardHandler))
				paths := s.api.Paths()
				if testing.Short() {
					paths = paths[:1]
				}
				for _, path := range paths {
					for _, proto := range []string{"HTTP/1.0", "HTTP/1.1", "h2c"} {
						fields := []string{"", "X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP"}
						if c.name != "nobody" && os.Getenv("WEIR_SOAK") == "" {
							fields = fields[:2]
						}
						for _, field := range fields {
							if got := askedAPI(t, r.URLs["http"], path, proto, field, c.authorization); got != c.answered {
								t.Errorf("%s over %s with %q: answered by the API: %v, want %v", path, proto, field, got, c.answered)
							}
						}
					}
				}
				if err := callCheck(t, strings.TrimPrefix(r.URLs["grpc"], "grpc://")); (err == nil) != c.calls {
					t.Errorf("gRPC: %v, want an answer: %v", err, c.calls)
				}
			})
		}
	}
}

// askedAPI sends a request and reports whether it was answered by the API and not by
// the upstream.
func askedAPI(t *testing.T, base, path, proto, field, authorization string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", base+path, strings.NewReader(`{"clientId":"1"}`))
	if err != nil {
		t.Fatal(err)
	}
	if field != "" {
		req.Header.Set(field, "127.0.0.1")
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	var res *http.Response
	switch proto {
	case "h2c":
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		defer tr.CloseIdleConnections()
		res, err = tr.RoundTrip(req)
	default:
		var conn net.Conn
		if conn, err = net.Dial("tcp", req.URL.Host); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		var b strings.Builder
		req.Header.Write(&b)
		fmt.Fprintf(conn, "POST %s %s\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 16\r\n%s\r\n{\"clientId\":\"1\"}", path, proto, b.String())
		res, err = http.ReadResponse(bufio.NewReader(conn), req)
	}
	if err != nil {
		t.Fatalf("%s over %s: %v", path, proto, err)
	}
	defer res.Body.Close()
	return res.Header.Get(fromUpstream) == ""
}

func callCheck(t *testing.T, addr string) error {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = weirpb.NewLimitServiceClient(conn).Check(ctx, &weirpb.CheckRequest{
		Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "client_id", Value: "1"}}}},
	})
	return err
}

// TestListenersAreTurnedOff: off, like nothing, is for no listener, whichever it is, and where
// nobody could ask the node any more the error says so.
func TestListenersAreTurnedOff(t *testing.T) {
	for _, none := range []string{"off", ""} {
		c := config.Defaults()
		c.Limits, c.HTTP.Listen = []string{"1/minute by ip"}, "127.0.0.1:0"
		c.GRPC.Listen, c.Admin.Listen, c.RESP.Listen = none, none, none
		if _, ready := started(t, c, slog.New(slog.DiscardHandler)); len(ready.URLs) != 1 || ready.URLs["http"] == "" {
			t.Errorf("%q: it listens on %v", none, ready.URLs)
		}
		c = config.Defaults()
		c.Limits, c.HTTP.Listen, c.GRPC.Listen = []string{"1/minute by ip"}, none, none
		if _, err := New(c, Build{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "are all off") {
			t.Errorf("%q: %v", none, err)
		}
	}
}

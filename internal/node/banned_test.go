package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/servertest"
	grpclimit "github.com/weirlimit/weir/middleware/grpc"
	httplimit "github.com/weirlimit/weir/middleware/http"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

const bannedRules = `domain: api
deny: {"header:X-Kind": [denied]}
descriptors:
  - key: header:X-Kind
    limit: 1000/hour
    deny: [denied by a rule]
  - key: header:X-Kind
    value: ruled
    limit: {limit: 1/hour, ban: {after: 1, for: 2h}}
`

// toldBan is what a door tells a client.
type toldBan struct {
	refused bool
	text    string        // all of the answer
	says    string        // what must be in it
	wait    time.Duration // weir.Never for none
}

// TestFamilyBannedIsToldSo: at every door a client that is banned, by an operator under
// one limit or over the domain, by a rule's ban or by a deny list, is told so and for
// how long, and never of a limit that is exhausted.
func TestFamilyBannedIsToldSo(t *testing.T) {
	s, ready := serveBanned(t)
	doors := bannedDoors(t, s, ready)
	for name, door := range doors {
		if got := door(t, "free"); got.refused || strings.Contains(got.text, "anned") {
			t.Errorf("%s: a client that is not banned: %+v", name, got)
		}
		for _, kind := range []string{"key", "domain", "ruled", "denied", "denied by a rule"} {
			got, ends := door(t, kind), !strings.HasPrefix(kind, "denied")
			if !got.refused || !strings.Contains(got.text, got.says) || strings.Contains(got.text, "exhausted") {
				t.Errorf("%s, %s: does not tell of the ban: %s", name, kind, got.text)
			}
			if ends != (got.wait != weir.Never) || ends && (got.wait > 2*time.Hour+time.Second || got.wait < 100*time.Minute) {
				t.Errorf("%s, %s: tells to wait for %s: %s", name, kind, got.wait, got.text)
			}
			if strings.Contains(got.text, "banned until") != (ends && strings.HasPrefix(got.says, "banned")) {
				t.Errorf("%s, %s: the end is wrong: %s", name, kind, got.text)
			}
			if low := strings.ReplaceAll(strings.ToLower(got.text), "x-ratelimit-retry-after", ""); kind != "ruled" && strings.HasPrefix(got.says, "banned") && (strings.Contains(low, "ratelimit") || strings.Contains(low, "at_most") || strings.Contains(low, "guarantee") || strings.Contains(low, "quota_value")) {
				t.Errorf("%s, %s: tells of a limit: %s", name, kind, got.text)
			}
		}
	}
}

// serveBanned runs a server with every door, in which some clients are banned.
func serveBanned(t *testing.T) (*Server, Ready) {
	t.Helper()
	c := config.Defaults()
	c.Rules, c.Upstream, c.ForwardAuth.Prefix, c.ExtAuthz.Enabled = servertest.File(t, "rules.yaml", bannedRules), markedUpstream(t), "/auth", true
	c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen, c.RESP.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Trust, c.Identity.Proxies.Trusted = []string{"127.0.0.1"}, []string{"127.0.0.1"}
	s, ready := started(t, c, slog.New(slog.DiscardHandler))
	ask := func(kind string) *weir.Request {
		return &weir.Request{Domain: "api", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "header:X-Kind", Value: kind}}}}}
	}
	op := s.overlay.Match(nil, ask("key"))[0]
	target := overlay.Target{Domain: "api", Entries: ask("key").Descriptors[0].Entries, Limit: op.Limit, Key: strings.Clone(op.Key)}
	if err := s.overlay.Keys.Set(t.Context(), target, overlay.Ban, 2*time.Hour, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	if err := s.overlay.Keys.Set(t.Context(), overlay.DomainTarget("api", ask("domain").Descriptors[0].Entries[0]), overlay.BanDomain, 2*time.Hour, overlay.Author{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.limiter.Decide(t.Context(), ask("ruled")); err != nil {
			t.Fatal(err)
		}
	}
	return s, ready
}

// retryAfter reads the field of an answer, weir.Never if there is none.
func retryAfter(t *testing.T, field string) time.Duration {
	t.Helper()
	if field == "" {
		return weir.Never
	}
	n, err := strconv.Atoi(field)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

// bannedDoors returns all that answers clients, by name.
func bannedDoors(t *testing.T, s *Server, ready Ready) map[string]func(t *testing.T, kind string) toldBan {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(ready.URLs["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m, err := httplimit.New(httplimit.Options{Limiter: s.limiter, Identity: s.identity.Resolver})
	if err != nil {
		t.Fatal(err)
	}
	g, err := grpclimit.New(grpclimit.Options{Limiter: s.limiter, Identity: s.identity.Resolver})
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewServer(m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(page.Close)
	send := func(t *testing.T, method, url, kind, body string) (*http.Response, string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if kind != "" {
			req.Header = http.Header{"X-Kind": {kind}, "X-Forwarded-For": {"203.0.113.9"}}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(text)
	}
	get := func(url string) func(*testing.T, string) toldBan {
		return func(t *testing.T, kind string) toldBan {
			res, text := send(t, "GET", url, kind, "")
			return toldBan{res.StatusCode == 429, fmt.Sprint(res.Header, text), "banned", retryAfter(t, res.Header.Get("Retry-After"))}
		}
	}
	return map[string]func(*testing.T, string) toldBan{
		"gateway": get(ready.URLs["http"] + "/a"), "forward-auth": get(ready.URLs["http"] + "/auth/a"), "HTTP middleware": get(page.URL),
		"HTTP API": func(t *testing.T, kind string) toldBan {
			_, text := send(t, "POST", ready.URLs["http"]+"/v1/check", "", fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"header:X-Kind","value":%q}]}]}`, kind))
			wait := weir.Never
			if _, rest, _ := strings.Cut(text, `"retry_after":`); !strings.HasPrefix(rest, "null") {
				number, _, _ := strings.Cut(rest, ",")
				n, err := strconv.ParseFloat(number, 64)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				wait = time.Duration(n * float64(time.Second))
			}
			return toldBan{strings.HasPrefix(text, `{"allowed":false`), text, `"banned":true`, wait}
		},
		"ext_authz": func(t *testing.T, kind string) toldBan {
			res, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source:  &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1"}}}},
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "h", Path: "/", Headers: map[string]string{"x-kind": kind}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			denied := res.GetDeniedResponse()
			var hs []*corev3.HeaderValue
			for _, h := range denied.GetHeaders() {
				hs = append(hs, h.Header)
			}
			return toldBan{denied != nil, headersText(hs) + denied.GetBody(), "banned", retryAfter(t, headerNamed(hs, "retry-after"))}
		},
		"RLS": func(t *testing.T, kind string) toldBan {
			res, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlspb.RateLimitRequest{Domain: "api",
				Descriptors: []*ratelimitpb.RateLimitDescriptor{{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "header:X-Kind", Value: kind}}}}})
			if err != nil {
				t.Fatal(err)
			}
			hs := res.ResponseHeadersToAdd
			return toldBan{res.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT, headersText(hs) + string(res.RawBody), "banned", retryAfter(t, headerNamed(hs, "retry-after"))}
		},
		"gRPC middleware": func(t *testing.T, kind string) toldBan {
			ctx := metadata.NewIncomingContext(peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}), metadata.MD{":authority": {"h"}, "x-kind": {kind}})
			_, err := g.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a"}, func(context.Context, any) (any, error) { return nil, nil })
			told := toldBan{refused: err != nil, text: fmt.Sprint(status.Convert(err).Message(), status.Convert(err).Details()), says: "banned", wait: weir.Never}
			for _, d := range status.Convert(err).Details() {
				if retry, ok := d.(*errdetails.RetryInfo); ok {
					told.wait = retry.RetryDelay.AsDuration()
				}
			}
			return told
		},
		"weir.v1": func(t *testing.T, kind string) toldBan {
			res, err := weirpb.NewLimitServiceClient(conn).Check(t.Context(), &weirpb.CheckRequest{Domain: "api",
				Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "header:X-Kind", Value: kind}}}}})
			if err != nil {
				t.Fatal(err)
			}
			wait := weir.Never
			if us := res.Decision.RetryAfterUs; us >= 0 {
				wait = time.Duration(us) * time.Microsecond
			}
			says := "no ban is told"
			if res.Decision.Banned {
				says = ""
			}
			return toldBan{!res.Decision.Allowed, res.String(), says, wait}
		},
		"RESP": func(t *testing.T, kind string) toldBan {
			all := redisSays(t, ready, kind)
			_, rest, _ := strings.Cut(all, "retry_after_ms\r\n:")
			number, _, _ := strings.Cut(rest, "\r\n")
			ms, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("%q: %v", all, err)
			}
			wait := time.Duration(ms) * time.Millisecond
			if ms < 0 {
				wait = weir.Never
			}
			return toldBan{strings.Contains(all, "allowed\r\n:0"), all, "$6\r\nbanned\r\n:1\r\n", wait}
		},
	}
}

func headersText(hs []*corev3.HeaderValue) string {
	var b strings.Builder
	for _, h := range hs {
		fmt.Fprintln(&b, h.Key, h.Value, string(h.RawValue))
	}
	return b.String()
}

func headerNamed(hs []*corev3.HeaderValue, name string) string {
	for _, h := range hs {
		if strings.EqualFold(h.Key, name) {
			return h.Value + string(h.RawValue)
		}
	}
	return ""
}

// TestBansNameClientsAsRoutesDo: the answer to a ban of one address names the form by
// which front ends know its client, also under a key that a route gives it; the ban of
// that form holds.
func TestBansNameClientsAsRoutesDo(t *testing.T) {
	c := config.Defaults()
	c.Rules, c.Upstream = servertest.File(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: ip, limit: 100/hour}\n"), markedUpstream(t)
	c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0", ""
	c.Identity.Proxies.Trusted = []string{"127.0.0.1"}
	c.Routes = []config.Route{{Path: "/*", Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{Key: "ip", From: "remote_address"}}}}}}
	_, ready := started(t, c, slog.New(slog.DiscardHandler))
	ask := func() int {
		req, err := http.NewRequestWithContext(t.Context(), "GET", ready.URLs["http"]+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "2001:db8::5")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for _, step := range []struct {
		value, says string
		status      int
	}{
		{"2001:db8::5", `"counted_as"`, http.StatusTooManyRequests},
		{"2001:db8::/64", "", http.StatusTooManyRequests},
	} {
		res, err := http.Post(ready.URLs["admin"]+"/v1/admin/ban", "application/json",
			strings.NewReader(fmt.Sprintf(`{"descriptors":[{"entries":[{"key":"ip","value":%q}]}],"seconds":60}`, step.value)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || strings.Contains(string(text), `"counted_as"`) != (step.says != "") || !strings.Contains(string(text), step.says) {
			t.Errorf("%s: %d %s, %v", step.value, res.StatusCode, text, err)
		}
		if got := ask(); got != step.status {
			t.Errorf("after the ban of %s the client gets %d, want %d", step.value, got, step.status)
		}
	}
}

// TestThrottleKnowsNoBans: CL.THROTTLE answers by its own key and numbers alone, also
// for a client that is banned, by whatever names it; WEIR.CHECK refuses it. The answer
// to a ban over the domain says so.
func TestThrottleKnowsNoBans(t *testing.T) {
	_, ready := serveBanned(t)
	const fresh = "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n+OK\r\n"
	for _, kind := range []string{"free", "key", "domain", "ruled", "denied"} {
		if got := redisSays(t, ready, kind); strings.Contains(got, "banned\r\n:1\r\n") != (kind != "free") || strings.Contains(got, "allowed\r\n:0\r\n") != (kind != "free") {
			t.Errorf("WEIR.CHECK of %s: %q", kind, got)
		}
		for _, key := range []string{kind, "header:X-Kind=" + kind, "api header:X-Kind " + kind} {
			if got := redisAnswers(t, ready, "CL.THROTTLE", key, "15", "30", "60"); got != fresh {
				t.Errorf("CL.THROTTLE %q: %q", key, got)
			}
		}
	}
	for _, whole := range []bool{false, true} {
		res, err := http.Post(ready.URLs["admin"]+"/v1/admin/ban", "application/json",
			strings.NewReader(fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"header:X-Kind","value":"key"}]}],"seconds":60,"whole_domain":%t}`, whole)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || strings.Contains(string(text), "CL.THROTTLE") != whole {
			t.Errorf("a ban (over the domain: %t): %d %s, %v", whole, res.StatusCode, text, err)
		}
	}
}

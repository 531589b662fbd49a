package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyDoorsReportIdentity: at every door that reads whom a request is from, a key
// that is not known and a field that only trusted proxies may set are in the metrics
// and in the log, without the key.
func TestFamilyDoorsReportIdentity(t *testing.T) {
	const key = "not-a-key-of-the-file"
	dir := t.TempDir()
	keys, rules := filepath.Join(dir, "keys.csv"), filepath.Join(dir, "rules.yaml")
	for path, text := range map[string]string{
		keys:  "sha256,user,tier\n" + strings.Repeat("0a", 32) + ",bob,gold\n",
		rules: "domain: api\ndescriptors:\n- {key: user, limit: 100/minute}\n- {key: remote_address, limit: 100/minute}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	header := http.Header{"X-Api-Key": {key}, "X-Forwarded-For": {"203.0.113.9"}}
	get := func(t *testing.T, url string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header.Clone()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("%s: %s", url, res.Status)
		}
	}
	for name, c := range map[string]struct {
		conf      func(*config.Config)
		ask       func(*testing.T, Ready)
		untrusted bool
	}{
		"gateway": {func(c *config.Config) { c.Upstream = markedUpstream(t) }, func(t *testing.T, r Ready) { get(t, r.URLs["http"]+"/") }, true},
		"gateway that knows a method by a field": {func(c *config.Config) {
			c.Upstream, c.Identity.MethodOverride = markedUpstream(t), "X-HTTP-Method-Override"
		}, func(t *testing.T, r Ready) { get(t, r.URLs["http"]+"/x") }, true},
		"forward-auth": {func(c *config.Config) {
			c.ForwardAuth.Prefix, c.Identity.Proxies.Trusted = "/auth", []string{"127.0.0.1"}
		}, func(t *testing.T, r Ready) { get(t, r.URLs["http"]+"/auth/x") }, false}, // only trusted proxies may ask
		"ext_authz": {func(c *config.Config) { c.ExtAuthz.Enabled = true }, func(t *testing.T, r Ready) {
			conn, err := grpc.NewClient(strings.TrimPrefix(r.URLs["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err = authv3.NewAuthorizationClient(conn).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1"}}}},
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Host: "h", Path: "/",
					Headers: map[string]string{"x-api-key": key, "x-forwarded-for": "203.0.113.9"}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
		}, false}, // Envoy adds it, of a client on loopback its own address
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := config.Defaults()
			conf.Rules, conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = rules, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
			conf.Identity.APIKey.From, conf.Identity.APIKey.File, conf.Identity.User = []string{"header:X-Api-Key"}, keys, []string{"api_key"}
			c.conf(conf)
			var log servertest.Log
			_, r := started(t, conf, slog.New(slog.NewTextHandler(&log, nil)))
			c.ask(t, r)
			has := func(metric string, n int) {
				t.Helper()
				res, err := http.Get(r.URLs["admin"] + "/metrics")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				text := string(body)
				if !strings.Contains(text, fmt.Sprintf("%s %d\n", metric, n)) {
					_, at, _ := strings.Cut(text, metric)
					t.Errorf("%s is not %d: %.20s", metric, n, at)
				}
			}
			has(`weir_identity_failures_total{kind="api_key",reason="unknown"}`, 1)
			has(`weir_identity_failures_total{kind="credential",reason="unclear"}`, 0)
			untrusted := 0
			if c.untrusted {
				untrusted = 1
			}
			has(`weir_untrusted_forwarded_total{field="X-Forwarded-For"}`, untrusted)
			text := log.String()
			if strings.Contains(text, key) || !strings.Contains(text, "kind=api_key reason=unknown") || strings.Contains(text, `flag="--trusted-proxies 127.0.0.1"`) != c.untrusted {
				t.Errorf("logged:\n%s", text)
			}
		})
	}
}

// TestKeyFilesThatSayLess: what is asked of a file of keys that says it of nobody is
// warned of.
func TestKeyFilesThatSayLess(t *testing.T) {
	const sum = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
	for text, want := range map[string]string{
		"sha256,user,tier\n" + sum + ",bob,gold\n": "",
		"sha256,user\n" + sum + ",bob\n":           "no row of it has a tier",
		"sha256,tier\n" + sum + ",gold\n":          "no key of it has a user",
		"user,tier\nbob,gold\n":                    "it has no key",
		"sha256,user,tier\n":                       "it has no key",
	} {
		file := filepath.Join(t.TempDir(), "keys.csv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		conf := config.Defaults()
		conf.Limits, conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = []string{"1/hour"}, "127.0.0.1:0", "", ""
		conf.Identity.APIKey.From, conf.Identity.APIKey.File = []string{"header:X-Api-Key"}, file
		conf.Identity.User, conf.Identity.Tier = []string{"api_key"}, []string{"keys"}
		var log servertest.Log
		s, err := New(conf, Build{}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if got := log.String(); strings.Contains(got, "API key file incomplete") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%q: want %q in\n%s", text, want, got)
		}
	}
}

// TestRefusedGRPCIsLogged: whoever is refused as a stranger is logged once, with the
// flag to set.
func TestRefusedGRPCIsLogged(t *testing.T) {
	conf := config.Defaults()
	conf.Limits, conf.Upstream = []string{"1/hour"}, markedUpstream(t)
	conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen = "127.0.0.1:0", "", "127.0.0.1:0"
	var log servertest.Log
	_, r := started(t, conf, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.URLs["grpc"], "grpc://"))
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		if n, _ := conn.Read(make([]byte, 1)); n != 0 {
			t.Error("a stranger is answered")
		}
		conn.Close()
	}
	servertest.Await(t, "the log", func() bool { return strings.Contains(log.String(), `flag="--trust 127.0.0.1"`) })
	if n := strings.Count(log.String(), "gRPC client refused"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

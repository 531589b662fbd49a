package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// TestFamilyTypoIsNoPassAtAnyDoor: at every door that is asked by domain and entries a
// question that meets no rule is counted, of its domain where the rules have it, and
// warned of once with what was meant, whatever the domain is called.
func TestFamilyTypoIsNoPassAtAnyDoor(t *testing.T) {
	conf := config.Defaults()
	conf.Rules = servertest.File(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: api_key, limit: 100/minute}\n")
	conf.HTTP.Listen, conf.Admin.Listen, conf.GRPC.Listen, conf.RESP.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	var log servertest.Log
	s, ready := started(t, conf, slog.New(slog.NewTextHandler(&log, nil)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(strings.TrimPrefix(ready.URLs["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	own, envoy := weirpb.NewLimitServiceClient(conn), rlspb.NewRateLimitServiceClient(conn)
	redis, err := net.Dial("tcp", strings.TrimPrefix(ready.URLs["resp"], "redis://"))
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	replies := bufio.NewReader(redis)
	call := func(path, body string) error {
		res, err := http.Post(ready.URLs["http"]+path, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != 200 {
			return fmt.Errorf("%s", res.Status)
		}
		return nil
	}
	descriptors := func(key string) []*weirpb.Descriptor {
		return []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: key, Value: "k"}}}}
	}
	ask := func(domain, key string) string { // %q is no JSON
		text, err := json.Marshal(domain)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"domain":%s,"descriptors":[{"entries":{%q:"k"}}]`, text, key)
	}
	lease := "l"
	doors := map[string]func(domain, key string) error{
		"/v1/check": func(domain, key string) error { return call("/v1/check", ask(domain, key)+"}") },
		"/v1/check of several": func(domain, key string) error {
			return call("/v1/check", `{"checks":[`+ask(domain, key)+"}]}")
		},
		"/v1/peek":    func(domain, key string) error { return call("/v1/peek", ask(domain, key)+"}") },
		"/v1/acquire": func(domain, key string) error { return call("/v1/acquire", ask(domain, key)+`,"lease":"l"}`) },
		"/v1/reserve": func(domain, key string) error { return call("/v1/reserve", ask(domain, key)+"}") },
		"weir.v1": func(domain, key string) error {
			_, err := own.Check(ctx, &weirpb.CheckRequest{Domain: domain, Descriptors: descriptors(key)})
			return err
		},
		"weir.v1 of several": func(domain, key string) error {
			_, err := own.CheckBatch(ctx, &weirpb.CheckBatchRequest{Checks: []*weirpb.CheckRequest{{Domain: domain, Descriptors: descriptors(key)}}})
			return err
		},
		"weir.v1 of a table": func(domain, key string) error {
			_, err := own.CheckBatch(ctx, &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Domain: domain, Keys: []string{key}, Values: []string{"k"}}})
			return err
		},
		"weir.v1 to acquire": func(domain, key string) error {
			_, err := own.Acquire(ctx, &weirpb.AcquireRequest{Domain: domain, Descriptors: descriptors(key), Lease: lease})
			return err
		},
		"Envoy": func(domain, key string) error {
			_, err := envoy.ShouldRateLimit(ctx, &rlspb.RateLimitRequest{Domain: domain,
				Descriptors: []*ratelimitpb.RateLimitDescriptor{{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: key, Value: "k"}}}}})
			return err
		},
		"Redis": func(domain, key string) error {
			if err := redis.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				return err
			}
			words := []string{"WEIR.CHECK", domain, key, "k"}
			fmt.Fprintf(redis, "*%d\r\n", len(words))
			for _, w := range words {
				fmt.Fprintf(redis, "$%d\r\n%s\r\n", len(w), w)
			}
			line, err := replies.ReadString('\n')
			for err == nil && replies.Buffered() > 0 {
				_, err = replies.ReadString('\n')
			}
			if err == nil && !strings.HasPrefix(line, "*") {
				err = fmt.Errorf("%q", line)
			}
			return err
		},
	}
	counted := func() string { return scrape(t, s, "weir_unmatched_requests_total{") }
	others, known, lines := 0, 0, 0
	is := func(name, why string) {
		t.Helper()
		want := fmt.Sprintf(`weir_unmatched_requests_total{domain="(other)"} %d; weir_unmatched_requests_total{domain="api"} %d`, others, known)
		if got := counted(); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if n := strings.Count(log.String(), "no rule matches them"); n != lines || !strings.Contains(log.String(), why) {
			t.Errorf("%s: %d lines, want %d and %s:\n%s", name, n, lines, why, log.String())
		}
	}
	n := 0
	for name, do := range doors {
		n++
		if err := do("api", "api_key"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		is(name+", as it should be", "")
		for _, domain := range []string{fmt.Sprint("apii", n), fmt.Sprintf("a\n\x1b[31m\"}%d", n), fmt.Sprint(strings.Repeat("d", 250), n)} {
			lines++
			for range 2 {
				if err := do(domain, "api_key"); err != nil {
					t.Fatalf("%s, domain %q: %v", name, domain, err)
				}
				others++
			}
			is(name+", a domain", "the rules have no domain")
		}
		lines++
		for range 2 {
			if err := do("api", fmt.Sprint("apikey", n)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			known++
		}
		is(name+", a key", fmt.Sprint("apikey", n))
	}
	if text := log.String(); strings.ContainsAny(text, "\x1b\x07") || strings.Count(text, "\n") != strings.Count(text, "level=") {
		t.Errorf("raw text is in the log:\n%q", text)
	}
}

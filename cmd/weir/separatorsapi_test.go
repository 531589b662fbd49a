package main_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/testing/servertest"
	weirv1 "github.com/weirlimit/weir/proto/weir/v1"
)

// TestNoSeparatorAtTheAPI: keys of several entries, unhashed, with limits of every mode,
// with overrides, bans, free passes and mistakes: no answer of the HTTP API, gRPC, Envoy's
// protocol, the Redis protocol, analytics or the commands has a control byte of the names
// of counters in it.
func TestNoSeparatorAtTheAPI(t *testing.T) {
	t.Parallel()
	cli := servertest.Binary(t, "redis-cli")
	n := serve(t, "--rules", servertest.File(t, "rules.yaml", `domain: api
descriptors:
  - key: tenant
    descriptors:
      - key: user
        limits:
          - {limit: 2/hour, name: strictly}
          - {limit: 2/day, algorithm: token_bucket, mode: shadow}
          - {limit: 3/minute, algorithm: fixed_window, mode: soft, exceed: 10%}
      - {key: job, limit: 2, algorithm: concurrency, ttl: 1m}
      - {key: login, limit: 2/hour, algorithm: lockout}
  - {key: client_id, limit: 2/hour, ban: {after: 2, for: 1h}}
`), "--analytics", "memory:", "--events-unhashed", "--events-sample", "1", "--resp", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
	separator := regexp.MustCompile("\x1f|" + `(?i)\\u001f|\\x1f|\\037|%1f`)
	looked := 0
	look := func(what, text string) {
		t.Helper()
		looked++
		if at := separator.FindStringIndex(text); at != nil {
			t.Errorf("%s: %.400s", what, text[max(0, at[0]-150):])
		}
	}
	command := func(args ...string) {
		t.Helper()
		out, _ := n.operate(t, args...)
		look(strings.Join(args, " "), out)
	}
	conn, err := grpc.NewClient(n.Listening("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	api, envoy := weirv1.NewLimitServiceClient(conn), rls.NewRateLimitServiceClient(conn)
	heard := func(what string, m proto.Message, err error) {
		t.Helper()
		look(what, fmt.Sprint(protojson.Format(m), err))
	}
	drive := func() {
		t.Helper()
		for _, d := range []string{`"tenant":"a","user":"ann"`, `"tenant":"a","job":"j"`, `"tenant":"a","login":"ann"`, `"client_id":"c"`, `"nobody":"a"`} {
			for _, path := range []string{"check", "check", "check", "peek", "reserve", "acquire", "explain", "release", "commit"} {
				for _, more := range []string{"", `,"lease":"l"`, `,"lease":"l","cost":-1`} {
					_, text := post(t, n.http+"/v1/"+path, `{"domain":"api","descriptors":[{"entries":{`+d+`}}]`+more+`}`)
					look(path, text)
				}
			}
			var entries []*weirv1.Entry
			var pairs []*ratelimitv3.RateLimitDescriptor_Entry
			words := []string{}
			for _, m := range regexp.MustCompile(`"(\w+)":"(\w+)"`).FindAllStringSubmatch(d, -1) {
				entries = append(entries, &weirv1.Entry{Key: m[1], Value: m[2]})
				pairs = append(pairs, &ratelimitv3.RateLimitDescriptor_Entry{Key: m[1], Value: m[2]})
				words = append(words, m[1]+"="+m[2])
			}
			one := []*weirv1.Descriptor{{Entries: entries}}
			check := &weirv1.CheckRequest{Domain: "api", Descriptors: one, Lease: "l"}
			a, err := api.Check(t.Context(), check)
			heard("Check", a, err)
			b, err := api.CheckBatch(t.Context(), &weirv1.CheckBatchRequest{Checks: []*weirv1.CheckRequest{check, check}})
			heard("CheckBatch", b, err)
			r, err := api.Reserve(t.Context(), &weirv1.ReserveRequest{Domain: "api", Descriptors: one, Cost: proto.Int64(1)})
			heard("Reserve", r, err)
			p, err := api.Acquire(t.Context(), &weirv1.AcquireRequest{Domain: "api", Descriptors: one})
			heard("Acquire", p, err)
			e, err := envoy.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitv3.RateLimitDescriptor{{Entries: pairs}}})
			heard("ShouldRateLimit", e, err)
			for _, call := range [][]string{append([]string{"WEIR.CHECK", "api"}, strings.Split(strings.Join(words, "="), "=")...), {"CL.THROTTLE", words[0], "1", "1", "60"}, {"WEIR.NO"}, {"WEIR.CHECK"}} {
				out, err := exec.Command(cli, append([]string{"-p", n.Listening("resp")[strings.LastIndex(n.Listening("resp"), ":")+1:]}, call...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v %s", call, err, out)
				}
				look(strings.Join(call, " "), string(out))
			}
			command(append([]string{"key", "inspect"}, words...)...)
			command(append([]string{"key", "inspect", "--json"}, words...)...)
			command(append([]string{"explain"}, words...)...)
			command(append([]string{"explain", "--json"}, words...)...)
			query := url.Values{"domain": {"api"}, "key": {strings.Join(words, " ")}, "rule": {"tenant/user"}, "limit": {"strictly"}}.Encode()
			for _, kind := range []string{"overview", "rules", "rule", "clients", "client", "top", "filters", "system", "accuracy", "upstream", "series", "advice", "explain"} {
				_, text := get(t, n.admin+"/v1/analytics/"+kind+"?"+query)
				look(kind, text)
			}
		}
		for _, path := range []string{"/metrics", "/rules", "/v1/rules", "/v1/admin/audit", "/v1/admin/modes", "/openapi.json", "/healthz/ready"} {
			_, text := get(t, n.admin+path)
			look(path, text)
		}
		command("top", "--once")
		command("top", "--json")
		command("audit")
		command("audit", "--json")
	}
	drive()
	user := []string{"tenant=a", "user=ann"}
	for _, change := range [][]string{
		{"override", "5/hour", "--limit", "strictly"}, {"grant", "1", "--limit", "strictly"}, {"allow", "--for", "1h", "--limit", "strictly"},
		{"ban", "--for", "1h", "--limit", "strictly"}, {"ban", "--for", "1h", "--limit", "nothing"}, {"reset", "--limit", "no"}, {"override", "0/hour"},
	} {
		command(append(append([]string{"key", change[0]}, user...), change[1:]...)...)
	}
	command("key", "ban", "tenant=a", "--whole-domain", "--for", "1h")
	command("promote", "api/tenant/user", "--to", "shadow", "--reason", "x")
	drive()
	if status, _ := get(t, n.admin+"/v1/analytics/overview"); status != http.StatusOK || looked < 200 {
		t.Errorf("%d: looked at %d answers", status, looked)
	}
	look("log", n.Output())
}

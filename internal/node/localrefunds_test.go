package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// What each node counts alone is given back by the node that was charged, at every door: the
// other says how else. What the nodes count together any of them gives back.
func TestRefundsFindTheNodeThatCounted(t *testing.T) {
	t.Parallel() // it waits for nodes to hear of each other
	redis := servertest.Redis(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	const admin = "0123456789abcdef0123456789abcdef"
	rules := servertest.File(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: alone, limit: 100/hour, algorithm: fixed_window, consistency: local}\n"+
		"  - {key: together, limit: 100/hour, algorithm: fixed_window, consistency: strict}\n")
	var nodes [2]Ready
	for i := range nodes {
		c := config.Defaults()
		c.Store, c.Rules, c.API.ReserveKeyFile, c.Admin.Token = "redis://"+redis.Addr, rules, key, admin
		c.HTTP.Listen, c.Admin.Listen, c.GRPC.Listen, c.RESP.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		_, nodes[i] = started(t, c, slog.New(slog.DiscardHandler))
	}
	post := func(startNode Ready, path, body string) (int, string) {
		return send(t, "POST", startNode.URLs["http"]+path, body, map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + admin})
	}
	const cure = "set its consistency to strict, leased or eventual"
	for _, kind := range []string{"alone", "together"} {
		alone := kind == "alone"
		asked := `"domain":"api","descriptors":[{"entries":{"` + kind + `":"k"}}]`
		descriptor := []*ratelimitpb.RateLimitDescriptor{{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: kind, Value: "k"}}, IsNegativeHits: true}}
		// handle reserves 60 units on the first node.
		handle := func() string {
			code, text := post(nodes[0], "/v1/reserve", `{`+asked+`,"cost":30}`)
			_, rest, ok := strings.Cut(text, `"handle":"`)
			if code != 200 || !ok {
				t.Fatal(code, text)
			}
			return rest[:strings.IndexByte(rest, '"')]
		}
		for i, startNode := range nodes {
			conn, err := grpc.NewClient(strings.TrimPrefix(startNode.URLs["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			refused := alone && i == 1
			code, text := post(startNode, "/v1/cancel", `{"handle":"`+handle()+`"}`)
			if refused != (code == 422 && strings.Contains(text, cure)) || !refused && code != 200 {
				t.Errorf("%s, node %d: /v1/cancel: %d %s", kind, i, code, text)
			}
			_, err = weirpb.NewLimitServiceClient(conn).Cancel(t.Context(), &weirpb.CancelRequest{Handle: handle()})
			if refused != (status.Code(err) == codes.FailedPrecondition && strings.Contains(err.Error(), cure)) || !refused && err != nil {
				t.Errorf("%s, node %d: Cancel: %v", kind, i, err)
			}
			// What names no charge names no node either.
			_, err = rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlspb.RateLimitRequest{Domain: "api", Descriptors: descriptor})
			if alone != (status.Code(err) == codes.FailedPrecondition && strings.Contains(err.Error(), cure)) || !alone && err != nil {
				t.Errorf("%s, node %d: negative hits: %v", kind, i, err)
			}
			if text := redisAnswers(t, startNode, "WEIR.REFUND", "api", kind, "k"); alone != strings.Contains(text, cure) || !alone && !strings.HasPrefix(text, ":1") {
				t.Errorf("%s, node %d: WEIR.REFUND: %s", kind, i, text)
			}
			code, text = post(startNode, "/v1/admin/grant", `{`+asked+`,"units":5}`)
			if alone != (code == 422 && strings.Contains(text, cure)) || !alone && code != 200 {
				t.Errorf("%s, node %d: /v1/admin/grant: %d %s", kind, i, code, text)
			}
		}
		_, text := post(nodes[1], "/v1/check", `{`+asked+`,"peek":true}`)
		if !strings.Contains(text, `"remaining":100`) {
			t.Errorf("%s: on the other node: %s", kind, text)
		}
	}
}

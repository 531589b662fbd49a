package envoy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// filterOf returns the filter of a block.
func filterOf(t testing.TB, text string) object {
	t.Helper()
	filter := parse(t, text).(object)["http_filters"].(list)[0].(object)
	if config := filter["typed_config"].(object); config["rate_limit_service"] != nil {
		config["timeout"] = "5s" // as a busy machine is late
	}
	return filter
}

// limitsOf returns the rate limits of a block.
func limitsOf(t testing.TB, text string) list {
	t.Helper()
	return parse(t, text).(object)["rate_limits"].(list)
}

// places are those in which the page says that rate_limits can be, with the filter of its
// first block.
func places(t testing.TB, first string, limits list, before ...any) map[string]string {
	t.Helper()
	filter, inFilter := filterOf(t, first), filterOf(t, first)
	inFilter["typed_config"].(object)["rate_limits"] = limits
	perRoute := object{"typed_per_filter_config": object{"envoy.filters.http.ratelimit": typed(kindPerRoute, object{"rate_limits": limits})}}
	return map[string]string{
		"filter":    setup{filters: append(before, inFilter)}.bootstrap(t),
		"per route": setup{filters: append(before, filter), routes: list{toApplication(nil, perRoute)}}.bootstrap(t),
	}
}

// The first block limits by its header field, tells the limits once, and refuses calls of
// gRPC in their words.
func runGRPCFilter(t *testing.T, blocks ...string) {
	filter := filterOf(t, blocks[0])
	app := serveApplication(t)
	weir := serve(t, "--rules", writeFile(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: user, limit: 2/day}\n"))
	e := startEnvoy(t, setup{filters: list{filter}}.bootstrap(t), ports(app.addr, weir))
	for _, more := range [][]string{nil, {"Content-Type", "text/plain"}} {
		user := fmt.Sprint("ann", len(more))
		var last got
		var statuses []int
		for range 3 {
			last = e.do(t, h2, "POST", "/", "x", append(more, "X-User", user)...)
			statuses = append(statuses, last.code)
			for _, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "Ratelimit", "Ratelimit-Policy"} {
				if n := len(last.Values(name)); n != 1 || strings.Contains(last.Get(name), ",") {
					t.Errorf("%s is there %d times: %q", name, n, last.Values(name))
				}
			}
		}
		want(t, user, statuses, []int{200, 200, 429})
		if !strings.HasPrefix(last.body, `{"type"`) || last.Get("Content-Type") != "application/problem+json" || len(last.Values("Retry-After")) != 1 {
			t.Errorf("a refusal: %+v", last)
		}
	}
	want(t, "without the field", e.codes(t, 3, "/"), times(3, 200))
	conn := dial(t, e.addr())
	for i := range 3 {
		wantCall(t, "rate limits", conn, i < 2, "x-user", "bob")
	}
}

// Costs after the response: both places count as the page says, and the older place does
// not, which the page says too.
func runCostsAfterTheResponse(t *testing.T, blocks ...string) {
	after := limitsOf(t, blocks[1])
	// What a filter of the application's owner would do: the used units are in a field.
	used := object{"name": "envoy.filters.http.header_to_metadata", "typed_config": typed("envoy.extensions.filters.http.header_to_metadata.v3.Config", object{
		"response_rules": list{object{"header": "x-used", "on_header_present": object{"metadata_namespace": "llm", "key": "total_tokens", "type": "NUMBER"}}}})}
	app := serveApplication(t)
	weir := serve(t, "--rules", writeFile(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: user, limit: 10/day}\n"))
	for place, conf := range places(t, blocks[0], after, used) {
		e := startEnvoy(t, conf, ports(app.addr, weir))
		user := []string{"X-User", place, "X-Use", "7"}
		want(t, place+", the first", e.codes(t, 1, "/", user...), []int{200})
		e.awaitCalls(t, 2) // the look, and the charge after the response
		want(t, place+", 3 are left", e.codes(t, 1, "/", user...), []int{200})
		e.awaitCalls(t, 4)
		want(t, place+", 4 beyond", e.codes(t, 2, "/", user...), times(2, 429))
		want(t, place+", another", e.codes(t, 1, "/", "X-User", "other of "+place), []int{200})
	}

	filter := filterOf(t, blocks[0])
	delete(filter["typed_config"].(object), "rate_limits")
	e := startEnvoy(t, setup{filters: list{used, filter}, routes: list{toApplication(object{"rate_limits": after}, nil)}}.bootstrap(t), ports(app.addr, weir))
	want(t, "the older place", e.codes(t, 1, "/", "X-User", "old", "X-Use", "7"), []int{200})
	e.awaitCalls(t, 2)
	if left := e.get(t, "/", "X-User", "old").Get("X-Ratelimit-Remaining"); left != "7" { // 1 before, 1 after, 1 now
		t.Errorf("in the older place %s of 10 are left: does Envoy read hits_addend there now?", left)
	}
}

// awaitCalls waits until Envoy has had n answers of the service.
func (p *proxy) awaitCalls(t testing.TB, n int) {
	t.Helper()
	servertest.Await(t, "Envoy's calls", func() bool {
		return p.stat(t, "cluster.weir.upstream_rq_completed") >= n
	})
}

// Concurrency limits: whatever ids clients choose, as many run as the limit says, and
// what ends makes room.
func runConcurrencyLimits(t *testing.T, blocks ...string) {
	mutation, permits := filterOf(t, blocks[1]), limitsOf(t, blocks[2])
	weir := serve(t, "--rules", writeFile(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: user, limits: [{name: two, limit: 2, algorithm: concurrency, ttl: 1h}]}\n"))
	for place, conf := range places(t, blocks[0], permits, mutation) {
		app := serveApplication(t)
		e := startEnvoy(t, conf, ports(app.addr, weir))
		fields := []string{"X-User", place, "X-Request-Id", "mine", "X-Permit", "mine"}
		var held sync.WaitGroup
		for range 2 {
			held.Go(func() { e.get(t, "/hold", fields...) })
		}
		servertest.Await(t, "two requests", func() bool { return app.count() == 2 })
		want(t, place+", two run", e.codes(t, 3, "/", fields...), times(3, 429))
		close(app.hold)
		held.Wait()
		servertest.Await(t, "a permit", func() bool { return e.get(t, "/", fields...).code == 200 })
		want(t, place+", one after the other", []int{e.awaitFree(t, fields), e.awaitFree(t, fields), e.awaitFree(t, fields)}, times(3, 200))
		for _, r := range app.requests() {
			if id := r.Header.Values("X-Permit"); len(id) != 1 || id[0] == "mine" || len(id[0]) < 32 {
				t.Errorf("the permit's name is %q", id)
			}
		}
	}
}

// awaitFree asks until it is let through: permits come back after the response.
func (p *proxy) awaitFree(t testing.TB, fields []string) (code int) {
	t.Helper()
	servertest.Await(t, "room", func() bool {
		code = p.get(t, "/", fields...).code
		return code == 200
	})
	return code
}

// wantCall makes a call of gRPC, which is let through with its trailer, or refused.
func wantCall(t testing.TB, what string, conn grpcConn, through bool, fields ...string) {
	t.Helper()
	st, md := callHealth(t, conn, fields...)
	switch {
	case through && (st.Code() != codes.OK || !slices.Equal(md["x-behind"], []string{"yes"})):
		t.Errorf("%s: a call: %v, trailer %v", what, st, md)
	case !through && (st.Code() != codes.ResourceExhausted || len(st.Message()) > 120 || strings.Contains(st.Message(), "{") || !strings.Contains(st.Message(), "is exhausted; try again in ") || md.Get("retry-after") == nil):
		t.Errorf("%s: a refused call: %v, %v", what, st, md)
	}
}

package gateway_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// TestTrailersOfBothSides: what must not trail is dropped on the way to the upstream and
// back, announced or not, and the rest passes.
func TestTrailersOfBothSides(t *testing.T) {
	var saw string
	srv := serve(t, clocked.New(t), weir.Limits{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Expires, X-Sum")
		_, _ = io.Copy(io.Discard, r.Body)
		saw = strings.Join(slices.Sorted(maps.Keys(r.Trailer)), " ")
		fmt.Fprint(w, "body")
		w.Header().Set("Expires", "0")
		w.Header().Set("X-Sum", "1")
		for _, name := range []string{"Set-Cookie", "Content-Type", "Www-Authenticate", "Grpc-Status"} {
			w.Header().Set(http.TrailerPrefix+name, "x")
		}
	}, gateway.Options{})
	req, err := http.NewRequest("POST", srv.URL, struct{ io.Reader }{strings.NewReader("x")})
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer = http.Header{}
	for _, name := range []string{"Host", "Te", "Upgrade", "Expect", "Content-Type", "Proxy-Authorization", "Prefer", "Destination", "X-Real-Ip", "X-Forwardedfor", "X-Cost", "Content-Digest"} {
		req.Trailer.Set(name, "x")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" {
		t.Errorf("%q %v", body, err)
	}
	if saw != "Content-Digest X-Cost" {
		t.Errorf("the upstream saw the trailers %s", saw)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(res.Trailer)), " "); got != "Grpc-Status X-Sum" {
		t.Errorf("the client saw the trailers %s", got)
	}
}

// headerRules have one list of keys, a header, and limit nothing.
type headerRules struct{ descriptors []weir.Descriptor }

func (h *headerRules) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	h.descriptors = nil
	for _, d := range r.Descriptors { // its texts are the caller's
		d.Entries = slices.Clone(d.Entries)
		for i := range d.Entries {
			d.Entries[i].Value = strings.Clone(d.Entries[i].Value)
		}
		h.descriptors = append(h.descriptors, d)
	}
	return dst
}

var headerLists = []weir.KeyList{{Keys: []string{"header:X-Plan"}}}

func (*headerRules) KeyLists(string) []weir.KeyList { return headerLists }

func (*headerRules) Exempts(*weir.Request) bool { return false }

func (*headerRules) Misspelt(*weir.Request) string { return "" }

// merging is an upstream that merges the trailers into the header.
type merging struct{ trailer, merged http.Header }

func (m *merging) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	m.trailer, m.merged = r.Trailer.Clone(), r.Header.Clone()
	for key, lines := range m.trailer {
		m.merged[key] = append(m.merged[key], lines...)
	}
	return &http.Response{StatusCode: 204, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// TestTrailersHoldNothingThatIsCounted: whatever the names of trailers, an upstream that
// merges them into the header finds what was counted, and trailers of other names pass.
func TestTrailersHoldNothingThatIsCounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeds.Of(t), 41))
	who := identitytest.New(t, identity.Options{
		Proxies: identity.ProxyOptions{Header: "X-Client", Trusted: []netip.Prefix{netip.MustParsePrefix("203.0.113.1/32")}}, MethodOverride: "X-Verb",
		APIKey: identity.APIKeyOptions{From: []string{"header:X-Api-Key", "cookie:key"}}, User: []string{"api_key"},
		Keys: identitytest.Keys(t, "keys.yaml", "- {sha256: "+identitytest.Digest("alice-key-0123456789abcdef")+", user: alice}\n- {sha256: "+identitytest.Digest("bob-key-0123456789abcdef")+", user: bob}\n"),
	})
	by := func(from ...string) (d identity.Descriptor) {
		for _, f := range from {
			d.Entries = append(d.Entries, identity.EntryFrom{From: f})
		}
		return d
	}
	var rules headerRules
	limiter, err := weir.New(clocked.New(t), &rules, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var up merging
	g, err := gateway.New(gateway.Options{
		ClientHeader: "X-Client",
		Limits:       httplimit.Options{Limiter: limiter, Identity: who, Plan: who.RulePlan(&rules, 0)},
		Default:      gateway.Forward{Transport: &up, Upstream: &url.URL{Scheme: "http", Host: "upstream.example"}},
		Routes: []gateway.Route{
			{Route: identity.Route{Path: "/a/*", Descriptors: []identity.Descriptor{by("header:X-Tenant", "remote_address"), by("user"), by("method")}}},
			{Route: identity.Route{Path: "/b/{x}", Descriptors: []identity.Descriptor{by("header:x_team"), by("remote_address"), by("cookie:session")}}},
			{Route: identity.Route{Path: "/open", Unlimited: true}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// By path, the names beside those that hold everywhere.
	limited := map[string][]string{"/a/x": {"X-Tenant"}, "/b/x": {"X-Team"}, "/open": nil, "/rest": {"X-Plan"}}
	everywhere := []string{"X-Api-Key", "Cookie", "X-Verb", "X-Client", "X-Forwarded-For", "X-Real-Ip", "Host", "Remote-User"}
	others := []string{"X-Cost", "X-Checksum", "X-Ten", "X-Teams", "Api", "Grpc-Status"}
	letters := func(name string) string {
		return strings.Map(func(c rune) rune {
			if c == '-' || strings.ContainsRune("_.~!*'", c) {
				return -1
			}
			return c
		}, strings.ToLower(name))
	}
	seen := map[string]int{}
	for range 3_000 {
		path := []string{"/a/x", "/b/x", "/open", "/rest"}[rng.IntN(4)]
		all := slices.Concat(everywhere, others, limited["/a/x"], limited["/b/x"], limited["/rest"])
		r := httptest.NewRequest("POST", path, struct{ io.Reader }{strings.NewReader("x")})
		r.Header["X-Tenant"], r.Header["X-Team"], r.Header["X-Plan"], r.Header["X-Api-Key"] = []string{"7"}, []string{"8"}, []string{"9"}, []string{"alice-key-0123456789abcdef"}
		r.Trailer = http.Header{}
		for range 1 + rng.IntN(3) {
			name := all[rng.IntN(len(all))]
			if name != "Cookie" && name != "Host" && rng.IntN(2) == 0 {
				name = strings.NewReplacer("-", []string{"_", ".", "", "--", "~-"}[rng.IntN(5)], "e", []string{"e", "E"}[rng.IntN(2)]).Replace(name) + []string{"", "_", "-", "!"}[rng.IntN(4)]
			}
			r.Trailer[http.CanonicalHeaderKey(name)] = []string{"bob-key-0123456789abcdef"}
		}
		was := countOf(who, "trailer")
		up = merging{}
		g.ServeHTTP(httptest.NewRecorder(), r)
		if up.merged == nil {
			t.Fatalf("%v: refused", r.Trailer)
		}
		for name := range r.Trailer {
			_, passes := up.trailer[name]
			is := func(other string) bool { return letters(name) == letters(other) }
			switch {
			case passes && (slices.ContainsFunc(limited[path], is) || slices.ContainsFunc(everywhere[:4], is)):
				t.Fatalf("%s: the upstream saw the trailer %s", path, name)
			case !passes && slices.Contains(others, name):
				t.Fatalf("%s: the trailer %s did not pass", path, name)
			case passes:
				seen["passes"]++
			default:
				seen["dropped"]++
			}
		}
		if counted := countOf(who, "trailer") - was; counted != uint64(min(1, len(r.Trailer)-len(up.trailer))) {
			t.Fatalf("%v: %v passed, and it was counted %d times", r.Trailer, up.trailer, counted)
		}
		// What was counted is what is counted of the merged request.
		first := rules.descriptors
		merged := r.Clone(t.Context())
		merged.Header = up.merged
		for key := range merged.Header {
			if strings.HasPrefix(key, "X-Forwarded-") {
				delete(merged.Header, key) // the gateway's own
			}
		}
		merged.Body, merged.Trailer = io.NopCloser(strings.NewReader("x")), nil
		g.ServeHTTP(httptest.NewRecorder(), merged)
		if !reflect.DeepEqual(first, rules.descriptors) {
			t.Fatalf("%s with the trailers %v is counted by %v, and merged by %v", path, r.Trailer, first, rules.descriptors)
		}
	}
	if seen["passes"] < 500 || seen["dropped"] < 500 {
		t.Errorf("%v: that tries little", seen)
	}
}

// countOf is how many requests were counted under a kind of failures.
func countOf(who *identity.Resolver, kind string) (n uint64) {
	for _, f := range who.Failures() {
		if f.Kind == kind {
			n += f.Count
		}
	}
	return n
}

// TestUpgradeOfHTTP10: RFC 9110 §7.8 has a server ignore it.
func TestUpgradeOfHTTP10(t *testing.T) {
	saw := make(chan string, 2)
	srv := serve(t, clocked.New(t), weir.Limits{}, func(_ http.ResponseWriter, r *http.Request) { saw <- r.Header.Get("Upgrade") }, gateway.Options{})
	for version, want := range map[string]string{"1.0": "", "1.1": "websocket"} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(longest))
		fmt.Fprintf(conn, "GET / HTTP/%s\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", version)
		if got := <-saw; got != want {
			t.Errorf("HTTP/%s: the upstream saw Upgrade %q, not %q", version, got, want)
		}
	}
}

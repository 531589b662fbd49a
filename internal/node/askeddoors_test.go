package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	grpclimit "github.com/weirlimit/weir/middleware/grpc"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// modelRule is a rule of a file made at random.
type modelRule struct {
	key, value         string
	limit              int // 0 for none of its own
	tierBy             string
	tiers              map[string]int
	override           string // its value has the limit overrideLimit
	overrideLimit      int
	deny, allow        string
	kids               []*modelRule
	path               string
	shared, isWildcard bool
}

// modelDomain is a rules file made at random.
type modelDomain struct {
	rules                          []*modelRule
	denyKey, deny, allowKey, allow string
}

// knownKeys are keys that every door knows, with values that rules and requests have.
var knownKeys = map[string][]string{
	"remote_address":    {"203.0.113.1", "203.0.113.2", "198.51.100.1"},
	"remote_address/24": {"203.0.113.0/24", "198.51.100.0/24"},
	"path":              {"/", "/login", "/search/a", "/search/b"},
	"method":            {"GET", "POST"},
	"host":              {"a.example", "b.example"},
	"header:X-Plan":     {"pro", "free"},
	"header:x-lower":    {"1", "2"},
	"cookie:sid":        {"s1", "s2"},
	"query:q":           {"x", "y"},
	"user":              {"ann", "bob"},
	"tier":              {"gold", "free"},
	"api_key":           {""},
	"client":            {"user:ann", "user:bob"},
}

// unknownKeys are keys that no door knows.
var unknownKeys = []string{"client_id", "tenant", "generic_key", "param:id"}

var modelKeys = slices.Sorted(maps.Keys(knownKeys))

func pick[T any](rnd *rand.Rand, from []T) T { return from[rnd.IntN(len(from))] }

// makeRules makes the rules of one level, beneath the rule of that path, none of them
// with the key by which that rule chooses a tier: a descriptor would end there.
func makeRules(rnd *rand.Rand, depth int, path, tierBy string) []*modelRule {
	var rules []*modelRule
	seen := map[string]bool{}
	for range 1 + rnd.IntN(4-depth) {
		r := &modelRule{key: pick(rnd, modelKeys)}
		if rnd.IntN(12) == 0 {
			r.key = pick(rnd, unknownKeys)
		}
		values := knownKeys[r.key]
		switch n := rnd.IntN(6); {
		case len(values) == 0 || values[0] == "":
		case n == 0:
			r.value, r.isWildcard = pick(rnd, []string{"*", "/s*", "2*", "*e*", "p*"}), true
			r.shared = rnd.IntN(3) == 0
		case n < 4:
			r.value = pick(rnd, values)
		}
		if r.key == tierBy || seen[r.key+"="+r.value] {
			continue
		}
		seen[r.key+"="+r.value] = true
		r.path = path + "/" + r.key + "=" + r.value
		if rnd.IntN(3) > 0 {
			r.limit = 1 + rnd.IntN(4)
		}
		if rnd.IntN(5) == 0 {
			r.tierBy, r.tiers = pick(rnd, []string{"tier", "header:X-Plan", "method", "tenant"}), map[string]int{}
			for range 1 + rnd.IntN(2) {
				r.tiers[pick(rnd, []string{"gold", "free", "pro", "GET"})] = 1 + rnd.IntN(6)
			}
		}
		if len(values) > 0 && values[0] != "" {
			if rnd.IntN(6) == 0 {
				r.override, r.overrideLimit = pick(rnd, values), 1+rnd.IntN(8)
			}
			if rnd.IntN(15) == 0 {
				r.deny = pick(rnd, values)
			}
			if rnd.IntN(15) == 0 {
				r.allow = pick(rnd, values)
			}
		}
		if depth < 2 && (r.limit == 0 || rnd.IntN(2) == 0) {
			r.kids = makeRules(rnd, depth+1, r.path, r.tierBy)
		}
		rules = append(rules, r)
	}
	return rules
}

func makeDomain(rnd *rand.Rand) *modelDomain {
	d := &modelDomain{rules: makeRules(rnd, 0, "", "")}
	if rnd.IntN(8) == 0 {
		d.denyKey = pick(rnd, []string{"path", "user", "header:X-Plan", "cookie:sid"})
		d.deny = pick(rnd, knownKeys[d.denyKey])
	}
	if rnd.IntN(8) == 0 {
		d.allowKey = pick(rnd, []string{"host", "tier", "query:q"})
		d.allow = pick(rnd, knownKeys[d.allowKey])
	}
	return d
}

// yaml writes the domain as a rules file.
func (d *modelDomain) yaml() string {
	var b strings.Builder
	b.WriteString("domain: api\n")
	if d.denyKey != "" {
		fmt.Fprintf(&b, "deny: {%q: [%q]}\n", d.denyKey, d.deny)
	}
	if d.allowKey != "" {
		fmt.Fprintf(&b, "allow: {%q: [%q]}\n", d.allowKey, d.allow)
	}
	b.WriteString("descriptors:\n")
	writeModel(&b, d.rules, "  ")
	return b.String()
}

func writeModel(b *strings.Builder, rules []*modelRule, indent string) {
	limit := func(n int) string { return fmt.Sprintf("{limit: %d/year, algorithm: fixed_window}", n) }
	for _, r := range rules {
		fmt.Fprintf(b, "%s- key: %q\n", indent, r.key)
		in := indent + "  "
		if r.value != "" {
			fmt.Fprintf(b, "%svalue: %q\n", in, r.value)
		}
		if r.shared {
			fmt.Fprintf(b, "%sshare_threshold: true\n", in)
		}
		if r.limit > 0 {
			fmt.Fprintf(b, "%slimit: %s\n", in, limit(r.limit))
		}
		if r.tierBy != "" {
			fmt.Fprintf(b, "%stiers:\n%s  by: %q\n%s  limits:\n", in, in, r.tierBy, in)
			for name, n := range r.tiers {
				fmt.Fprintf(b, "%s    %s: %s\n", in, name, limit(n))
			}
		}
		if r.override != "" {
			fmt.Fprintf(b, "%soverrides: {%q: %s}\n", in, r.override, limit(r.overrideLimit))
		}
		if r.deny != "" {
			fmt.Fprintf(b, "%sdeny: [%q]\n", in, r.deny)
		}
		if r.allow != "" {
			fmt.Fprintf(b, "%sallow: [%q]\n", in, r.allow)
		}
		if len(r.kids) > 0 {
			fmt.Fprintf(b, "%sdescriptors:\n", in)
			writeModel(b, r.kids, in+"  ")
		}
	}
}

// oracle decides requests by a domain: a walk over the rules that a request fits.
type oracle struct {
	d     *modelDomain
	spent map[string]int
}

// allows decides a request, what it has by key, and counts it if it passes.
func (o *oracle) allows(has map[string]string) bool {
	if o.d.denyKey != "" && has[o.d.denyKey] == o.d.deny {
		return false
	}
	if o.d.allowKey != "" && has[o.d.allowKey] == o.d.allow {
		return true
	}
	met := map[string]int{}
	if !o.walk(o.d.rules, has, "", met) {
		return false
	}
	for key, limit := range met {
		if o.spent[key] >= limit {
			return false
		}
	}
	for key := range met {
		o.spent[key]++
	}
	return true
}

// walk notes the limits that a request meets among rules, by their counters. It
// returns false where a list denies.
func (o *oracle) walk(rules []*modelRule, has map[string]string, values string, met map[string]int) bool {
	keys := map[string]bool{}
	for _, r := range rules {
		v, known := has[r.key]
		if !known || keys[r.key] {
			continue
		}
		keys[r.key] = true
		r := find(rules, r.key, v)
		if r == nil {
			continue
		}
		if r.deny != "" && r.deny == v {
			return false
		}
		if r.allow != "" && r.allow == v {
			continue
		}
		own := values
		if r.value == "" || r.isWildcard && !r.shared {
			own += fmt.Sprintf("%q", v)
		}
		if limit := r.choose(v, has); limit > 0 {
			met[r.path+own] = limit
		}
		if !o.walk(r.kids, has, own, met) {
			return false
		}
	}
	return true
}

// find returns the rule for a value: its own, else the first wildcard, else the bare.
func find(rules []*modelRule, key, value string) *modelRule {
	var bare *modelRule
	for _, r := range rules {
		if r.key == key && !r.isWildcard && r.value == value && value != "" {
			return r
		}
		if r.key == key && r.value == "" {
			bare = r
		}
	}
	for _, r := range rules {
		if r.key == key && r.isWildcard && fits(r.value, value) {
			return r
		}
	}
	return bare
}

// fits reports whether a value fits a pattern, tried in every way.
func fits(pattern, value string) bool {
	switch {
	case pattern == "":
		return value == ""
	case pattern[0] == '*':
		return fits(pattern[1:], value) || value != "" && fits(pattern, value[1:])
	}
	return value != "" && pattern[0] == value[0] && fits(pattern[1:], value[1:])
}

// choose returns the limit that a request has here, 0 for none.
func (r *modelRule) choose(value string, has map[string]string) int {
	if r.override != "" && r.override == value {
		return r.overrideLimit
	}
	if tier, ok := has[r.tierBy]; ok && r.tierBy != "" {
		if n, ok := r.tiers[tier]; ok {
			return n
		}
	}
	return r.limit
}

// modelRequest is what one request is made of; empty values are left out.
type modelRequest struct {
	client, path, method, host, plan, lower, sid, q, user, tier, key string
}

func makeRequest(rnd *rand.Rand) modelRequest {
	maybe := func(from []string) string {
		if rnd.IntN(3) == 0 {
			return ""
		}
		return pick(rnd, from)
	}
	return modelRequest{
		client: pick(rnd, knownKeys["remote_address"]), path: pick(rnd, knownKeys["path"]), method: pick(rnd, knownKeys["method"]),
		host: pick(rnd, knownKeys["host"]), plan: maybe(knownKeys["header:X-Plan"]), lower: maybe(knownKeys["header:x-lower"]),
		sid: maybe(knownKeys["cookie:sid"]), q: maybe(knownKeys["query:q"]), user: maybe(knownKeys["user"]),
		tier: maybe(knownKeys["tier"]), key: maybe([]string{"k1", "k2"}),
	}
}

// has returns what the rules can know of the request.
func (r modelRequest) has() map[string]string {
	ip := net.ParseIP(r.client).Mask(net.CIDRMask(24, 32)).String()
	all := map[string]string{
		"remote_address": r.client, "remote_address/24": ip + "/24", "path": r.path, "method": r.method, "host": r.host,
		"header:X-Plan": r.plan, "header:x-lower": r.lower, "cookie:sid": r.sid, "query:q": r.q, "user": r.user, "tier": r.tier,
		"api_key": r.key, "client": "address:" + r.client,
	}
	if r.user != "" {
		all["client"] = "user:" + r.user
	}
	for key, v := range all {
		if v == "" {
			delete(all, key)
		}
	}
	return all
}

func (r modelRequest) header() http.Header {
	h := http.Header{"X-Forwarded-For": {r.client}}
	for name, v := range map[string]string{"X-Plan": r.plan, "X-Lower": r.lower, "X-User": r.user, "X-Tier": r.tier, "X-Api-Key": r.key} {
		if v != "" {
			h.Set(name, v)
		}
	}
	if r.sid != "" {
		h.Set("Cookie", "sid="+r.sid)
	}
	return h
}

func (r modelRequest) target() string {
	if r.q == "" {
		return r.path
	}
	return r.path + "?q=" + r.q
}

// A door lets a request through or not.
type door func(t *testing.T, r modelRequest) bool

// doorsOf returns the doors of a node that make descriptors of their own.
func doorsOf(t *testing.T, s *Server) map[string]door {
	t.Helper()
	serve := func(h http.Handler, prefix string) door {
		return func(t *testing.T, r modelRequest) bool {
			q := httptest.NewRequest(r.method, prefix+r.target(), http.NoBody)
			q.Header, q.Host, q.RemoteAddr = r.header(), r.host, "127.0.0.1:1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, q)
			if w.Code != 200 && w.Code != 429 {
				t.Fatalf("%+v: status %d: %s", r, w.Code, w.Body)
			}
			return w.Code == 200
		}
	}
	opt, err := s.authorize()
	if err != nil {
		t.Fatal(err)
	}
	authz, err := extauthz.New(extauthz.Options{Authorize: opt})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: s.limiter, Identity: s.identity.Resolver})
	if err != nil {
		t.Fatal(err)
	}
	g, err := grpclimit.New(grpclimit.Options{Limiter: s.limiter, Identity: s.identity.Resolver})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]door{
		"gateway": serve(s.door("http"), ""), "forward-auth": serve(s.door("http"), "/auth"),
		"middleware": serve(m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), ""),
		"ext_authz": func(t *testing.T, r modelRequest) bool {
			h := map[string]string{}
			for name, values := range r.header() {
				h[strings.ToLower(name)] = values[0]
			}
			res, err := authz.Check(context.Background(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Source:  &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1"}}}},
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: r.method, Host: r.host, Path: r.target(), Headers: h}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			return res.GetDeniedResponse() == nil
		},
		"grpc": func(t *testing.T, r modelRequest) bool {
			md := metadata.MD{":authority": {r.host}}
			for name, values := range r.header() {
				md[strings.ToLower(name)] = values
			}
			ctx := metadata.NewIncomingContext(peer.NewContext(context.Background(),
				&peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}), md)
			_, err := g.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: r.path}, func(context.Context, any) (any, error) { return nil, nil })
			if err != nil && status.Code(err) != codes.ResourceExhausted {
				t.Fatal(err)
			}
			return err == nil
		},
	}
}

// Every door decides as a walk over the rules does: no rule that a request fits is
// skipped, and none is counted twice. WEIR_SEED repeats a run.
func TestFamilyDoorsAskWhatRulesAsk(t *testing.T) {
	seed, files := seeds.Of(t), 60
	if os.Getenv("WEIR_SOAK") == "1" {
		files = 5000
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	back := upstream(t)
	refused := map[string]int{}
	for range files {
		askDoors(t, rnd, back, seed, refused)
	}
	for _, name := range []string{"gateway", "forward-auth", "ext_authz", "middleware", "grpc"} {
		if refused[name] == 0 {
			t.Errorf("nothing was refused by %s: the test shows nothing", name)
		}
	}
}

// askDoors asks the doors of one node by rules made at random, which it loads while it
// runs, and counts what each refused.
func askDoors(t *testing.T, rnd *rand.Rand, back string, seed uint64, refused map[string]int) {
	t.Helper()
	c := config.Defaults()
	c.Rules, c.Upstream, c.ForwardAuth.Prefix = servertest.File(t, "rules.yaml", "domain: api\ndescriptors:\n  - {key: path, limit: unlimited}\n"), back, "/auth"
	c.Identity.Proxies.Trusted = []string{"127.0.0.1"}
	c.Identity.User, c.Identity.Tier = []string{"header:X-User"}, []string{"header:X-Tier"}
	c.Identity.APIKey.From = []string{"header:X-API-Key"}
	s, err := New(c, Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	doors := doorsOf(t, s)
	for _, door := range doors {
		if !door(t, modelRequest{client: "192.0.2.1", method: "POST", path: "/", host: "a.example"}) {
			t.Fatal("a request was refused by rules without a limit")
		}
	}
	d := makeDomain(rnd)
	servertest.Write(t, c.Rules, d.yaml())
	if err := s.rules.live.Reload(); err != nil {
		t.Fatalf("%v\n%s", err, d.yaml())
	}
	names := slices.Sorted(maps.Keys(doors))
	o := &oracle{d: d, spent: map[string]int{}}
	for range 40 {
		r := makeRequest(rnd)
		name := pick(rnd, names)
		if name == "grpc" {
			r.method, r.q = "POST", ""
		}
		want := o.allows(r.has())
		if got := doors[name](t, r); got != want {
			t.Fatalf("seed %d: %s lets %+v pass: %t, want %t, by\n%s", seed, name, r, got, want, d.yaml())
		}
		if !want {
			refused[name]++
		}
	}
}

// What every door refuses is counted as refused, also where a limit would allow the request
// after a delay for which nobody waits there.
func TestFamilyRefusedAtEveryDoorIsCounted(t *testing.T) {
	rnd, files := rand.New(rand.NewPCG(seeds.Of(t), 2)), 12
	if os.Getenv("WEIR_SOAK") == "1" {
		files = 500
	}
	back := upstream(t)
	for range files {
		rules := "domain: api\ndescriptors:\n"
		for _, key := range []string{"path", "method", "remote_address"} {
			rules += fmt.Sprintf("  - {key: %s, limit: %d/hour, algorithm: %s, mode: %s}\n", key, 1+rnd.IntN(12),
				[]string{"leaky_queue", "leaky_queue", "fixed_window", "token_bucket"}[rnd.IntN(4)], []string{"hard", "hard", "hard", "shadow"}[rnd.IntN(4)])
		}
		c := config.Defaults()
		c.Rules, c.Upstream, c.ForwardAuth.Prefix, c.Gateway.MaxDelay = servertest.File(t, "rules.yaml", rules), back, "/auth", time.Millisecond
		c.Identity.Proxies.Trusted = []string{"127.0.0.1"}
		s, err := New(c, Build{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		doors, counted := doorsOf(t, s), map[bool]int{}
		for range 40 {
			name := slices.Sorted(maps.Keys(doors))[rnd.IntN(len(doors))]
			r := modelRequest{client: fmt.Sprint("192.0.2.", rnd.IntN(3)), method: "POST", path: []string{"/a", "/b"}[rnd.IntN(2)], host: "a.example"}
			counted[doors[name](t, r)]++
		}
		rec := httptest.NewRecorder()
		scrape := httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil)
		scrape.RemoteAddr = "127.0.0.1:1"
		s.door("admin").ServeHTTP(rec, scrape)
		for passed, word := range map[bool]string{true: "allowed", false: "refused"} {
			if want := fmt.Sprintf("\nweir_requests_total{result=%q} %d\n", word, counted[passed]); !strings.Contains(rec.Body.String(), want) {
				t.Errorf("%d requests were %s; the metrics say %s\n%s", counted[passed], word,
					regexp.MustCompile("weir_(requests|decisions)_total.*").FindAllString(rec.Body.String(), -1), rules)
			}
		}
	}
}

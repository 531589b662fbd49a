package extauthz_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/grpctest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// seen limits each descriptor by itself and notes what it was asked.
type seen struct {
	*weir.Limit
	mu    sync.Mutex
	asked []string
}

func (s *seen) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		key := r.Domain + ":"
		for _, e := range d.Entries {
			key += " " + e.Value
		}
		s.asked = append(s.asked, key)
		dst = s.Append(dst, key, max(d.Cost, r.Cost, 1), r)
	}
	return dst
}

func (s *seen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.asked, "; ")
	s.asked = nil
	return out
}

// door is a client of a service in front of a limit.
type door struct {
	authv3.AuthorizationClient
	t     *testing.T
	store *clocked.Store
	rules *seen
	svc   *extauthz.Service
}

// open serves with limit l; change may change how.
func open(t *testing.T, l *weir.Limit, change ...func(*extauthz.Options)) *door {
	t.Helper()
	d := build(t, l, change...)
	ln := servertest.Listen(t)
	srv := grpc.NewServer()
	d.svc.Register(srv)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		srv.Stop()
		wg.Wait()
	})
	d.AuthorizationClient = authv3.NewAuthorizationClient(conn)
	return d
}

// build is open without a network.
func build(t *testing.T, l *weir.Limit, change ...func(*extauthz.Options)) *door {
	t.Helper()
	who, err := identity.New(identity.Options{Proxies: identity.ProxyOptions{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Header: "X-Forwarded-For"}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan([]identity.Descriptor{
		{Entries: []identity.EntryFrom{{From: "remote_address"}, {From: "method"}, {From: "path"}}},
		{Entries: []identity.EntryFrom{{From: "host"}}}, {Entries: []identity.EntryFrom{{From: "cookie:session"}}}, {Entries: []identity.EntryFrom{{From: "header:x-latin"}}}})
	if err != nil {
		t.Fatal(err)
	}
	l.Name = "some"
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, store: clocked.New(t), rules: &seen{Limit: l}}
	lim, err := weir.New(d.store, d.rules, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opt := extauthz.Options{Authorize: authorize.Options{Limiter: lim, Identity: who, Plan: plan}}
	for _, c := range change {
		c(&opt)
	}
	if d.svc, err = extauthz.New(opt); err != nil {
		t.Fatal(err)
	}
	return d
}

// recorded is one of the requests in testdata, as Envoy sends them.
func recorded(t testing.TB, name string) *authv3.CheckRequest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	in := &authv3.CheckRequest{}
	if err := protojson.Unmarshal(data, in); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return in
}

// ask sends a recorded request with context_extensions in pairs.
func (d *door) ask(name string, extensions ...string) (*authv3.CheckResponse, error) {
	d.t.Helper()
	in := recorded(d.t, name)
	in.Attributes.ContextExtensions = map[string]string{}
	for i := 0; i < len(extensions); i += 2 {
		in.Attributes.ContextExtensions[extensions[i]] = extensions[i+1]
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return d.Check(ctx, in)
}

// What Envoy sends, in all its forms, is read as the request that its client
// sent.
func TestRecordedRequests(t *testing.T) {
	d := open(t, weir.PerHour(1000, algorithm.FixedWindow))
	f := func(name, want string, extensions ...string) {
		t.Helper()
		res, err := d.ask(name, extensions...)
		if got := d.rules.take(); err != nil || res.GetStatus().GetCode() != 0 || res.GetOkResponse() == nil || got != want {
			t.Errorf("%s: %v %v\nasked %s\nwant  %s", name, res, err, got, want)
		}
		if all := res.ProtoReflect(); !all.IsValid() || res.ValidateAll() != nil {
			t.Errorf("%s: Envoy does not take %v: %v", name, res, res.ValidateAll())
		}
	}
	f("http1", "api: 203.0.113.7 POST /login; api: shop.example")
	f("http2", "api: 203.0.113.7 POST /login; api: 203.0.113.7 POST /%6cogin; api: shop.example; api: fry") // spoofed: the peer is no proxy
	f("http3_ipv6", "api: 2001:db8:1:2::/64 GET /; api: [2001:db8::1]")
	f("raw_headers", "api: 203.0.113.7 GET /a/b/c; api: 203.0.113.7 GET /a/%62/c; api: shop.example; api: "+hashed(d))
	f("behind_balancer", "api: 203.0.113.7 GET /x; api: shop.example")
	f("unix", "api: unknown GET /x; api: h")
	f("network", "api: 203.0.113.7 GET /; api: unknown")
	f("http1", "shop: 203.0.113.7 POST /login; shop: shop.example", "domain", "shop")
}

// hashed returns the key that the bytes of raw_headers.json which are not UTF-8
// have, whatever it is, as long as it is text.
func hashed(d *door) string {
	d.t.Helper()
	if _, err := d.ask("raw_headers"); err != nil {
		d.t.Fatal(err)
	}
	got := d.rules.take()
	value := got[strings.LastIndex(got, " ")+1:]
	if strings.Contains(value, "caf") && value != "caf\xe9" {
		d.t.Errorf("caf\\xe9 is %q", value)
	}
	return value
}

func headers(t *testing.T, res *authv3.CheckResponse) map[string]string {
	t.Helper()
	out := map[string]string{}
	list := res.GetOkResponse().GetResponseHeadersToAdd()
	if d := res.GetDeniedResponse(); d != nil {
		list = d.GetHeaders()
	}
	if d := res.GetErrorResponse(); d != nil {
		list = d.GetHeaders()
	}
	for _, h := range list {
		if k := h.GetHeader().GetKey(); k != strings.ToLower(k) || out[k] != "" {
			t.Errorf("field %s", k)
		}
		out[h.GetHeader().GetKey()] = h.GetAppendAction().String() + " " + h.GetHeader().GetValue()
	}
	return out
}

// No bytes in any string of a question make the call fail, which would let the client
// pass: each is counted, by the client's address here.
func TestFamilyNoBytesOfAQuestionEscapeTheCount(t *testing.T) {
	d := build(t, weir.PerHour(1000, algorithm.FixedWindow))
	conn := grpctest.Connect(t, grpcserver.Options{Undecoded: extauthz.Repair}, d.svc.Register)
	const mark = "MARK"
	places := map[string]func(h *authv3.AttributeContext_HttpRequest){
		"path":   func(h *authv3.AttributeContext_HttpRequest) { h.Path = "/" + mark },
		"query":  func(h *authv3.AttributeContext_HttpRequest) { h.Path = "/?a=" + mark },
		"host":   func(h *authv3.AttributeContext_HttpRequest) { h.Host = mark },
		"method": func(h *authv3.AttributeContext_HttpRequest) { h.Method = mark },
		"name":   func(h *authv3.AttributeContext_HttpRequest) { h.Headers[mark] = "x" },
		"value":  func(h *authv3.AttributeContext_HttpRequest) { h.Headers["x-latin"] = mark },
		"raw header": func(h *authv3.AttributeContext_HttpRequest) {
			h.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: mark, Value: mark, RawValue: []byte(mark)}}}
		},
	}
	for place, put := range places {
		for _, bad := range []string{"\xff\xff\xff\xff", "caf\xe9", "\xed\xa0\x80x", "\xc3\x28a\xf0"} {
			in := recorded(t, "http1")
			put(in.Attributes.Request.Http)
			b, err := proto.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			res := new(authv3.CheckResponse)
			err = grpctest.Invoke(t.Context(), conn, "/"+extauthz.Name+"/Check", bytes.ReplaceAll(b, []byte(mark), []byte(bad)), res)
			if asked := d.rules.take(); err != nil || res.GetDeniedResponse() == nil && !strings.Contains(asked, "203.0.113.7") {
				t.Errorf("%q in the %s: %v, %v, asked %q", bad, place, res, err, asked)
			}
		}
	}
}

// A refusal is a denied_response with all that the client is to see.
func TestAnswers(t *testing.T) {
	d := open(t, weir.PerHour(2, algorithm.FixedWindow))
	res, err := d.ask("network")
	if err != nil {
		t.Fatal(err)
	}
	h := headers(t, res)
	if h["ratelimit"] != `APPEND_IF_EXISTS_OR_ADD "some";r=1;t=2800` || h["ratelimit-policy"] != `APPEND_IF_EXISTS_OR_ADD "some";q=2;w=3600` ||
		h["x-ratelimit-remaining"] != "OVERWRITE_IF_EXISTS_OR_ADD 1" || h["retry-after"] != "" || len(res.GetOkResponse().GetHeaders()) != 0 {
		t.Errorf("allowed: %v", h)
	}
	meta := func(res *authv3.CheckResponse, want string) {
		t.Helper()
		got, err := json.Marshal(res.GetDynamicMetadata().AsMap())
		if err != nil || string(got) != want {
			t.Errorf("metadata %s, %v\nwant %s", got, err, want)
		}
	}
	meta(res, `{"limit":"some","outcome":"allowed","remaining":1,"reset_after":2800}`)
	for deny, want := range map[string]int32{"": 429, "403": 403, "503": 503, "420": 429, "599": 503} {
		ext := []string{"cost", "2"}
		if deny != "" {
			ext = append(ext, "deny", deny)
		}
		if res, err = d.ask("network", ext...); err != nil {
			t.Fatal(err)
		}
		no, h := res.GetDeniedResponse(), headers(t, res)
		var p struct {
			Type   string
			Detail string
			Status int32
		}
		if err := json.Unmarshal([]byte(no.GetBody()), &p); err != nil || !strings.Contains(p.Type, "quota-exceeded") || !strings.Contains(p.Detail, "2800 seconds") {
			t.Errorf("body %q: %v", no.GetBody(), err)
		}
		if int32(no.GetStatus().GetCode()) != want || p.Status != want || res.GetStatus().GetCode() != int32(codes.ResourceExhausted) || res.ValidateAll() != nil ||
			h["retry-after"] != "OVERWRITE_IF_EXISTS_OR_ADD 2800" || !strings.HasSuffix(h["content-type"], "application/problem+json") || !strings.HasSuffix(h["ratelimit"], `"some";r=1;t=2800`) || h["content-length"] != "" {
			t.Errorf("deny %q: %v %v", deny, res, res.ValidateAll())
		}
	}
	meta(res, `{"limit":"some","outcome":"refused","remaining":1,"reset_after":2800,"retry_after":2800}`)
	// A look spends nothing.
	for range 3 {
		if res, err = d.ask("network", "cost", "0"); err != nil || res.GetOkResponse() == nil {
			t.Errorf("a look: %v %v", res, err)
		}
	}
}

// sourced is a store that says where its decisions are from.
type sourced struct {
	weir.Store
	from weir.Source
}

func (s sourced) Take(ctx context.Context, ops []weir.Op) error {
	err := s.Store.Take(ctx, ops)
	for i := range ops {
		ops[i].Decision.Limit = ops[i].Limit.From(s.from)
	}
	return err
}

func (s sourced) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	d, err := s.Store.TakeOne(ctx, key, l, cost)
	d.Limit = l.From(s.from)
	return d, err
}

// The metadata say what the header fields say: that a decision has less than its usual
// guarantee, wherever it is from, allowed or refused.
func TestFamilyMetadataAgreeWithFields(t *testing.T) {
	degraded := 0
	for from := weir.FromStore; from <= weir.FromSuccessor; from++ {
		var l *weir.Limit
		d := build(t, weir.PerHour(1, algorithm.FixedWindow), func(o *extauthz.Options) {
			l = o.Authorize.Limiter.Rules().(*seen).Limit
			lim, err := weir.New(sourced{clocked.New(t), from}, weir.Limits{l}, weir.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o.Authorize.Limiter = lim
		})
		for _, outcome := range []string{"allowed", "refused"} {
			res, err := d.svc.Check(t.Context(), recorded(t, "network"))
			if err != nil {
				t.Fatal(err)
			}
			told := res.GetDynamicMetadata().AsMap()
			_, header := headers(t, res)["x-ratelimit-degraded"]
			if told["outcome"] != outcome || (told["degraded"] == true) != header || header != l.From(from).Guarantee().Degraded {
				t.Errorf("from %s, %s: metadata %v, fields %v", from, outcome, told, headers(t, res))
			}
			if header {
				degraded++
			}
		}
	}
	if degraded < 4 {
		t.Errorf("%d decisions were degraded", degraded)
	}
}

// A call of gRPC that is not let through gets a code and a sentence; nobody else does.
func TestFamilyCallsAreRefusedInTheirWords(t *testing.T) {
	for kind, isCall := range map[string]bool{"application/grpc": true, "application/grpc+proto": true, "application/grpc;x=y": true,
		"application/grpc-web": false, "application/grpcx": false, "application/json": false, "": false} {
		for deny, ask := range map[string]func(h *authv3.AttributeContext_HttpRequest){"": nil, "403": nil, "503": nil, "unreadable": func(h *authv3.AttributeContext_HttpRequest) { h.Path = "/%zz" }} {
			d := build(t, weir.PerHour(1, algorithm.FixedWindow))
			in := recorded(t, "http1")
			in.Attributes.Request.Http.Headers["content-type"] = kind
			in.Attributes.ContextExtensions = map[string]string{"cost": "2"}
			want := codes.ResourceExhausted
			if ask != nil {
				ask(in.Attributes.Request.Http)
				want = codes.InvalidArgument
			} else if deny != "" {
				in.Attributes.ContextExtensions["deny"] = deny
			}
			res, err := d.svc.Check(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			no, h := res.GetDeniedResponse(), headers(t, res)
			got, plain := h["grpc-status"], !strings.Contains(no.GetBody(), "{") && len(no.GetBody()) < 120
			if isCall && (!strings.HasSuffix(got, fmt.Sprint(" ", int(want))) || !plain) || !isCall && (got != "" || plain) || res.ValidateAll() != nil {
				t.Errorf("%q, deny %q: %v", kind, deny, no)
			}
			if ask == nil && h["ratelimit"] == "" {
				t.Errorf("%q, deny %q: fields %v", kind, deny, h)
			}
		}
	}
}

// What cannot be answered is an error of the call, which Envoy takes to its
// failure_mode_allow; what its client did is the client's.
func TestErrors(t *testing.T) {
	d := open(t, weir.PerHour(1000, algorithm.FixedWindow), func(o *extauthz.Options) {
		o.Authorize.Has = func(domain string) bool { return domain == "api" }
	})
	f := func(want codes.Code, text string, in *authv3.CheckRequest) {
		t.Helper()
		res, err := d.Check(context.Background(), in)
		if status.Code(err) != want || !strings.Contains(status.Convert(err).Message(), text) || d.rules.take() != "" {
			t.Errorf("%v %v, want %s %q", res, err, want, text)
		}
	}
	with := func(key, value string) *authv3.CheckRequest {
		in := recorded(t, "http1")
		in.Attributes.ContextExtensions = map[string]string{key: value}
		return in
	}
	f(codes.InvalidArgument, "source has no address", &authv3.CheckRequest{})
	f(codes.InvalidArgument, "source has no address", &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: recorded(t, "http1").Attributes.Request}})
	odd := recorded(t, "http1")
	odd.Attributes.Source.Address.GetSocketAddress().Address = "localhost"
	f(codes.InvalidArgument, "not an IP address", odd)
	f(codes.InvalidArgument, `unknown parameter "dney" (did you mean "deny"?)`, with("dney", "403"))
	f(codes.InvalidArgument, "not a status", with("deny", "200"))
	f(codes.InvalidArgument, `no rule has the domain "shpo"`, with("domain", "shpo"))
	f(codes.InvalidArgument, "neither true nor false", with("error_response", "yes"))
	many := recorded(t, "http1")
	many.Attributes.ContextExtensions = map[string]string{}
	for i := range 40 {
		many.Attributes.ContextExtensions[strings.Repeat("x", i+1)] = ""
	}
	f(codes.InvalidArgument, "40 context_extensions", many)

	// A path without a meaning is its sender's fault, and denied.
	for _, path := range []string{"/%zz", "/\x00", "login", "/" + strings.Repeat("x", 9000)} {
		in := recorded(t, "http1")
		in.Attributes.Request.Http.Path = path
		res, err := d.Check(context.Background(), in)
		if err != nil || res.GetDeniedResponse().GetStatus().GetCode() != 400 || res.GetStatus().GetCode() != int32(codes.InvalidArgument) {
			t.Errorf("%.20q: %v %v", path, res, err)
		}
	}

	d.store.Fail = errors.New("store: gone, secret words")
	res, err := d.ask("http1")
	if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("closed: %v %v", res, err)
	}
	res, err = d.ask("http1", "fail", "open")
	if err != nil || res.GetOkResponse() == nil || !res.GetDynamicMetadata().AsMap()["degraded"].(bool) {
		t.Errorf("open: %v %v", res, err)
	}
	res, err = d.ask("http1", "error_response", "true")
	if e := res.GetErrorResponse(); err != nil || e.GetStatus().GetCode() != 503 || res.GetStatus().GetCode() != int32(codes.Unavailable) ||
		headers(t, res)["retry-after"] != "OVERWRITE_IF_EXISTS_OR_ADD 1" || !strings.Contains(e.GetBody(), "store did not answer") || res.ValidateAll() != nil {
		t.Errorf("error_response: %v %v", res, err)
	}
}

// Limits that need to know how a request ends are not asked by guess.
func TestLimitsThatNeedTheEnd(t *testing.T) {
	settled := weir.PerHour(10, algorithm.FixedWindow)
	settled.Adjustment = &weir.Adjustment{}
	settled.Adjustment.CountOn.Add(401, 403)
	running := &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute}
	for want, l := range map[string]*weir.Limit{"counts requests in flight": running, "is adjusted by the upstream response": settled} {
		d := open(t, l)
		for range 12 { // more than either takes
			res, err := d.ask("http1", "fail", "open")
			if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
				t.Errorf("%v %v", res, err)
			}
		}
	}
}

// Routes choose descriptors and costs; a connection has none.
func TestRoutes(t *testing.T) {
	d := open(t, weir.PerHour(10, algorithm.FixedWindow), func(o *extauthz.Options) {
		o.Authorize.Routes = []identity.Route{
			{Name: "free", Path: "/x", Unlimited: true},
			{Path: "/login", Host: "shop.example", Methods: []string{"POST"}, Cost: 4, Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "route"}}}}},
			{Path: "/*", Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "host"}}}}},
		}
	})
	f := func(name, want string, refused bool) {
		t.Helper()
		res, err := d.ask(name)
		if got := d.rules.take(); err != nil || got != want || (res.GetDeniedResponse() != nil) != refused {
			t.Errorf("%s: %v %v, asked %q, want %q", name, res, err, got, want)
		}
	}
	for range 20 {
		f("behind_balancer", "", false)
	}
	f("http1", "api: shop.example/login", false)
	f("http2", "api: shop.example/login; api: shop.example", false) // and by the route of who does not decode
	f("http1", "api: shop.example/login", true)
	f("http3_ipv6", "api: [2001:db8::1]", false)
	f("network", "api: 203.0.113.7 GET /; api: unknown", false)
}

// A limit that delays holds the answer back while Envoy waits for it, and no
// longer.
func TestDelay(t *testing.T) {
	d := open(t, &weir.Limit{Algorithm: algorithm.LeakyQueue, Count: 2, Period: time.Second, Burst: 100})
	ask := func(timeout time.Duration, extensions ...string) (*authv3.CheckResponse, error) {
		in := recorded(t, "network")
		in.Attributes.ContextExtensions = map[string]string{}
		for i := 0; i < len(extensions); i += 2 {
			in.Attributes.ContextExtensions[extensions[i]] = extensions[i+1]
		}
		ctx, stop := context.WithTimeout(context.Background(), timeout)
		defer stop()
		return d.Check(ctx, in)
	}
	f := func(allowed bool, least time.Duration, timeout time.Duration, extensions ...string) {
		t.Helper()
		began := time.Now()
		res, err := ask(timeout, extensions...)
		if took := time.Since(began); err != nil || (res.GetOkResponse() != nil) != allowed || took < least {
			t.Errorf("%v %v after %s", res, err, took)
		}
	}
	f(true, 0, time.Minute)
	f(false, 0, time.Minute) // 500 ms, and nobody waits
	f(true, 500*time.Millisecond, time.Minute, "max_delay", "10s")
	f(true, time.Second, time.Minute, "max_delay", "10s")  // the clock of the store stands
	f(false, 0, 1500*time.Millisecond, "max_delay", "10s") // 1500 ms, of which the answer needs some
}

// FuzzCheck: whatever is sent, the answer is one that Envoy takes.
func FuzzCheck(f *testing.F) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) < 5 {
		f.Fatal(err, names)
	}
	for _, name := range names {
		data, err := proto.Marshal(recorded(f, strings.TrimSuffix(filepath.Base(name), ".json")))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &authv3.CheckRequest{}
		if proto.Unmarshal(data, in) != nil {
			return
		}
		d := build(t, weir.PerHour(1, algorithm.FixedWindow))
		for range 2 {
			res, err := d.svc.Check(context.Background(), in)
			if err != nil {
				if c := status.Code(err); c != codes.InvalidArgument {
					t.Errorf("%v", err)
				}
				continue
			}
			if err := res.ValidateAll(); err != nil {
				t.Errorf("Envoy does not take %v: %v", res, err)
			}
			if _, err := proto.Marshal(res); err != nil {
				t.Error(err)
			}
			if (res.GetStatus().GetCode() == 0) != (res.GetOkResponse() != nil) {
				t.Errorf("%v is neither yes nor no", res)
			}
		}
	})
}

package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

const token = "correct horse battery staple"

var bearer = http.Header{"Authorization": {"Bearer " + token}}

// keyState is the answer of the paths under /v1/admin.
type keyState struct {
	Allowed    bool
	RetryAfter *float64 `json:"retry_after"`
	Limits     []struct {
		Limit struct {
			Name  string
			Count int64
		}
		Key, Role string
		Remaining int64
		Cells     []int64
	}
	Overlay []struct{ Kind, Limit, Rate, Until, By, YAML string }
	Modes   []struct{ Limit string }
	YAML    *string
}

func administer(t *testing.T, srv *server, path, body string) keyState {
	t.Helper()
	res, got := exchange(t, "POST", srv.URL, "/v1/admin/"+path, body, bearer)
	var s keyState
	if err := json.Unmarshal([]byte(got), &s); err != nil || res.StatusCode != 200 {
		t.Fatalf("%s %s: got %d %s", path, body, res.StatusCode, got)
	}
	return s
}

// allowed checks whether ann's next request passes.
func (s *server) allowed(t *testing.T, want bool) {
	t.Helper()
	if _, got := post(t, s.URL, "/v1/check", `{"descriptors":[{"entries":{"user":"ann"}}]}`); strings.Contains(got, `{"allowed":true`) != want {
		t.Errorf("got %s, want allowed %t", got, want)
	}
}

func TestInspectResetGrant(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{
		named("permin", weir.PerMinute(3, algorithm.FixedWindow)),
		named("perhour", weir.PerHour(5, algorithm.TokenBucket)),
	}, httpapi.Options{AdminToken: token})
	const ann = `"descriptors":[{"entries":{"user":"ann"}}]`
	for range 3 {
		srv.allowed(t, true)
	}
	srv.allowed(t, false)
	s := administer(t, srv, "inspect", `{`+ann+`}`)
	if s.Allowed || *s.RetryAfter != 40 || len(s.Limits) != 2 || s.Limits[0].Limit.Name != "permin" || s.Limits[0].Key != "ann" ||
		s.Limits[0].Remaining != 0 || s.Limits[1].Remaining != 2 || len(s.Limits[0].Cells) != 2 || s.Limits[0].Cells[1] != 3 {
		t.Errorf("inspect: got %+v", s)
	}
	s = administer(t, srv, "grant", `{`+ann+`,"limit":"permin","units":2}`)
	if s.Limits[0].Remaining != 2 || s.Limits[1].Remaining != 2 {
		t.Errorf("grant: got %+v", s)
	}
	// Not above untouched.
	if s = administer(t, srv, "grant", `{`+ann+`,"limit":"perhour","units":1000}`); s.Limits[1].Remaining != 5 {
		t.Errorf("grant: got %+v", s)
	}
	srv.allowed(t, true)
	if s = administer(t, srv, "reset", `{`+ann+`,"limit":"permin"}`); s.Limits[0].Remaining != 3 || s.Limits[1].Remaining != 4 {
		t.Errorf("reset: got %+v", s)
	}

	f := func(path, body, pointer, detail string) {
		t.Helper()
		res, got := exchange(t, "POST", srv.URL, "/v1/admin/"+path, body, bearer)
		var p problem
		if err := json.Unmarshal([]byte(got), &p); err != nil || res.StatusCode != 400 || len(p.Errors) != 1 ||
			p.Errors[0].Pointer != pointer || !strings.Contains(p.Errors[0].Detail, detail) {
			t.Errorf("%s %s: got %d %s, want 400 at %s: %s", path, body, res.StatusCode, got, pointer, detail)
		}
	}
	f("reset", `{`+ann+`}`, "#/limit", `say which limit is meant: "permin", "perhour"`)
	f("reset", `{`+ann+`,"limit":"perday"}`, "#/limit", `they meet "permin", "perhour"`)
	f("inspect", `{`+ann+`,"limit":"perday"}`, "#/limit", `they meet "permin", "perhour"`)
	f("grant", `{`+ann+`,"limit":"permin"}`, "#/units", "is missing")
	f("grant", `{`+ann+`,"limit":"permin","units":0}`, "#/units", "from 1")
	f("ban", `{`+ann+`,"limit":"permin"}`, "#/seconds", "is missing")
	f("ban", `{`+ann+`,"limit":"permin","seconds":999999999999}`, "#/seconds", "from 0 to")
	f("inspect", `{"descriptors":[{"entries":{"a":"1"}},{"entries":{"a":"1"}}]}`, "#/descriptors", "one descriptor")
	f("inspect", `{`+ann+`,"units":1}`, "#/units", "unknown")
}

func TestNoLimitToAdminister(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{AdminToken: token})
	res, got := exchange(t, "POST", srv.URL, "/v1/admin/reset", `{"descriptors":[{"entries":{"user":"ann"}}]}`, bearer)
	if res.StatusCode != 400 || !strings.Contains(got, "no limit counts") {
		t.Errorf("got %d %s", res.StatusCode, got)
	}
}

func TestGrantWhatCannotBeGranted(t *testing.T) {
	conc := named("conc", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute})
	srv := serve(t, clocked.New(t), weir.Limits{conc}, httpapi.Options{AdminToken: token})
	res, got := exchange(t, "POST", srv.URL, "/v1/admin/grant", `{"descriptors":[{"entries":{"user":"ann"}}],"units":1}`, bearer)
	if res.StatusCode != 422 || !strings.Contains(got, "cannot give back") {
		t.Errorf("got %d %s", res.StatusCode, got)
	}
}

func TestBan(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{named("permin", weir.PerMinute(100, algorithm.TokenBucket))}, httpapi.Options{AdminToken: token})
	const ann = `"descriptors":[{"entries":{"user":"ann"}}]`
	srv.allowed(t, true)
	s := administer(t, srv, "ban", `{`+ann+`,"seconds":30}`)
	if s.Allowed || *s.RetryAfter != 30 {
		t.Errorf("got %+v, want a refusal for 30 s", s)
	}
	srv.allowed(t, false)
	if _, got := post(t, srv.URL, "/shouldAllowRequest", `{"clientId":"ann"}`); got != `{"allowed":false}` {
		t.Errorf("got %s", got)
	}
	if _, got := post(t, srv.URL, "/shouldAllowRequest", `{"clientId":"bob"}`); got != `{"allowed":true}` {
		t.Errorf("bob is banned with ann: %s", got)
	}
	store.Advance(30*time.Second - time.Microsecond)
	srv.allowed(t, false)
	store.Advance(time.Microsecond)
	srv.allowed(t, true)

	// A new ban takes the place of the old one, 0 lifts it, so does a reset.
	administer(t, srv, "ban", `{`+ann+`,"seconds":3000}`)
	if s := administer(t, srv, "ban", `{`+ann+`,"seconds":10}`); *s.RetryAfter != 10 {
		t.Errorf("got %+v, want 10 s", s)
	}
	if s := administer(t, srv, "ban", `{`+ann+`,"seconds":0}`); !s.Allowed {
		t.Errorf("got %+v, want it lifted", s)
	}
	administer(t, srv, "ban", `{`+ann+`,"seconds":10}`)
	if s := administer(t, srv, "reset", `{`+ann+`}`); !s.Allowed || s.Limits[0].Remaining != 100 {
		t.Errorf("got %+v, want it lifted", s)
	}
	administer(t, srv, "ban", `{`+ann+`,"seconds":3000}`)
	if s := administer(t, srv, "ban", `{`+ann+`,"end":true}`); !s.Allowed {
		t.Errorf("got %+v, want it ended", s)
	}
	for body, why := range map[string]string{`,"end":true,"seconds":5`: "goes alone", `,"end":false`: "end takes back", ``: "end takes back"} {
		if res, got := exchange(t, "POST", srv.URL, "/v1/admin/ban", `{`+ann+body+`}`, bearer); res.StatusCode != 400 || !strings.Contains(got, why) {
			t.Errorf("%s: got %d %s, want %s", body, res.StatusCode, got, why)
		}
	}
	// Bans that are over leave the list when the next one comes.
	ann1 := &weir.Request{Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: "ann"}}}}}
	administer(t, srv, "ban", `{`+ann+`,"seconds":1}`)
	if n := len(srv.lim.Match(ann1)); n != 2 {
		t.Errorf("ann meets %d ops while banned, want 2", n)
	}
	store.Advance(2 * time.Second)
	administer(t, srv, "ban", `{"descriptors":[{"entries":{"user":"bob"}}],"seconds":10}`)
	if n := len(srv.lim.Match(ann1)); n != 1 {
		t.Errorf("ann meets %d ops when her ban is over, want 1", n)
	}

	// A cost that was already incurred is counted all the same.
	administer(t, srv, "ban", `{`+ann+`,"seconds":10}`)
	r := &weir.Request{Verb: weir.Force, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: "ann"}}}}}
	if d, err := srv.lim.Decide(t.Context(), r); err != nil || !d.Allowed() || d.Remaining != 99 {
		t.Errorf("got %+v, %v", d, err)
	}
}

// A banned key is shown with what its limits keep, and with who banned it.
func TestInspectWhileBanned(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{
		named("permin", weir.PerMinute(3, algorithm.FixedWindow)), named("perhour", weir.PerHour(5, algorithm.TokenBucket)),
	}, httpapi.Options{AdminToken: token})
	const ann = `"descriptors":[{"entries":{"user":"ann"}}]`
	srv.allowed(t, true)
	s := administer(t, srv, "ban", `{`+ann+`,"limit":"permin","seconds":30}`)
	if s.Allowed || *s.RetryAfter != 30 || len(s.Limits) != 3 || s.Limits[0].Remaining != 2 || s.Limits[1].Remaining != 4 || s.Limits[2].Role != "deny" {
		t.Errorf("got %+v", s)
	}
	if len(s.Overlay) != 1 || s.Overlay[0].Kind != "ban" || s.Overlay[0].Until != "2023-11-14T22:13:50Z" || s.Overlay[0].By != "admin token from 127.0.0.1" ||
		!strings.Contains(s.Overlay[0].YAML, "\n"+`overrides: {"ann": {limit: 0, mode: hard}}`+"\n") {
		t.Errorf("got %+v", s.Overlay)
	}
	res, got := exchange(t, "POST", srv.URL, "/v1/explain", `{`+ann+`}`, bearer)
	if res.StatusCode != 200 || !strings.Contains(got, `"overlay":[{"kind":"ban"`) || !strings.Contains(got, `"remaining":4`) || !strings.Contains(got, `"allowed":false`) {
		t.Errorf("explain: got %d %s", res.StatusCode, got)
	}
	srv.allowed(t, false)
}

func TestOverride(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{
		named("permin", weir.PerMinute(3, algorithm.TokenBucket)), named("perhour", weir.PerHour(5000, algorithm.FixedWindow)),
	}, httpapi.Options{AdminToken: token})
	const ann = `"descriptors":[{"entries":{"user":"ann"}}],"limit":"permin"`
	s := administer(t, srv, "override", `{`+ann+`,"rate":"50/minute","burst":70,"seconds":60}`)
	if s.Limits[0].Remaining != 70 || s.Limits[0].Limit.Count != 50 || len(s.Overlay) != 1 || s.Overlay[0].Rate != "50/minute" ||
		!strings.Contains(s.Overlay[0].YAML, `{limit: 50/minute, algorithm: token_bucket, burst: 70}`) {
		t.Errorf("got %+v", s)
	}
	for range 70 {
		srv.allowed(t, true)
	}
	srv.allowed(t, false)
	if s = administer(t, srv, "grant", `{`+ann+`,"units":60}`); s.Limits[0].Remaining != 60 {
		t.Errorf("a grant reaches %d, want 60 of the override's burst", s.Limits[0].Remaining)
	}
	if s = administer(t, srv, "reset", `{`+ann+`}`); s.Limits[0].Remaining != 70 {
		t.Errorf("a reset leaves %d, want the override's burst", s.Limits[0].Remaining)
	}
	// A new one takes its place, it ends, and is taken back.
	if s = administer(t, srv, "override", `{`+ann+`,"rate":"4/minute","seconds":null}`); s.Limits[0].Remaining != 4 || s.Overlay[0].Until != "" {
		t.Errorf("got %+v", s)
	}
	for range 2 {
		if s = administer(t, srv, "override", `{`+ann+`,"rate":"none"}`); s.Limits[0].Remaining != 3 || len(s.Overlay) != 0 {
			t.Errorf("got %+v", s)
		}
	}
	f := func(body, pointer, detail string) {
		t.Helper()
		res, got := exchange(t, "POST", srv.URL, "/v1/admin/override", body, bearer)
		var p problem
		if err := json.Unmarshal([]byte(got), &p); err != nil || res.StatusCode != 400 || len(p.Errors) != 1 ||
			p.Errors[0].Pointer != pointer || !strings.Contains(p.Errors[0].Detail, detail) {
			t.Errorf("%s: got %d %s, want 400 at %s: %s", body, res.StatusCode, got, pointer, detail)
		}
	}
	administer(t, srv, "override", `{`+ann+`,"rate":"4/minute"}`)
	if s = administer(t, srv, "override", `{`+ann+`,"end":true}`); s.Limits[0].Remaining != 3 || len(s.Overlay) != 0 {
		t.Errorf("got %+v, want it ended", s)
	}
	f(`{`+ann+`,"rate":"5/minute","seconds":0}`, "#/seconds", "at least 1")
	f(`{`+ann+`,"rate":"5/minute","end":true}`, "#/end", "goes alone")
	f(`{`+ann+`}`, "#/rate", "is missing")
	f(`{`+ann+`,"rate":"many"}`, "#/rate", "write it like 100/minute")
	f(`{`+ann+`,"rate":"5/fortnight"}`, "#/rate", "unknown unit")
	f(`{`+ann+`,"rate":"5"}`, "#/rate", "5/minute")
	f(`{`+ann+`,"rate":"0/minute"}`, "#/rate", "ban the key")
	f(`{`+ann+`,"rate":"none","seconds":5}`, "#/rate", "none goes alone")
	f(`{`+ann+`,"rate":"5/minute","burst":0}`, "#/burst", "from 1")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"limit":"perhour","rate":"5/hour","burst":7}`, "#/burst", "token_bucket")
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"limit":"perday","rate":"5/hour"}`, "#/limit", `they meet "permin", "perhour"`)
	f(`{"descriptors":[{"entries":{"user":"ann"}}],"rate":"5/hour"}`, "#/limit", "say which limit is meant")
}

// A concurrency limit is overridden by how many at once.
func TestOverrideConcurrency(t *testing.T) {
	conc := named("conc", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute})
	srv := serve(t, clocked.New(t), weir.Limits{conc}, httpapi.Options{AdminToken: token})
	const ann = `"descriptors":[{"entries":{"user":"ann"}}]`
	s := administer(t, srv, "override", `{`+ann+`,"rate":"4"}`)
	if s.Limits[0].Remaining != 4 || !strings.Contains(s.Overlay[0].YAML, `{"ann": {limit: 4, algorithm: concurrency, ttl: `) {
		t.Errorf("got %+v", s)
	}
	for i := range 5 {
		_, got := post(t, srv.URL, "/v1/acquire", `{`+ann+`,"lease":"`+string(rune('a'+i))+`"}`)
		if strings.Contains(got, `"allowed":true`) != (i < 4) {
			t.Errorf("lease %d: %s", i, got)
		}
	}
	res, got := exchange(t, "POST", srv.URL, "/v1/admin/override", `{`+ann+`,"rate":"4/minute"}`, bearer)
	if res.StatusCode != 400 || !strings.Contains(got, "how many at once") {
		t.Errorf("got %d %s", res.StatusCode, got)
	}
}

// While the store of bans does not answer, or keeps what cannot be read, a change is
// refused with what to do.
func TestOverlayThatCannotChange(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{named("permin", weir.PerMinute(3, algorithm.TokenBucket))}, httpapi.Options{AdminToken: token})
	const ann = `{"descriptors":[{"entries":{"user":"ann"}}],"seconds":5}`
	if _, err := store.SwapDocument(t.Context(), "overlay", 0, documents.Document{Data: []byte("garbage")}); err != nil {
		t.Fatal(err)
	}
	res, got := exchange(t, "POST", srv.URL, "/v1/admin/ban", ann, bearer)
	if res.StatusCode != 409 || !strings.Contains(got, "delete it") {
		t.Errorf("got %d %s", res.StatusCode, got)
	}
	srv.allowed(t, true)
}

func TestOperatorsOnly(t *testing.T) {
	const body = `{"descriptors":[{"entries":{"user":"ann"}}]}`
	limits := weir.Limits{named("permin", weir.PerMinute(3, algorithm.FixedWindow))}
	paths := []string{"/v1/admin/inspect", "/v1/admin/reset", "/v1/admin/grant", "/v1/admin/ban", "/v1/admin/allow", "/v1/admin/override", "/v1/admin/mode", "/v1/explain"}
	status := func(url, path string, h http.Header) int {
		t.Helper()
		res, _ := exchange(t, "POST", url, path, body, h)
		return res.StatusCode
	}
	guarded := serve(t, clocked.New(t), limits, httpapi.Options{AdminToken: token})
	open := serve(t, clocked.New(t), limits, httpapi.Options{})
	for _, p := range paths {
		for _, h := range []http.Header{nil, {"Authorization": {"Bearer wrong"}}, {"Authorization": {"Bearer"}}, {"Authorization": {token}}, {"Authorization": {"Basic " + token}}} {
			if got := status(guarded.URL, p, h); got != 401 {
				t.Errorf("%s with %v: got %d, want 401", p, h, got)
			}
		}
		if got := status(open.URL, p, bearer); got != 403 {
			t.Errorf("%s without a token configured: got %d, want 403", p, got)
		}
	}
	for _, p := range []string{"/v1/rules", "/v1/admin/modes", "/v1/admin/audit"} {
		if res, _ := exchange(t, "GET", guarded.URL, p, "", nil); res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: got %d %v", p, res.StatusCode, res.Header)
		}
		if res, _ := exchange(t, "GET", open.URL, p, "", bearer); res.StatusCode != 403 {
			t.Errorf("%s without a token configured: got %d, want 403", p, res.StatusCode)
		}
	}

	// On a port of its own and without a token: loopback, asked for as such.
	admin := httptest.NewServer(open.api.AdminHandler())
	defer admin.Close()
	if got := status(admin.URL, "/v1/admin/inspect", nil); got != 200 {
		t.Errorf("from loopback: got %d", got)
	}
	if got := status(admin.URL, "/v1/check", nil); got != 404 {
		t.Errorf("a path that is not for operators: got %d, want 404", got)
	}
	for _, h := range []http.Header{{"X-Forwarded-For": {"127.0.0.1"}}, {"Origin": {"http://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}} {
		if got := status(admin.URL, "/v1/admin/inspect", h); got != 403 {
			t.Errorf("with %v: got %d, want 403", h, got)
		}
	}
	req, err := http.NewRequest("POST", admin.URL+"/v1/admin/inspect", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 403 {
		t.Errorf("a name that was rebound to loopback: got %d, want 403", res.StatusCode)
	}
}

// denying puts a deny list before a limit.
type denying struct{ limit, list *weir.Limit }

func (r denying) Match(dst []weir.Op, q *weir.Request) []weir.Op {
	dst = append(dst, weir.Op{Limit: r.list, Role: weir.Deny, Answer: weir.Answer{Decision: weir.Decision{Limit: r.list, RetryAfter: weir.Never}}})
	return r.limit.Append(dst, q.Descriptors[0].Entries[0].Value, 1, q)
}

// TestDenyList: the limits that were not asked say nothing.
func TestDenyList(t *testing.T) {
	rules := denying{named("permin", weir.PerMinute(3, algorithm.FixedWindow)), named("list", weir.PerMinute(1, algorithm.FixedWindow))}
	for _, l := range []*weir.Limit{rules.limit, rules.list} {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	srv := serveRules(t, clocked.New(t), rules, httpapi.Options{AdminToken: token})
	for path, want := range map[string]int{"/v1/check": 1, "/v1/explain": 2, "/v1/admin/inspect": 1} {
		res, got := exchange(t, "POST", srv.URL, path, `{"descriptors":[{"entries":{"user":"ann"}}]}`, bearer)
		if res.StatusCode != 200 || strings.Count(got, `"role":"deny"`) != want || strings.Contains(got, "permin") || !strings.Contains(got, `"retry_after":null`) {
			t.Errorf("%s: got %d %s", path, res.StatusCode, got)
		}
	}
}

// book is a rulebook of few words.
type book struct{}

func (book) Describe(after, size int) any {
	return map[string]any{"domain": "api", "from": after, "size": size}
}
func (book) MissingTier(*weir.Request) string { return "" }
func (book) Explain(r *weir.Request) any {
	return []string{r.Domain, r.Descriptors[0].Entries[0].Value}
}

func TestRulesAndExplain(t *testing.T) {
	limits := weir.Limits{named("permin", weir.PerMinute(3, algorithm.FixedWindow))}
	srv := serve(t, clocked.New(t), limits, httpapi.Options{AdminToken: token, Rulebook: book{}})
	if res, got := exchange(t, "GET", srv.URL, "/v1/rules", "", bearer); res.StatusCode != 200 || got != `{"domain":"api","from":0,"size":0}` {
		t.Errorf("rules: got %d %s", res.StatusCode, got)
	}
	for range 2 { // explaining spends nothing
		res, got := exchange(t, "POST", srv.URL, "/v1/explain", `{"descriptors":[{"entries":{"user":"ann"}}]}`, bearer)
		if res.StatusCode != 200 || !strings.Contains(got, `"remaining":3,`) || !strings.Contains(got, `"key":"ann"`) ||
			!strings.HasSuffix(got, `"rules":["api","ann"]}`) {
			t.Errorf("explain: got %d %s", res.StatusCode, got)
		}
	}
}

// TestWithoutParts: what a service runs without says so.
func TestWithoutParts(t *testing.T) {
	lim, err := weir.New(clocked.New(t), weir.Limits{weir.PerMinute(3, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Options{Limiter: lim, AdminToken: token})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(api)
	defer srv.Close()
	const ann = `"descriptors":[{"entries":{"user":"ann"}}]`
	for path, body := range map[string]string{
		"/v1/reserve": `{` + ann + `}`, "/v1/commit": `{"handle":"x","actual":1}`, "/v1/cancel": `{"handle":"x"}`,
		"/v1/admin/reset": `{` + ann + `}`, "/v1/admin/ban": `{` + ann + `,"seconds":1}`,
		"/v1/admin/override": `{` + ann + `,"rate":"5/minute"}`, "/v1/admin/allow": `{` + ann + `,"seconds":1}`,
		"/v1/admin/mode": `{"rule":"x","mode":"off","reason":"x"}`,
	} {
		if res, got := exchange(t, "POST", srv.URL, path, body, bearer); res.StatusCode != 501 {
			t.Errorf("%s: got %d %s, want 501", path, res.StatusCode, got)
		}
	}
	for _, path := range []string{"/v1/rules", "/v1/admin/modes", "/v1/admin/audit"} {
		if res, got := exchange(t, "GET", srv.URL, path, "", bearer); res.StatusCode != 501 {
			t.Errorf("%s: got %d %s, want 501", path, res.StatusCode, got)
		}
	}
}

func TestOptions(t *testing.T) {
	lim, err := weir.New(clocked.New(t), weir.Limits{}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := func(opt httpapi.Options, want string) {
		t.Helper()
		if _, err := httpapi.New(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(httpapi.Options{}, "no limiter")
	f(httpapi.Options{Limiter: lim, AdminToken: "short"}, "admin token has 5 bytes")
	f(httpapi.Options{Limiter: lim, MaxInFlight: -1}, "max in flight")
	f(httpapi.Options{Limiter: lim, BodyTimeout: -1}, "body timeout")
	f(httpapi.Options{Limiter: lim, Domain: strings.Repeat("x", 300)}, "domain has 300 bytes")
}

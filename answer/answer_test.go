package answer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// start is 20 seconds into a minute.
const start = 1_700_000_000_000_000

// client asks a limiter on a clock of the tester's, and writes what it says.
type client struct {
	t   *testing.T
	lim *weir.Limiter
	now atomic.Int64
	w   *answer.Writer
}

func newClient(t *testing.T, rules weir.Rules, sets ...string) *client {
	t.Helper()
	c := &client{t: t}
	c.now.Store(start)
	store := memory.New(memory.Options{MaxBytes: 16 << 20, Now: c.now.Load})
	t.Cleanup(func() { store.Close() })
	var err error
	if c.lim, err = weir.New(store, rules, weir.Options{}); err != nil {
		t.Fatal(err)
	}
	if c.w, err = answer.New(answer.Options{Headers: sets}); err != nil {
		t.Fatal(err)
	}
	return c
}

// decide spends cost for user ann.
func (c *client) decide(cost int64) (*weir.Request, weir.Decision) {
	c.t.Helper()
	r := &weir.Request{Cost: cost, Lease: fmt.Sprint("lease ", c.now.Load()), Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: "ann"}}}}}
	d, err := c.lim.Decide(context.Background(), r)
	if err != nil {
		c.t.Fatal(err)
	}
	return r, d
}

// says checks the header fields of the next answer, given one on a line, and
// that an independent parser reads them.
func (c *client) says(cost int64, want ...string) {
	c.t.Helper()
	r, d := c.decide(cost)
	h := http.Header{}
	c.w.Header(h, r.Ops(), d, c.now.Load())
	if got := lines(h); !slices.Equal(got, want) {
		c.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	parse(c.t, h)
}

// lines returns the fields of h, one on a line, sorted.
func lines(h http.Header) []string {
	var out []string
	for k, vs := range h {
		for _, v := range vs {
			out = append(out, k+": "+v)
		}
	}
	slices.Sort(out)
	return out
}

// parse reads the structured fields of h by another's parser, and checks what
// the draft demands of them.
func parse(t testing.TB, h http.Header) (policies, states httpsfv.List) {
	t.Helper()
	var err error
	if policies, err = httpsfv.UnmarshalList(h["Ratelimit-Policy"]); err != nil {
		t.Fatalf("RateLimit-Policy %q: %v", h["Ratelimit-Policy"], err)
	}
	if states, err = httpsfv.UnmarshalList(h["Ratelimit"]); err != nil {
		t.Fatalf("RateLimit %q: %v", h["Ratelimit"], err)
	}
	integer := func(p *httpsfv.Params, key string, least int64, required bool) {
		t.Helper()
		v, ok := p.Get(key)
		if !ok {
			if required {
				t.Fatalf("no %s in %v", key, h)
			}
			return
		}
		if n, ok := v.(int64); !ok || n < least {
			t.Fatalf("%s is %v in %v", key, v, h)
		}
	}
	for _, m := range policies {
		i, ok := m.(httpsfv.Item)
		if _, isString := i.Value.(string); !ok || !isString {
			t.Fatalf("%v is not a String", m)
		}
		integer(i.Params, "q", 0, true)
		integer(i.Params, "w", 1, false)
	}
	for _, m := range states {
		i, ok := m.(httpsfv.Item)
		if _, isString := i.Value.(string); !ok || !isString {
			t.Fatalf("%v is not a String", m)
		}
		integer(i.Params, "r", 0, true)
		integer(i.Params, "t", 0, false)
	}
	return policies, states
}

func named(name string, l *weir.Limit) *weir.Limit {
	l.Name = name
	return l
}

func TestFixedWindow(t *testing.T) {
	c := newClient(t, weir.Limits{named("permin", weir.PerMinute(50, algorithm.FixedWindow))})
	c.says(38,
		`Ratelimit-Policy: "permin";q=50;w=60`,
		`Ratelimit: "permin";r=12;t=40`,
		`X-Ratelimit-Limit: 50`,
		`X-Ratelimit-Remaining: 12`)
	c.now.Add(500_000) // rounded up
	c.says(20,
		`Ratelimit-Policy: "permin";q=50;w=60`,
		`Ratelimit: "permin";r=12;t=40`,
		`Retry-After: 40`,
		`X-Ratelimit-Limit: 50`,
		`X-Ratelimit-Remaining: 12`,
		`X-Ratelimit-Retry-After: 40`)
	c.now.Add(39_499_999) // a microsecond is left
	c.says(20,
		`Ratelimit-Policy: "permin";q=50;w=60`,
		`Ratelimit: "permin";r=12;t=1`,
		`Retry-After: 1`,
		`X-Ratelimit-Limit: 50`,
		`X-Ratelimit-Remaining: 12`,
		`X-Ratelimit-Retry-After: 1`)
	c.says(51, // never
		`Ratelimit-Policy: "permin";q=50;w=60`,
		`Ratelimit: "permin";r=12`,
		`X-Ratelimit-Limit: 50`,
		`X-Ratelimit-Remaining: 12`)
}

func TestSeveralLimits(t *testing.T) {
	c := newClient(t, weir.Limits{named("perhr", weir.PerHour(1000, algorithm.FixedWindow)), named("permin", weir.PerMinute(50, algorithm.FixedWindow))}, answer.IETF08)
	c.says(50,
		`Ratelimit-Policy: "permin";q=50;w=60, "perhr";q=1000;w=3600`,
		`Ratelimit: "permin";r=0;t=40, "perhr";r=950;t=2800`)
	// Of those that do not refuse no t is told: Retry-After would be earlier.
	c.says(1,
		`Ratelimit-Policy: "permin";q=50;w=60, "perhr";q=1000;w=3600`,
		`Ratelimit: "permin";r=0;t=40, "perhr";r=950`,
		`Retry-After: 40`)
}

func TestBucket(t *testing.T) {
	l := named("bucket", weir.PerMinute(20, algorithm.TokenBucket)) // one in three seconds
	l.Burst = 5
	c := newClient(t, weir.Limits{l}, answer.IETF08)
	const policy = `Ratelimit-Policy: "bucket";q=5;w=15`
	c.says(2, policy, `Ratelimit: "bucket";r=3;t=3`)
	c.now.Add(1_000_000)
	c.says(1, policy, `Ratelimit: "bucket";r=2;t=2`)
	c.says(3, policy, `Ratelimit: "bucket";r=2;t=2`, `Retry-After: 2`)

	c = newClient(t, weir.Limits{named("seven", weir.PerMinute(7, algorithm.LeakyBucket))}, answer.IETF08)
	c.says(1, `Ratelimit-Policy: "seven";q=7;w=60`, `Ratelimit: "seven";r=6;t=9`)
}

func TestSlidingWindow(t *testing.T) {
	c := newClient(t, weir.Limits{named("sliding", weir.PerMinute(10, algorithm.SlidingWindow))}, answer.IETF08)
	c.says(4, `Ratelimit-Policy: "sliding";q=10;w=60`, `Ratelimit: "sliding";r=6;t=60`)
}

func TestCalendarMonth(t *testing.T) {
	l := named("month", &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Period: 30 * 24 * time.Hour,
		Params: params.Params{Anchor: params.AnchorCalendar, Calendar: params.CalendarMonth}})
	c := newClient(t, weir.Limits{l}, answer.IETF08)
	c.now.Store(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	// January has a day more than the nominal month.
	c.says(1, `Ratelimit-Policy: "month";q=100;w=2592000`, `Ratelimit: "month";r=99;t=2678400`)
}

func TestConcurrency(t *testing.T) {
	c := newClient(t, weir.Limits{named("conc", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute})}, answer.IETF08)
	const policy = `Ratelimit-Policy: "conc";q=2;qu="concurrent-requests"`
	c.says(1, policy, `Ratelimit: "conc";r=1`)
	c.now.Add(1)
	c.says(1, policy, `Ratelimit: "conc";r=0`)
	c.now.Add(1)
	c.says(1, policy, `Ratelimit: "conc";r=0`, `Retry-After: 1`)
}

// TestWaitForAPlace: nobody knows when the others are done, and their leases, of a
// minute, say only when they are if they died. What a rate says is known, and counts.
func TestWaitForAPlace(t *testing.T) {
	slots := named("slots", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute})
	rate := named("rate", weir.PerMinute(2, algorithm.FixedWindow))
	for _, c := range []struct {
		rules weir.Limits
		want  time.Duration
		body  string
	}{
		{weir.Limits{slots}, time.Second, "too many requests are under way; try again in 1 second"},
		{weir.Limits{slots, rate}, 40 * time.Second, "too many requests are under way; try again in 40 seconds"},
		{weir.Limits{rate}, 40 * time.Second, "the limit rate is exhausted; try again in 40 seconds"},
	} {
		cl := newClient(t, c.rules)
		for range 2 {
			cl.decide(1)
			cl.now.Add(1) // each its own lease
		}
		r, d := cl.decide(1)
		rec := httptest.NewRecorder()
		cl.w.Refuse(rec, answer.OverLimit, r.Ops(), d, cl.now.Load())
		var body struct {
			Detail     string
			RetryAfter int64 `json:"retry_after"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		seconds := int64(c.want / time.Second)
		if body.Detail != c.body || body.RetryAfter != seconds || rec.Header().Get("Retry-After") != fmt.Sprint(seconds) {
			t.Errorf("%d limits: got %+v, Retry-After %s, want %s", len(c.rules), body, rec.Header().Get("Retry-After"), c.want)
		}
		if got := answer.Wait(r.Ops(), d).Round(time.Second); got != c.want {
			t.Errorf("%d limits: Wait says %s, want %s", len(c.rules), got, c.want)
		}
	}
}

// TestSoft: the numbers told are those written, though the excess passes too.
func TestSoft(t *testing.T) {
	l := named("soft", weir.PerMinute(10, algorithm.FixedWindow))
	l.Excess = 50
	c := newClient(t, weir.Limits{l}, answer.IETF08)
	const policy = `Ratelimit-Policy: "soft";q=10;w=60`
	c.says(4, policy, `Ratelimit: "soft";r=6;t=40`)
	c.says(8, policy, `Ratelimit: "soft";r=0;t=40`)
	c.says(3, policy, `Ratelimit: "soft";r=0;t=40`)
	c.says(1, policy, `Ratelimit: "soft";r=0;t=40`, `Retry-After: 40`)
	c = newClient(t, weir.Limits{l}, answer.IETF08)
	c.says(12, policy, `Ratelimit: "soft";r=0;t=40`) // never fits without the excess
}

// A bucket's burst is told as it is written.
func TestSoftBucket(t *testing.T) {
	l := named("soft", weir.PerMinute(60, algorithm.TokenBucket))
	l.Burst, l.Excess = 20, 50
	c := newClient(t, weir.Limits{l}, answer.IETF08)
	c.says(15, `Ratelimit-Policy: "soft";q=20;w=20`, `Ratelimit: "soft";r=5;t=1`)
	c.says(15, `Ratelimit-Policy: "soft";q=20;w=20`, `Ratelimit: "soft";r=0;t=25`) // such a cost fits again
	c.says(1, `Ratelimit-Policy: "soft";q=20;w=20`, `Ratelimit: "soft";r=0;t=1`, `Retry-After: 1`)
}

func TestElastic(t *testing.T) {
	rules := func(ceiling int64) weir.Limits {
		l := named("elastic", weir.PerMinute(10, algorithm.FixedWindow))
		l.Mode = weir.Mode{Pool: named("pool", weir.PerMinute(100, algorithm.FixedWindow)), PoolKey: "all", Ceiling: ceiling}
		return weir.Limits{l}
	}
	c := newClient(t, rules(0), answer.IETF08)
	c.says(10, `Ratelimit-Policy: "elastic";q=100;w=60`, `Ratelimit: "elastic";r=90;t=40`)
	c.says(91, `Ratelimit-Policy: "elastic";q=100;w=60`, `Ratelimit: "elastic";r=90;t=40`, `Retry-After: 40`)
	c = newClient(t, rules(30), answer.IETF08)
	c.says(10, `Ratelimit-Policy: "elastic";q=30;w=60`, `Ratelimit: "elastic";r=20;t=40`)
	c.says(21, `Ratelimit-Policy: "elastic";q=30;w=60`, `Ratelimit: "elastic";r=20;t=40`, `Retry-After: 40`)
}

// TestElasticUnderACeiling: the pool can be emptier than the ceiling says.
func TestElasticUnderACeiling(t *testing.T) {
	l := named("elastic", weir.PerMinute(10, algorithm.FixedWindow))
	l.Mode = weir.Mode{Pool: named("pool", weir.PerMinute(100, algorithm.FixedWindow)), PoolKey: "all", Ceiling: 90}
	c := newClient(t, weir.Limits{l}, answer.IETF08)
	if d, err := c.lim.Take(context.Background(), "bob", 90); err != nil || !d.Allowed() {
		t.Fatalf("%+v, %v", d, err)
	}
	c.says(5, `Ratelimit-Policy: "elastic";q=90;w=60`, `Ratelimit: "elastic";r=5;t=40`)
}

func TestShadowIsNotTold(t *testing.T) {
	l := named("shadow", weir.PerMinute(1, algorithm.FixedWindow))
	l.Shadow = true
	c := newClient(t, weir.Limits{l})
	c.says(5)
}

func TestBanIsToldWhileItHolds(t *testing.T) {
	l := named("login", weir.PerMinute(1, algorithm.FixedWindow))
	l.Ban = named("locked out", &weir.Limit{Algorithm: algorithm.Lockout, Count: 1, Period: 10 * time.Minute})
	c := newClient(t, weir.Limits{l}, answer.IETF08)
	c.says(1, `Ratelimit-Policy: "login";q=1;w=60`, `Ratelimit: "login";r=0;t=40`)
	if _, d := c.decide(1); d.Allowed() { // refused, and banned from now on
		t.Fatal("allowed")
	}
	r, d := c.decide(1)
	h := http.Header{}
	c.w.Header(h, r.Ops(), d, c.now.Load())
	if got := h.Get("RateLimit-Policy"); !strings.HasPrefix(got, `"locked out";q=1;w=600, "login";`) {
		t.Errorf("got %s", got)
	}
	if got := h.Get("Retry-After"); got != "600" {
		t.Errorf("Retry-After: %s, want 600", got)
	}
}

// denied refuses everybody, without asking the store.
type denied struct{ limit *weir.Limit }

func (r denied) Match(dst []weir.Op, _ *weir.Request) []weir.Op {
	return append(dst, weir.Op{Limit: r.limit, Role: weir.Deny, Answer: weir.Answer{Decision: weir.Decision{Limit: r.limit, RetryAfter: weir.Never}}})
}

func TestDeny(t *testing.T) {
	l := named("deny list", weir.PerMinute(1, algorithm.FixedWindow))
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	newClient(t, denied{l}).says(1,
		`Ratelimit-Policy: "deny list";q=0`, `Ratelimit: "deny list";r=0`, `X-Ratelimit-Limit: 0`, `X-Ratelimit-Remaining: 0`)
	c := newClient(t, denied{l})
	r, d := c.decide(1)
	rec := httptest.NewRecorder()
	c.w.Refuse(rec, answer.OverLimit, r.Ops(), d, c.now.Load())
	if !strings.Contains(rec.Body.String(), `"detail":"the request is refused, and waiting does not help","violated-policies":["deny list"]`) {
		t.Errorf("got %s", rec.Body)
	}
}

func TestNoLimitNoFields(t *testing.T) {
	newClient(t, weir.Limits{}).says(1)
}

func TestSameLimitTwiceIsToldOnce(t *testing.T) {
	c := newClient(t, weir.Limits{named("permin", weir.PerMinute(10, algorithm.FixedWindow))}, answer.IETF08)
	r := &weir.Request{Descriptors: []weir.Descriptor{
		{Entries: []weir.Entry{{Key: "user", Value: "ann"}}, Cost: 2}, {Entries: []weir.Entry{{Key: "user", Value: "bob"}}, Cost: 7}}}
	d, err := c.lim.Decide(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	c.w.Header(h, r.Ops(), d, c.now.Load())
	if got := h.Get("RateLimit"); got != `"permin";r=3;t=40` {
		t.Errorf("got %s", got)
	}
}

func TestManyLimitsAreCut(t *testing.T) {
	var limits weir.Limits
	for i := range 40 {
		limits = append(limits, named(fmt.Sprint("limit ", i), weir.PerMinute(int64(100-i), algorithm.FixedWindow)))
	}
	c := newClient(t, limits, answer.IETF08)
	r, d := c.decide(1)
	h := http.Header{}
	c.w.Header(h, r.Ops(), d, c.now.Load())
	policies, states := parse(t, h)
	if len(policies) != 16 || len(states) != 16 || policies[0].(httpsfv.Item).Value != "limit 39" || policies[15].(httpsfv.Item).Value != "limit 24" {
		t.Errorf("got %d policies: %s", len(policies), h["Ratelimit-Policy"])
	}
}

func TestEverySetAtOnce(t *testing.T) {
	c := newClient(t, weir.Limits{named("permin", weir.PerMinute(1, algorithm.FixedWindow))}, answer.IETF08, answer.IETF06, answer.XRateLimit, answer.None)
	c.says(1,
		`Ratelimit-Limit: 1`, `Ratelimit-Policy: "permin";q=1;w=60`, `Ratelimit-Remaining: 0`, `Ratelimit-Reset: 40`,
		`Ratelimit: "permin";r=0;t=40`, `X-Ratelimit-Limit: 1`, `X-Ratelimit-Remaining: 0`)
	c.says(1,
		`Ratelimit-Limit: 1`, `Ratelimit-Policy: "permin";q=1;w=60`, `Ratelimit-Remaining: 0`, `Ratelimit-Reset: 40`,
		`Ratelimit: "permin";r=0;t=40`, `Retry-After: 40`, `X-Ratelimit-Limit: 1`, `X-Ratelimit-Remaining: 0`, `X-Ratelimit-Retry-After: 40`)
	newClient(t, weir.Limits{named("permin", weir.PerMinute(1, algorithm.FixedWindow))}, answer.None).says(1)
}

func TestUnknownSet(t *testing.T) {
	for _, sets := range [][]string{{"ietf-09"}, {answer.IETF08, answer.IETF08}} {
		if _, err := answer.New(answer.Options{Headers: sets}); err == nil {
			t.Errorf("%q is accepted", sets)
		}
	}
}

func TestRefuse(t *testing.T) {
	l := named(`a "quoted" one`, weir.PerMinute(1, algorithm.FixedWindow))
	c := newClient(t, weir.Limits{l})
	f := func(cost int64, detail string, retry float64) {
		t.Helper()
		r, d := c.decide(cost)
		rec := httptest.NewRecorder()
		c.w.Refuse(rec, answer.OverLimit, r.Ops(), d, c.now.Load())
		var body map[string]any
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			t.Fatalf("%v: %s", err, rec.Body)
		}
		want := map[string]any{"type": answer.QuotaExceeded, "title": "Too many requests", "status": 429.0, "detail": detail,
			"violated-policies": []any{`a "quoted" one`}}
		if retry > 0 {
			want["retry_after"] = retry
		}
		if fmt.Sprint(body) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", body, want)
		}
		h := rec.Header()
		if rec.Code != 429 || h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" ||
			h.Get("Content-Length") != fmt.Sprint(rec.Body.Len()) || (h.Get("Retry-After") != "") != (retry > 0) {
			t.Errorf("got %d %v", rec.Code, h)
		}
		policies, _ := parse(t, h)
		if policies[0].(httpsfv.Item).Value != `a "quoted" one` {
			t.Errorf("the policy is named %v, which violated-policies is not", policies[0])
		}
	}
	f(2, "the request costs more than its limit can ever hold", 0)
	c.decide(1)
	f(1, `the limit a "quoted" one is exhausted; try again in 40 seconds`, 40)
	c.now.Add(39_000_000)
	f(1, `the limit a "quoted" one is exhausted; try again in 1 second`, 1)
}

// Whoever hands an answer on may know some statuses only.
func TestRefuseAs(t *testing.T) {
	c := newClient(t, weir.Limits{named("one", weir.PerMinute(1, algorithm.FixedWindow))})
	c.decide(1)
	r, d := c.decide(1)
	for _, why := range []answer.Reason{answer.OverLimit, answer.Overload} {
		rec := httptest.NewRecorder()
		c.w.RefuseAs(rec, 403, why, r.Ops(), d, c.now.Load())
		var body struct{ Status int }
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != 403 || body.Status != 403 || rec.Header().Get("Retry-After") != "40" {
			t.Errorf("got %d %v %s, %v", rec.Code, rec.Header(), rec.Body, err)
		}
	}
}

func TestProblem(t *testing.T) {
	rec := httptest.NewRecorder()
	answer.Problem{Status: 400, Detail: "no <good>", Errors: []answer.FieldError{{Detail: "is missing", Pointer: "#/a"}}, RetryAfter: 3}.Write(rec)
	const want = `{"type":"about:blank","title":"Bad Request","status":400,"code":"INVALID_ARGUMENT","detail":"no \u003cgood\u003e","errors":[{"detail":"is missing","pointer":"#/a"}],"retry_after":3}`
	if rec.Code != 400 || rec.Body.String() != want || rec.Header().Get("Retry-After") != "3" || rec.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %v %s", rec.Code, rec.Header(), rec.Body)
	}
}

func TestSeconds(t *testing.T) {
	f := func(d time.Duration, want int64) {
		t.Helper()
		if got := answer.Seconds(d); got != want {
			t.Errorf("%s: got %d, want %d", d, got, want)
		}
	}
	f(0, 1)
	f(1, 1)
	f(time.Second, 1)
	f(time.Second+1, 2)
	f(weir.Forever, math.MaxInt64/int64(time.Second)+1)
}

// FuzzHeader writes limits of any name and size, and reads them by another's
// parser: no name breaks out of its field, no number leaves its range.
func FuzzHeader(f *testing.F) {
	f.Add("permin", int64(50), int64(60_000_000), int64(0), int64(1), uint8(0))
	f.Add("a\r\nSet-Cookie: x=1", int64(weir.MaxCost), int64(1), int64(weir.MaxCost), int64(weir.MaxCost), uint8(1))
	f.Add("\"\\\x00\xff;q=1, \"b\"", int64(1), int64(weir.MaxPeriod/time.Microsecond), int64(9), int64(3), uint8(2))
	f.Add(strings.Repeat("ü\"", 200), int64(7), int64(1_000_000), int64(0), int64(8), uint8(3))
	all := []weir.Algorithm{algorithm.TokenBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.LeakyQueue}
	w, err := answer.New(answer.Options{Headers: []string{answer.IETF08, answer.IETF06, answer.XRateLimitReset}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, count, us, burst, cost int64, which uint8) {
		if us < 0 || us > int64(weir.MaxPeriod/time.Microsecond) || cost < 0 || cost > weir.MaxCost {
			return
		}
		l := &weir.Limit{Name: name, Algorithm: all[int(which)%len(all)], Count: count, Burst: burst, Period: time.Duration(us) * time.Microsecond}
		if l.Compile() != nil {
			return
		}
		store := memory.New(memory.Options{MaxBytes: 1 << 20, Now: func() int64 { return start }})
		defer store.Close()
		lim, err := weir.New(store, weir.Limits{l}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r := &weir.Request{Cost: cost, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "k", Value: "v"}}}}}
			d, err := lim.Decide(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			rec := httptest.NewRecorder()
			w.Refuse(rec, answer.OverLimit, r.Ops(), d, start)
			policies, states := parse(t, rec.Header())
			if len(policies) != 1 || len(states) != 1 {
				t.Fatalf("%q: got %v", name, rec.Header())
			}
			for k, vs := range rec.Header() {
				for _, v := range vs {
					if strings.ContainsAny(v, "\r\n\x00") {
						t.Fatalf("%s: %q", k, v)
					}
				}
			}
			var body struct {
				Violated []string `json:"violated-policies"`
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
				t.Fatalf("%v: %s", err, rec.Body)
			}
			if !d.Allowed() && (len(body.Violated) != 1 || body.Violated[0] != policies[0].(httpsfv.Item).Value) {
				t.Fatalf("violated %q, policies %v", body.Violated, policies)
			}
			if tt, ok := states[0].(httpsfv.Item).Params.Get("t"); ok && d.RetryAfter > 0 {
				if fmt.Sprint(tt) != rec.Header().Get("Retry-After") {
					t.Fatalf("t is %v, Retry-After %s", tt, rec.Header().Get("Retry-After"))
				}
			}
		}
	})
}

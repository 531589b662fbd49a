package answer_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
	"go.yaml.in/yaml/v3"
)

func newWriter(t testing.TB, opt answer.Options) *answer.Writer {
	t.Helper()
	w, err := answer.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// refusal is a decision of one window that has nothing left for wait.
func refusal(t testing.TB, wait time.Duration) ([]weir.Op, weir.Decision) {
	t.Helper()
	l := named("permin", weir.PerMinute(10, algorithm.FixedWindow))
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	d := weir.Decision{Limit: l, RetryAfter: wait, ResetAfter: max(wait, 0)}
	return []weir.Op{{Key: "ann", Limit: l, Cost: 1, Answer: weir.Answer{Decision: d}}}, d
}

func TestOptionsAreChecked(t *testing.T) {
	f := func(opt answer.Options, want string) {
		t.Helper()
		if _, err := answer.New(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", opt, err, want)
		}
	}
	rename := func(from, to string) answer.Options { return answer.Options{Names: map[string]string{from: to}} }
	f(answer.Options{Headers: []string{"ietf-09"}}, `unknown set of headers "ietf-09"`)
	f(answer.Options{Headers: []string{answer.IETF08, answer.IETF07}}, "two fields are named Ratelimit-Policy")
	f(answer.Options{Reset: "Delta"}, "epoch_ms")
	f(answer.Options{Jitter: -1}, "0 to 100")
	f(answer.Options{Jitter: 101}, "0 to 100")
	f(answer.Options{Status: 200}, "400 to 599")
	f(answer.Options{Status: 600}, "400 to 599")
	f(answer.Options{PartitionKey: make([]byte, 15)}, "at least 16")
	f(rename("X-RateLimit-Limit", ""), "is not one of a header field")
	f(rename("X-RateLimit-Limit", "a b"), "is not one of a header field")
	f(rename("X-RateLimit-Limit", "a\r\nSet-Cookie"), "is not one of a header field")
	f(rename("X-RateLimit-Limit", "x_rate"), "is not one of a header field")
	f(rename("X-RateLimit-Limit", strings.Repeat("x", 65)), "is not one of a header field")
	f(rename("X-RateLimit-Limit", "transfer-encoding"), "Transfer-Encoding for X-RateLimit-Limit has another meaning")
	f(rename("X-RateLimit-Limit", "content-md5"), "another meaning")
	f(rename("X-RateLimit-Limit", "Access-Control-Allow-Origin"), "another meaning")
	f(rename("X-RateLimit-Limit", "Retry-After"), "another meaning")
	f(rename("X-RateLimit-Limit", "x-ratelimit-remaining"), "two fields are named X-Ratelimit-Remaining")
	f(rename("X-RateLimit-Reset", "X-Reset"), "not one of the chosen sets")
	f(rename("Retry-After", "X-Retry"), "cannot be renamed")
	f(answer.Options{Names: map[string]string{"X-RateLimit-Limit": "a", "x-ratelimit-limit": "b"}}, "X-Ratelimit-Limit is given two names")
	// All at once.
	f(answer.Options{Jitter: -1, Status: 1}, "jitter")
	f(answer.Options{Jitter: -1, Status: 1}, "status")
}

// TestNames: each field of each set can have another name, whatever the case.
func TestNames(t *testing.T) {
	f := func(set, from string) {
		t.Helper()
		ops, d := refusal(t, time.Second)
		before, after := http.Header{}, http.Header{}
		newWriter(t, answer.Options{Headers: []string{set}}).Header(before, ops, d, start)
		newWriter(t, answer.Options{Headers: []string{set}, Names: map[string]string{from: "beta-LIMIT"}}).Header(after, ops, d, start)
		if len(before[http.CanonicalHeaderKey(from)]) != 1 || !slices.Equal(after["Beta-Limit"], before[http.CanonicalHeaderKey(from)]) || after.Get(from) != "" || len(after) != len(before) {
			t.Errorf("%s: got %v, want %v", from, after, before)
		}
	}
	f(answer.IETF08, "RateLimit")
	f(answer.IETF08, "ratelimit-policy")
	f(answer.IETF07, "RateLimit")
	f(answer.IETF07, "RateLimit-Policy")
	f(answer.IETF06, "RateLimit-Limit")
	f(answer.IETF06, "RateLimit-Remaining")
	f(answer.IETF06, "RateLimit-Reset")
	f(answer.XRateLimit, "X-RateLimit-Limit")
	f(answer.XRateLimit, "X-RateLimit-Remaining")
	f(answer.XRateLimit, "X-RateLimit-Retry-After")
	f(answer.XRateLimitReset, "X-RateLimit-Reset")

	// Names can be exchanged.
	h := http.Header{}
	ops, d := refusal(t, time.Second)
	newWriter(t, answer.Options{Headers: []string{answer.XRateLimit},
		Names: map[string]string{"X-RateLimit-Limit": "X-RateLimit-Remaining", "X-RateLimit-Remaining": "X-RateLimit-Limit"}}).Header(h, ops, d, start)
	if h.Get("X-RateLimit-Limit") != "0" || h.Get("X-RateLimit-Remaining") != "10" {
		t.Errorf("got %v", h)
	}
}

func TestOptionsAreYAML(t *testing.T) {
	const text = "headers: [ietf-07]\nnames: {RateLimit: Beta-RateLimit}\nreset: epoch\njitter: 10\nexpose: true\nstatus: 403\n"
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	var opt answer.Options
	if err := dec.Decode(&opt); err != nil {
		t.Fatal(err)
	}
	want := answer.Options{Headers: []string{answer.IETF07}, Names: map[string]string{"RateLimit": "Beta-RateLimit"}, Reset: answer.Epoch, Jitter: 10, Expose: true, Status: 403}
	if !reflect.DeepEqual(opt, want) {
		t.Errorf("got %+v", opt)
	}
	newWriter(t, opt)
}

// TestResetStyles: all round up, and no clock or wait leaves their range.
func TestResetStyles(t *testing.T) {
	f := func(now int64, wait time.Duration, want ...string) {
		t.Helper()
		ops, d := refusal(t, wait)
		for i, style := range answer.Styles() {
			h := http.Header{}
			newWriter(t, answer.Options{Headers: []string{answer.XRateLimitReset, answer.IETF06}, Reset: style}).Header(h, ops, d, now)
			if h.Get("X-RateLimit-Reset") != want[i] || h.Get("RateLimit-Reset") != want[i] {
				t.Errorf("%s: got %q and %q, want %q", style, h.Get("X-RateLimit-Reset"), h.Get("RateLimit-Reset"), want[i])
			}
		}
	}
	const second = 1_000_000
	f(start, time.Second, "1", "1700000001", "1700000001000", "Tue, 14 Nov 2023 22:13:21 GMT", "2023-11-14T22:13:21Z")
	f(start+1, time.Second, "1", "1700000002", "1700000001001", "Tue, 14 Nov 2023 22:13:22 GMT", "2023-11-14T22:13:22Z")
	f(start-1, 1, "1", "1700000000", "1700000000000", "Tue, 14 Nov 2023 22:13:20 GMT", "2023-11-14T22:13:20Z")
	f(start, time.Second+1, "2", "1700000002", "1700000001001", "Tue, 14 Nov 2023 22:13:22 GMT", "2023-11-14T22:13:22Z")
	f(0, time.Minute, "60", "60", "60000", "Thu, 01 Jan 1970 00:01:00 GMT", "1970-01-01T00:01:00Z")
	f(-5*second, time.Minute, "60", "60", "60000", "Thu, 01 Jan 1970 00:01:00 GMT", "1970-01-01T00:01:00Z")
	f(math.MaxInt64, weir.Forever, "9223372037", "253402300800", "253402300800000", "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59Z")
	f(start, weir.Never, "", "", "", "", "")
}

// TestJitter: what a refusal tells to wait moves by the same random part,
// upward only, and at most as far as the percentage says.
func TestJitter(t *testing.T) {
	f := func(wait time.Duration, percent int, draw func(n int64) int64, choices int64, want string) {
		t.Helper()
		ops, d := refusal(t, wait)
		drawn := int64(0)
		w := newWriter(t, answer.Options{Headers: []string{answer.IETF08, answer.XRateLimitReset}, Jitter: percent, Rand: func(n int64) int64 {
			drawn = n
			return draw(n)
		}})
		rec := httptest.NewRecorder()
		w.Refuse(rec, answer.OverLimit, ops, d, start)
		h := rec.Header()
		if drawn != choices {
			t.Errorf("%d choices, want %d", drawn, choices)
		}
		if want != "" {
			want = fmt.Sprintf(`%s %[1]s %[1]s "permin";r=0;t=%[1]s`, want)
		} else {
			want = `   "permin";r=0`
		}
		if got := fmt.Sprint(h.Get("Retry-After"), " ", h.Get("X-RateLimit-Retry-After"), " ", h.Get("X-RateLimit-Reset"), " ", h.Get("RateLimit")); got != want {
			t.Errorf("%s, %d percent: got %s, want %s", wait, percent, got, want)
		}
		var body struct {
			RetryAfter json.Number `json:"retry_after"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || body.RetryAfter.String() != h.Get("Retry-After") {
			t.Errorf("%v: %s", err, rec.Body)
		}
	}
	least := func(int64) int64 { return 0 }
	most := func(n int64) int64 { return n - 1 }
	f(40*time.Second, 0, most, 0, "40")
	f(40*time.Second, 10, least, 5, "40")
	f(40*time.Second, 10, most, 5, "44")
	f(40*time.Second, 100, most, 41, "80")
	f(time.Second, 10, most, 2, "2")
	f(time.Nanosecond, 1, most, 2, "2")
	f(weir.Never, 50, most, 0, "")
	f(weir.Forever, 100, most, 9_223_372_038, "18446744074")

	// Allowed answers are not jittered.
	h := http.Header{}
	ops, d := refusal(t, 0)
	newWriter(t, answer.Options{Jitter: 100, Rand: func(int64) int64 { t.Error("drawn"); return 0 }}).Header(h, ops, d, start)

	// Without a source of randomness there is one all the same.
	w, seen := newWriter(t, answer.Options{Jitter: 100}), make(map[string]bool)
	ops, d = refusal(t, time.Hour)
	for range 50 {
		h := http.Header{}
		w.Header(h, ops, d, start)
		seen[h.Get("Retry-After")] = true
	}
	if len(seen) < 25 {
		t.Errorf("50 refusals told %d waits", len(seen))
	}
}

// TestExpose: the list names what the writer sends, once, beside what others
// have listed.
func TestExpose(t *testing.T) {
	w := newWriter(t, answer.Options{Headers: []string{answer.XRateLimit}, Expose: true, Names: map[string]string{"X-RateLimit-Limit": "X-Max"}})
	f := func(want string, theirs ...string) {
		t.Helper()
		for _, wait := range []time.Duration{0, time.Second} {
			ops, d := refusal(t, wait)
			h := http.Header{}
			if theirs != nil {
				h["Access-Control-Expose-Headers"] = theirs
			}
			w.Header(h, ops, d, start)
			if got := h["Access-Control-Expose-Headers"]; len(got) != 1 || got[0] != want {
				t.Errorf("%q: got %q, want %q", theirs, got, want)
			}
			for key := range h {
				if key != "Access-Control-Expose-Headers" && !strings.Contains(strings.ToLower(want), strings.ToLower(key)) {
					t.Errorf("%s is sent and not in %q", key, want)
				}
			}
		}
	}
	const ours = "X-Max, X-Ratelimit-Remaining, X-Ratelimit-Retry-After, Retry-After"
	f(ours)
	f(ours, "")
	f("ETag, "+ours, "ETag")
	f("ETag, Link, "+ours, "ETag,", " Link")
	f("*, "+ours, "*")
	f("x-ratelimit-remaining , etag, X-Max, X-Ratelimit-Retry-After, Retry-After", "x-ratelimit-remaining , etag")
	f("X-Ratelimit-Remaining-Too, "+ours, "X-Ratelimit-Remaining-Too")
	f("RETRY-AFTER,X-RateLimit-Retry-After,X-RateLimit-Remaining,X-MAX", "RETRY-AFTER,X-RateLimit-Retry-After,X-RateLimit-Remaining,X-MAX")

	// One answer does not change another's list.
	a, b := http.Header{}, http.Header{}
	ops, d := refusal(t, 0)
	w.Header(a, ops, d, start)
	w.Header(b, ops, d, start)
	a.Add("Access-Control-Expose-Headers", "ETag")
	b.Add("Access-Control-Expose-Headers", "Link")
	if got := a["Access-Control-Expose-Headers"]; !slices.Equal(got, []string{ours, "ETag"}) {
		t.Errorf("got %q", got)
	}
}

// TestPartition: a pk is the HMAC of scope and key, tells counters apart and
// stays the same, also among goroutines.
func TestPartition(t *testing.T) {
	secret := []byte("0123456789abcdef")
	w := newWriter(t, answer.Options{Headers: []string{answer.IETF08}, PartitionKey: secret})
	secret[0]++ // the caller's to reuse
	pk := func(scope, key string) string {
		ops, d := refusal(t, 0)
		ops[0].Limit.Scope, ops[0].Key = scope, key
		h := http.Header{}
		w.Header(h, ops, d, start)
		policies, states := parse(t, h)
		p, _ := policies[0].(httpsfv.Item).Params.Get("pk")
		s, _ := states[0].(httpsfv.Item).Params.Get("pk")
		if !bytes.Equal(p.([]byte), s.([]byte)) {
			t.Errorf("pk differs: %v", h)
		}
		return base64.StdEncoding.EncodeToString(s.([]byte))
	}
	mac := hmac.New(sha256.New, []byte("0123456789abcdef"))
	mac.Write(append(binary.LittleEndian.AppendUint64(nil, 3), "apiann"...))
	if got, want := pk("api", "ann"), base64.StdEncoding.EncodeToString(mac.Sum(nil)[:12]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if pk("api", "ann") == pk("api", "bob") || pk("api", "ann") == pk("other", "ann") || pk("ap", "iann") == pk("api", "ann") {
		t.Error("two counters have one pk")
	}
	want := pk("api", "ann")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if got := pk("api", "ann"); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
}

// TestReasons: each has its status, type and words, and needs no ops.
func TestReasons(t *testing.T) {
	f := func(opt answer.Options, why answer.Reason, wait time.Duration, status int, retry, want string) {
		t.Helper()
		rec := httptest.NewRecorder()
		newWriter(t, opt).Refuse(rec, why, nil, weir.Decision{RetryAfter: wait}, start)
		h := rec.Header()
		if got := rec.Body.String(); rec.Code != status || got != want || !json.Valid([]byte(got)) {
			t.Errorf("got %d %s\nwant %d %s", rec.Code, got, status, want)
		}
		if h.Get("Retry-After") != retry || h.Get("X-RateLimit-Retry-After") != retry || h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "application/problem+json" || h.Get("RateLimit") != "" {
			t.Errorf("got %v", h)
		}
	}
	const types = `{"type":"https://iana.org/assignments/http-problem-types#`
	teapot := answer.Options{Status: 403}
	f(answer.Options{}, answer.OverLimit, 2*time.Second, 429, "2", types+`quota-exceeded","title":"Too many requests","status":429,"detail":"the limit is exhausted; try again in 2 seconds","violated-policies":[],"retry_after":2}`)
	f(teapot, answer.OverLimit, weir.Never, 403, "", types+`quota-exceeded","title":"Too many requests","status":403,"detail":"the request is refused, and waiting does not help","violated-policies":[]}`)
	f(teapot, answer.Overload, time.Millisecond, 503, "1", types+`temporary-reduced-capacity","title":"Temporarily reduced capacity","status":503,"detail":"the service takes fewer requests at present; try again in 1 second","violated-policies":[],"retry_after":1}`)
	f(answer.Options{}, answer.Overload, 0, 503, "1", types+`temporary-reduced-capacity","title":"Temporarily reduced capacity","status":503,"detail":"the service takes fewer requests at present; try again in 1 second","violated-policies":[],"retry_after":1}`)
	f(answer.Options{}, answer.Overload, weir.Never, 503, "", types+`temporary-reduced-capacity","title":"Temporarily reduced capacity","status":503,"detail":"the service takes fewer requests at present","violated-policies":[]}`)
	f(answer.Options{}, answer.Abuse, time.Minute, 429, "60", types+`abnormal-usage-detected","title":"Abnormal usage detected","status":429,"detail":"the requests of this client are out of the ordinary; try again in 60 seconds","violated-policies":[],"retry_after":60}`)
	f(teapot, answer.Abuse, weir.Never, 403, "", types+`abnormal-usage-detected","title":"Abnormal usage detected","status":403,"detail":"the requests of this client are out of the ordinary, and waiting does not help","violated-policies":[]}`)

	// Who sheds may name the limit.
	rec := httptest.NewRecorder()
	newWriter(t, answer.Options{}).Refuse(rec, answer.Overload, nil, weir.Decision{Limit: &weir.Limit{Name: "in flight"}, RetryAfter: 1}, start)
	if !strings.Contains(rec.Body.String(), `"violated-policies":["in flight"]`) {
		t.Errorf("got %s", rec.Body)
	}
}

// An answer that has no fields yet says the same as one that has another.
func TestBlankAnswersSayTheSame(t *testing.T) {
	for _, s := range situations(t) {
		for _, sets := range combinations {
			for _, expose := range []bool{false, true} {
				w := newWriter(t, answer.Options{Headers: sets, Expose: expose})
				blank, other := http.Header{}, http.Header{"Etag": {"1"}}
				w.Header(blank, s.ops, s.d, s.now)
				w.Header(other, s.ops, s.d, s.now)
				delete(other, "Etag")
				if got, want := fmt.Sprint(blank), fmt.Sprint(other); got != want {
					t.Errorf("%s, %v: %s\nwant %s", s.name, sets, got, want)
				}
			}
		}
	}
}

// A name is told up to 128 bytes of it, whatever is in it.
func TestLongNamesAreCut(t *testing.T) {
	f := func(name, told string) {
		t.Helper()
		l := named(name, weir.PerMinute(10, algorithm.FixedWindow))
		c := newClient(t, weir.Limits{l}, answer.IETF08)
		c.says(1, `Ratelimit-Policy: "`+told+`";q=10;w=60`, `Ratelimit: "`+told+`";r=9;t=40`)
	}
	a := strings.Repeat("a", 127)
	f(a, a)
	f(a+"b", a+"b")
	f(a+"bc", a+"b")
	f("é"+a+"b", "_"+a[:126])
}

// TestFamilyDetail: the sentence for protocols without a problem document is that of
// the document, whatever the limit is called.
func TestFamilyDetail(t *testing.T) {
	w := newWriter(t, answer.Options{})
	for _, name := range []string{"login", `a "quoted" one`, `\`, `\"`, `"\\"`, "5/minute by ip", "ünïcode", "a\x1b]0;x\a\n", strings.Repeat("long", 100)} {
		for _, wait := range []time.Duration{time.Millisecond, time.Second, 1001 * time.Millisecond, time.Hour, weir.Never} {
			ops, d := refusal(t, wait)
			ops[0].Limit.Name = name
			rec := httptest.NewRecorder()
			w.Refuse(rec, answer.OverLimit, ops, d, 0)
			var doc struct{ Detail string }
			if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
				t.Fatal(err)
			}
			if got := answer.Detail(ops, d); got != doc.Detail || wait != weir.Never && !strings.Contains(got, "the limit ") {
				t.Errorf("%q, %s: %q, the document says %q", name, wait, got, doc.Detail)
			}
		}
	}
}

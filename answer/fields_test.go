package answer_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
)

// Fields and Refusal say what Header and Refuse say, whatever the options.
func TestFieldsAreThoseOfHTTP(t *testing.T) {
	l := &weir.Limit{Name: "requests", Algorithm: algorithm.FixedWindow, Count: 10, Period: time.Minute}
	tight := &weir.Limit{Name: "logins", Algorithm: algorithm.TokenBucket, Count: 2, Period: time.Hour}
	for _, l := range []*weir.Limit{l, tight} {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	const now = 1_700_000_000_000_000
	passed := weir.Decision{Limit: l, Remaining: 9, ResetAfter: time.Minute}
	refused := weir.Decision{Limit: tight, RetryAfter: 1234 * time.Millisecond, ResetAfter: time.Hour}
	never := weir.Decision{Limit: tight, RetryAfter: weir.Never}
	op := func(d weir.Decision) weir.Op {
		return weir.Op{Key: "k", Limit: d.Limit, Cost: 1, Answer: weir.Answer{Decision: d, Now: now}}
	}
	for name, opt := range map[string]answer.Options{
		"default": {}, "all": {Headers: []string{answer.IETF08, answer.IETF06, answer.XRateLimitReset}, Names: map[string]string{"X-RateLimit-Reset": "X-Reset"}},
		"none": {Headers: []string{answer.None}}, "exposed": {Expose: true, Reset: answer.HTTPDate}, "status": {Status: 503},
		"jitter": {Jitter: 50, Rand: func(n int64) int64 { return n - 1 }}, "pk": {PartitionKey: []byte("0123456789abcdef")},
	} {
		w, err := answer.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		same := func(what string, h http.Header, fs []answer.Field) {
			t.Helper()
			got := make(http.Header)
			for _, f := range fs {
				got.Add(f.Name, string(f.Value))
			}
			h.Del("Content-Length")
			if len(got) != len(h) {
				t.Errorf("%s, %s: %v, over HTTP %v", name, what, got, h)
			}
			for k := range h {
				if got.Get(k) != h.Get(k) {
					t.Errorf("%s, %s: %s is %q, over HTTP %q", name, what, k, got.Get(k), h.Get(k))
				}
			}
		}
		for _, d := range []weir.Decision{passed, refused, {}} {
			ops := []weir.Op{op(passed), op(d)}
			if d.Limit == nil {
				ops = nil
			}
			h := make(http.Header)
			w.Header(h, ops, d, now)
			_, fs := w.Fields(nil, nil, ops, d, now)
			same("fields", h, fs)
		}
		for _, d := range []weir.Decision{refused, never, {RetryAfter: time.Second}} {
			for _, why := range []answer.Reason{answer.OverLimit, answer.Overload} {
				ops := []weir.Op{op(passed), op(d)}
				rec := httptest.NewRecorder()
				w.Refuse(rec, why, ops, d, now)
				_, fs, doc, status := w.Refusal([]byte("before"), nil, why, ops, d, now)
				same("refusal", rec.Header(), fs)
				if string(doc) != rec.Body.String() || status != rec.Code {
					t.Errorf("%s: refusal %d %s, over HTTP %d %s", name, status, doc, rec.Code, rec.Body)
				}
			}
		}
	}
}

func TestFieldsAllocateNothing(t *testing.T) {
	l := &weir.Limit{Name: "requests", Algorithm: algorithm.FixedWindow, Count: 10, Period: time.Minute}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	w, err := answer.New(answer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := weir.Decision{Limit: l, Remaining: 9, ResetAfter: time.Minute}
	ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Answer: weir.Answer{Decision: d}}}
	b, fs := make([]byte, 0, 1024), make([]answer.Field, 0, 16)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = w.Fields(b, fs, ops, d, 0)
		_, _, _, _ = w.Refusal(b, fs, answer.OverLimit, ops, weir.Decision{Limit: l, RetryAfter: 1}, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

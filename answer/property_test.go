package answer_test

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
	"pgregory.net/rapid"
)

// combinations are the choices of sets that go together.
var combinations = [][]string{
	{answer.IETF08, answer.IETF06, answer.XRateLimit, answer.XRateLimitReset, answer.None},
	{answer.IETF07, answer.IETF06, answer.XRateLimitReset}, {answer.IETF07}, {answer.IETF08}, {answer.IETF06}, {answer.XRateLimitReset}, {answer.None}, nil,
}

// drawName returns names of any bytes, and those that break fields.
func drawName(t *rapid.T) string {
	evil := rapid.SampledFrom([]string{"permin", "a\r\nSet-Cookie: x=1", `"`, `\`, "a\";q=1, \"b", "\x00\x7f", "größe", "\xff\xfe", "\u2028", "<script>", strings.Repeat("é\"", 200)})
	return rapid.OneOf(evil, rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "name")
}

// drawOps returns the ops of a decision of any kind, and the decision.
func drawOps(t *rapid.T) ([]weir.Op, weir.Decision) {
	algorithms := []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.Concurrency}
	whole := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, weir.MaxCost))
	wait := rapid.OneOf(rapid.Int64Range(1, 5_000_000_000), rapid.Int64Range(1, math.MaxInt64))
	var ops []weir.Op
	var d weir.Decision
	for range rapid.IntRange(0, 20).Draw(t, "ops") {
		l := &weir.Limit{
			Name: drawName(t), Scope: drawName(t), Algorithm: rapid.SampledFrom(algorithms).Draw(t, "algorithm"),
			Count: whole.Draw(t, "count"), Period: time.Duration(rapid.Int64Range(1, int64(weir.MaxPeriod/time.Microsecond)).Draw(t, "period")) * time.Microsecond,
		}
		if l.Compile() != nil {
			continue
		}
		o := weir.Op{Key: drawName(t), Limit: l, Cost: 1, Role: weir.Role(rapid.IntRange(int(weir.Enforce), int(weir.Deny)).Draw(t, "role"))}
		o.Decision = weir.Decision{Limit: l, Remaining: rapid.Int64Range(0, weir.MaxCost).Draw(t, "remaining"), ResetAfter: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "reset"))}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			o.Decision.RetryAfter = time.Duration(wait.Draw(t, "wait"))
		case 2:
			o.Decision.RetryAfter = weir.Never
		}
		ops = append(ops, o)
	}
	if d = weir.Fold(ops); d.Limit == nil && len(ops) > 0 && rapid.Bool().Draw(t, "of its own") {
		d = ops[0].Decision
	}
	return ops, d
}

// TestAnyAnswerIsWellFormed: whatever the limits are called and say, another's
// parser reads each field, no field ends early, and nothing points earlier
// than the truth.
func TestAnyAnswerIsWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets := rapid.SampledFrom(combinations).Draw(t, "sets")
		jitter := rapid.IntRange(0, 100).Draw(t, "jitter")
		opt := answer.Options{Headers: sets, Reset: rapid.SampledFrom(answer.Styles()).Draw(t, "style"), Jitter: jitter, Expose: rapid.Bool().Draw(t, "expose"),
			Rand: func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(t, "random") }}
		if rapid.Bool().Draw(t, "pk") {
			opt.PartitionKey = []byte("0123456789abcdef")
		}
		w, err := answer.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		now := rapid.OneOf(rapid.Just(int64(start)), rapid.Int64()).Draw(t, "now")
		ops, d := drawOps(t)
		rec := httptest.NewRecorder()
		why := rapid.SampledFrom([]answer.Reason{answer.OverLimit, answer.Overload, answer.Abuse}).Draw(t, "why")
		if !d.Allowed() && rapid.Bool().Draw(t, "sooner") {
			d.RetryAfter = 1 // what ops say is longer
		}
		refused := !d.Allowed() || rapid.Bool().Draw(t, "refused all the same")
		if refused {
			w.Refuse(rec, why, ops, d, now)
			var body struct {
				Status     int
				RetryAfter int64 `json:"retry_after"`
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || body.Status != rec.Code {
				t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
			}
			if rec.Header().Get("Retry-After") != "" && strconv.FormatInt(body.RetryAfter, 10) != rec.Header().Get("Retry-After") {
				t.Fatalf("retry_after is %d, Retry-After %q", body.RetryAfter, rec.Header().Get("Retry-After"))
			}
		} else {
			w.Header(rec.Header(), ops, d, now)
		}
		h := rec.Header()
		for key, values := range h {
			for _, v := range values {
				if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) || v == "" {
					t.Fatalf("%s: %q", key, v)
				}
			}
		}
		if sets == nil || slices.Contains(sets, answer.IETF08) {
			parseRapid(t, h)
		} else if slices.Contains(sets, answer.IETF07) {
			if _, err := httpsfv.UnmarshalDictionary(h["Ratelimit"]); err != nil {
				t.Fatalf("RateLimit %q: %v", h["Ratelimit"], err)
			}
			if _, err := httpsfv.UnmarshalList(h["Ratelimit-Policy"]); err != nil {
				t.Fatalf("RateLimit-Policy %q: %v", h["Ratelimit-Policy"], err)
			}
		}
		wait := checkWait(t, h, ops, d, refused, jitter)
		checkResets(t, h, opt.Reset, now, wait)
	})
}

// parseRapid is conforms for a list.
func parseRapid(t *rapid.T, h http.Header) {
	for _, key := range []string{"Ratelimit", "Ratelimit-Policy"} {
		l, err := httpsfv.UnmarshalList(h[key])
		if err != nil || len(l) > 16 {
			t.Fatalf("%s %q: %v", key, h[key], err)
		}
		for _, m := range l {
			if name, ok := m.(httpsfv.Item).Value.(string); !ok || len(name) > 128 {
				t.Fatalf("%s: %v", key, m)
			}
		}
	}
	retry, _ := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	states, _ := httpsfv.UnmarshalList(h["Ratelimit"])
	for _, m := range states {
		if after, ok := m.(httpsfv.Item).Params.Get("t"); ok && retry > 0 && after.(int64) > retry {
			t.Fatalf("t is %d, Retry-After %d", after, retry)
		}
	}
}

// known returns how long it is known that the refusal d stands: when what is under
// way will be done is not.
func known(ops []weir.Op, d weir.Decision) time.Duration {
	leases := func(l *weir.Limit) bool { return l != nil && l.Algorithm == algorithm.Concurrency }
	if !leases(d.Limit) {
		return d.RetryAfter
	}
	least := time.Second
	for i, o := range ops {
		elastic := i+1 < len(ops) && ops[i+1].Role == weir.Own
		if o.Role == weir.Enforce && !elastic && !leases(o.Limit) && len(ops) <= 16 {
			least = max(least, o.Decision.RetryAfter)
		}
	}
	return least
}

// checkWait checks Retry-After, and returns it, 0 for none.
func checkWait(t *rapid.T, h http.Header, ops []weir.Op, d weir.Decision, refused bool, jitter int) int64 {
	text := h.Get("Retry-After")
	if !refused || d.RetryAfter == weir.Never {
		if text != "" {
			t.Fatalf("Retry-After: %s", text)
		}
		return 0
	}
	retry, err := strconv.ParseInt(text, 10, 64)
	if least := known(ops, d); err != nil || retry < 1 || retry < answer.Seconds(least) {
		t.Fatalf("Retry-After %q for %s", text, least)
	}
	if x := h.Get("X-RateLimit-Retry-After"); x != "" && x != text {
		t.Fatalf("X-RateLimit-Retry-After is %s, Retry-After %s", x, text)
	}
	if jitter == 0 && retry > answer.Seconds(weir.Forever) {
		t.Fatalf("Retry-After %d is longer than any wait", retry)
	}
	return retry
}

// checkResets reads the resets back in their style: none is before now, nor a
// second or more after Retry-After.
func checkResets(t *rapid.T, h http.Header, style string, now, retry int64) {
	const last = 253_402_300_799
	for _, key := range []string{"RateLimit-Reset", "X-RateLimit-Reset"} {
		text := h.Get(key)
		if text == "" {
			continue
		}
		var at time.Time
		var err error
		clock := time.UnixMicro(min(max(now, 0), last*1_000_000))
		n, numErr := strconv.ParseInt(text, 10, 64)
		switch style {
		case answer.Delta:
			at, err = clock.Add(min(time.Duration(n), time.Duration(weir.Forever/time.Second)-1)*time.Second), numErr
			if n > int64(weir.Forever/time.Second) {
				continue // later than time.Duration reaches
			}
		case answer.Epoch:
			at, err = time.Unix(n, 0), numErr
		case answer.EpochMS:
			at, err = time.UnixMilli(n), numErr
		case answer.HTTPDate:
			at, err = http.ParseTime(text)
		case answer.ISO8601:
			at, err = time.Parse(time.RFC3339, text)
		}
		if err != nil || len(text) > 29 {
			t.Fatalf("%s: %q: %v", key, text, err)
		}
		if at.Before(clock.Truncate(time.Second)) && at.Unix() < last {
			t.Fatalf("%s: %s is before %s", key, text, clock)
		}
		if retry > 0 && at.Unix()-clock.Unix() > retry+1 {
			t.Fatalf("%s: %s is after Retry-After %d at %s", key, text, retry, clock)
		}
	}
}

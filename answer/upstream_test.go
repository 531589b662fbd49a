package answer_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
)

// TestUpstream: ours is 5 of 10 left, more in 40 seconds. What an upstream has
// said stands where it leaves the client less, or as much for longer.
func TestUpstream(t *testing.T) {
	c := newClient(t, weir.Limits{named("permin", weir.PerMinute(10, algorithm.FixedWindow))})
	r, d := c.decide(5)
	f := func(sets string, theirs []string, want ...string) {
		t.Helper()
		for _, style := range answer.Styles() {
			w := newWriter(t, answer.Options{Headers: strings.Fields(sets), Reset: style})
			ours := http.Header{}
			w.Header(ours, r.Ops(), d, c.now.Load())
			h := http.Header{}
			for _, line := range theirs {
				name, v, _ := strings.Cut(line, ": ")
				h.Add(name, v)
			}
			w.Header(h, r.Ops(), d, c.now.Load())
			var all []string
			for _, line := range want { // OURS stands for the value in the style at hand
				name, v, _ := strings.Cut(line, ": ")
				all = append(all, http.CanonicalHeaderKey(name)+": "+strings.Replace(v, "OURS", ours.Get(name), 1))
			}
			slices.Sort(all)
			if got := lines(h); !slices.Equal(got, all) {
				t.Errorf("%s %s beside %q: got\n  %s\nwant\n  %s", sets, style, theirs, strings.Join(got, "\n  "), strings.Join(all, "\n  "))
			}
		}
	}
	one := func(line ...string) []string { return line }

	for _, p := range []struct{ set, prefix string }{{answer.IETF06, "RateLimit"}, {answer.XRateLimitReset, "X-RateLimit"}} {
		limit, left, reset := p.prefix+"-Limit: ", p.prefix+"-Remaining: ", p.prefix+"-Reset: "
		ours := one(limit+"OURS", left+"OURS", reset+"OURS")
		f(p.set, nil, ours...)
		// Stricter, in any style.
		f(p.set, one(limit+"100", left+"4", reset+"1"), limit+"100", left+"4", reset+"1")
		f(p.set, one(limit+"100", left+"0"), limit+"100", left+"0")
		f(p.set, one(left+"4"), limit+"OURS", left+"4")
		for _, later := range []string{"41", "1700000041", "1700000040001", "Tue, 14 Nov 2023 22:14:01 GMT", "2023-11-14T22:14:01Z", "2023-11-14T23:14:01+01:00", "1700000041.5"} {
			f(p.set, one(limit+"100", left+"5", reset+later), limit+"100", left+"5", reset+later)
			f(p.set, one(reset+later), limit+"OURS", left+"OURS", reset+later)
			f(p.set, one(left+"junk", reset+later), limit+"OURS", left+"OURS", reset+later)
			f(p.set, one(limit+"100", left+"6", reset+later), ours...)
		}
		// Looser.
		for _, sooner := range []string{"40", "39", "0", "1700000040", "1700000040000", "Tue, 14 Nov 2023 22:14:00 GMT", "2023-11-14T22:14:00Z", "junk", "-1", "1e9", "9999999999999999999", "99-1", "Tue, 99 Nov"} {
			f(p.set, one(limit+"100", left+"5", reset+sooner), ours...)
			f(p.set, one(reset+sooner), ours...)
		}
		f(p.set, one(limit+"1", left+"6", reset+"41"), ours...)
		for _, junk := range []string{"", "-1", "x", "4x", "4.5", "0x1", "9999999999999", " "} {
			f(p.set, one(limit+"100", left+junk), ours...)
		}
		f(p.set, one(left+"4, 10;w=1"), limit+"OURS", left+"4, 10;w=1") // Envoy's
	}

	const (
		policy08, state08 = `RateLimit-Policy: "permin";q=10;w=60`, `RateLimit: "permin";r=5;t=40`
		policy07, state07 = `RateLimit-Policy: 10;w=60`, `RateLimit: limit=10, remaining=5, reset=40`
	)
	// Lists are added to, whatever they say.
	for _, state := range []string{`RateLimit: "app";r=3;t=9`, `RateLimit: "app";r=99`, `RateLimit: "a=b, remaining=0";r=99`, `RateLimit: app;r=1`, `RateLimit: :YQ==:;r=1`} {
		f(answer.IETF08, one(`RateLimit-Policy: "app";q=100;w=1`, state), `RateLimit-Policy: "app";q=100;w=1`, policy08, state, state08)
	}
	f(answer.IETF08, one(`RateLimit: "a";r=3`, `RateLimit: "b";r=4`), policy08, `RateLimit: "a";r=3`, `RateLimit: "b";r=4`, state08)
	f(answer.IETF08, one(`RateLimit-Policy: 100;w=60`), `RateLimit-Policy: 100;w=60`, policy08, state08)
	// A list and a dictionary cannot be one field: the stricter stands.
	f(answer.IETF08, one(`RateLimit-Policy: 100;w=60`, `RateLimit: limit=100, remaining=4, reset=5`), `RateLimit-Policy: 100;w=60`, `RateLimit: limit=100, remaining=4, reset=5`)
	f(answer.IETF08, one(`RateLimit: limit=100, remaining=5, reset=41`), `RateLimit: limit=100, remaining=5, reset=41`)
	f(answer.IETF08, one(`RateLimit-Policy: 100;w=60`, `RateLimit: limit=100, remaining=5, reset=40`), policy08, state08)
	f(answer.IETF08, one(`RateLimit: limit=100,remaining=6,reset=99`), policy08, state08)
	f(answer.IETF08, one(`RateLimit-Policy: "app";q=9`, `RateLimit: limit=100, remaining=6, reset=99`), `RateLimit-Policy: "app";q=9`, policy08, state08)
	f(answer.IETF08, one(`RateLimit: limit=100, remaining=x`), policy08, state08)
	f(answer.IETF07, one(`RateLimit-Policy: 100;w=60`, `RateLimit: limit=100, remaining=4, reset=5`), `RateLimit-Policy: 100;w=60`, policy07, `RateLimit: limit=100, remaining=4, reset=5`)
	f(answer.IETF07, one(`RateLimit-Policy: 100;w=60`, `RateLimit: limit=100, remaining=6, reset=5`), `RateLimit-Policy: 100;w=60`, policy07, state07)
	f(answer.IETF07, one(`RateLimit-Policy: "app";q=9`, `RateLimit: "ap\"p, x;r=0,";r=99, "b";r=4;t=1`), `RateLimit-Policy: "app";q=9`, `RateLimit: "ap\"p, x;r=0,";r=99, "b";r=4;t=1`)
	f(answer.IETF07, one(`RateLimit: "ap\"p, x;r=0,";r=99`), policy07, state07)
	f(answer.IETF07, one(`RateLimit: "a";r=99`, `RateLimit: "b";r=4`), `RateLimit: "a";r=99`, `RateLimit: "b";r=4`)
	f(answer.IETF07, one(`RateLimit-Policy: "app";q=9`, `RateLimit: "app";r=6;t=99`), policy07, state07)
	f(answer.IETF07, one(`RateLimit: "app";r=5;t=41`), `RateLimit: "app";r=5;t=41`)
	f(answer.IETF07, one(`RateLimit: "app";r=5;t=40`), policy07, state07)

	// Fields that are not of the chosen sets pass.
	f(answer.IETF06, one(`RateLimit: "app";r=3`, "X-RateLimit-Remaining: 99", "Retry-After: 7"),
		`RateLimit: "app";r=3`, "X-RateLimit-Remaining: 99", "Retry-After: 7", "RateLimit-Limit: OURS", "RateLimit-Remaining: OURS", "RateLimit-Reset: OURS")
	f(answer.None, one("X-RateLimit-Remaining: 99"), "X-RateLimit-Remaining: 99")
}

// TestUpstreamRetryAfter: of two refusals the longer wait is told.
func TestUpstreamRetryAfter(t *testing.T) {
	ops, d := refusal(t, 40_000_000_000)
	f := func(theirs, want string) {
		t.Helper()
		h := http.Header{"Retry-After": {theirs}, "X-Ratelimit-Retry-After": {theirs}}
		newWriter(t, answer.Options{}).Header(h, ops, d, start)
		if h.Get("Retry-After") != want || h.Get("X-RateLimit-Retry-After") != want {
			t.Errorf("%s: got %v, want %s", theirs, h, want)
		}
	}
	f("39", "40")
	f("41", "41")
	f("Tue, 14 Nov 2023 22:14:00 GMT", "40")
	f("Tue, 14 Nov 2023 22:14:01 GMT", "Tue, 14 Nov 2023 22:14:01 GMT")
	f("soon", "40")
	f("-1", "40")
}

// FuzzUpstream: whatever an upstream sends, its lists that could be read before
// can be read afterwards and hold what they held, and no remainder grows.
func FuzzUpstream(f *testing.F) {
	f.Add(`"app";r=3;t=9`, `"app";q=9`, "3", "1700000041", uint8(0))
	f.Add(`limit=1, remaining=0, reset=9`, `100;w=60`, "99", "Tue, 14 Nov 2023 22:14:01 GMT", uint8(1))
	f.Add(`"a\"b`, `;`, "-1", "2023-11-14T22:14:01Z", uint8(2))
	f.Add(`("a" "b");r=1`, `a;r`, "007", "9999999999", uint8(3))
	f.Fuzz(func(t *testing.T, state, policy, left, reset string, which uint8) {
		sets := combinations[int(which)%len(combinations)]
		w := newWriter(t, answer.Options{Headers: sets, Reset: answer.Styles()[int(which)%5], Expose: true})
		ops, d := refusal(t, 0)
		ops[0].Decision.Remaining = 5
		h := http.Header{"Ratelimit": {state}, "Ratelimit-Policy": {policy}, "X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {reset}, "Access-Control-Expose-Headers": {state}}
		w.Header(h, ops, d, start)
		_, err := httpsfv.UnmarshalList([]string{state})
		if err == nil && (sets == nil || slices.Contains(sets, answer.IETF08)) {
			for key, before := range map[string]string{"Ratelimit": state, "Ratelimit-Policy": policy} {
				if _, err := httpsfv.UnmarshalList([]string{before}); err != nil || strings.Trim(before, " ") == "" {
					continue
				}
				after, err := httpsfv.UnmarshalList(h[key])
				if err != nil || h[key][0] != before || len(after) < 2 {
					t.Fatalf("%s was %q, is %q: %v", key, before, h[key], err)
				}
			}
		}
		var was, is int64 = -1, -1
		fmt.Sscanf(left+" ", "%d ", &was)
		fmt.Sscanf(h.Get("X-RateLimit-Remaining")+" ", "%d ", &is)
		if was >= 0 && is > was && is > 5 {
			t.Fatalf("X-RateLimit-Remaining was %q, is %q", left, h.Get("X-RateLimit-Remaining"))
		}
		if lines := h["Access-Control-Expose-Headers"]; len(lines) != 1 || !strings.Contains(strings.ToLower(lines[0]), "retry-after") {
			t.Fatalf("exposed: %q", lines)
		}
	})
}

package answer_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
)

var update = flag.Bool("update", false, "rewrite testdata/answers.txt")

// situation is a decision of a real limiter.
type situation struct {
	name string
	ops  []weir.Op
	d    weir.Decision
	now  int64
}

// situations are one of each kind, a quarter of a second past a full one.
func situations(t *testing.T) []situation {
	t.Helper()
	var out []situation
	add := func(name string, rules weir.Rules, costs ...int64) {
		t.Helper()
		c := newClient(t, rules)
		c.now.Add(250_000)
		var r *weir.Request
		var d weir.Decision
		for _, cost := range costs {
			r, d = c.decide(cost)
			c.now.Add(1) // each its own lease
		}
		out = append(out, situation{name, r.Ops(), d, c.now.Load() - 1})
	}
	window := func() *weir.Limit { return named("permin", weir.PerMinute(50, algorithm.FixedWindow)) }
	bucket := named("bucket", weir.PerMinute(20, algorithm.TokenBucket))
	bucket.Burst = 5
	add("allowed", weir.Limits{window(), bucket}, 4)
	add("refused", weir.Limits{window(), bucket}, 4, 2)
	add("never", weir.Limits{window(), bucket}, 4, 6)
	slots := &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute}
	add("concurrency allowed", weir.Limits{named("slots", slots)}, 1)
	add("concurrency refused", weir.Limits{named("slots", slots), window()}, 1, 1, 1)
	elastic := named("elastic", weir.PerMinute(10, algorithm.FixedWindow))
	elastic.Mode = weir.Mode{Pool: named("pool", weir.PerMinute(100, algorithm.FixedWindow)), PoolKey: "all", Ceiling: 30}
	add("elastic borrowed", weir.Limits{elastic}, 12)
	add("elastic refused", weir.Limits{elastic}, 12, 19)
	soft := named("soft", weir.PerMinute(10, algorithm.FixedWindow))
	soft.Excess = 50
	add("soft above its threshold", weir.Limits{soft}, 12)
	add("soft refused", weir.Limits{soft}, 12, 4)
	login := named("login", weir.PerMinute(1, algorithm.FixedWindow))
	login.Ban = named("locked out", &weir.Limit{Algorithm: algorithm.Lockout, Count: 1, Period: 10 * time.Minute})
	add("ban", weir.Limits{login}, 1, 1, 1)
	denylist := named("deny list", weir.PerMinute(1, algorithm.FixedWindow))
	if err := denylist.Compile(); err != nil {
		t.Fatal(err)
	}
	add("deny", denied{denylist}, 1)
	shadow := window()
	shadow.Shadow = true
	add("shadow", weir.Limits{shadow}, 51)
	return out
}

// TestGolden writes every situation in every set and style, and compares each
// byte with testdata/answers.txt:
//
//	go test ./answer -run TestGolden -update
func TestGolden(t *testing.T) {
	const path = "testdata/answers.txt"
	var out bytes.Buffer
	for _, s := range situations(t) {
		fmt.Fprintf(&out, "# %s\n", s.name)
		for _, set := range answer.Sets() {
			for _, style := range answer.Styles() {
				hasReset := set == answer.IETF06 || set == answer.XRateLimitReset
				if !hasReset && style != answer.Delta {
					continue
				}
				title := set
				if hasReset {
					title += " " + style
				}
				fmt.Fprintf(&out, "\n%s\n", title)
				h := golden(t, &out, answer.Options{Headers: []string{set}, Reset: style}, s)
				conforms(t, set, h)
			}
		}
		fmt.Fprintf(&out, "\n%s with pk, exposed\n", answer.IETF08)
		h := golden(t, &out, answer.Options{Headers: []string{answer.IETF08}, PartitionKey: []byte("0123456789abcdef"), Expose: true}, s)
		conforms(t, answer.IETF08, h)
		if !s.d.Allowed() {
			w, err := answer.New(answer.Options{Headers: []string{answer.None}})
			if err != nil {
				t.Fatal(err)
			}
			rec := httptest.NewRecorder()
			w.Refuse(rec, answer.OverLimit, s.ops, s.d, s.now)
			fmt.Fprintf(&out, "\nbody\n  %s\n", rec.Body)
		}
		fmt.Fprintln(&out)
	}
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.Split(out.Bytes(), []byte("\n"))
	for i, line := range bytes.Split(want, []byte("\n")) {
		if i >= len(got) || !bytes.Equal(got[i], line) {
			t.Fatalf("%s:%d: want\n%s\ngot\n%s", path, i+1, line, bytes.Join(got[min(i, len(got)):min(i+3, len(got))], []byte("\n")))
		}
	}
	if len(out.Bytes()) != len(want) {
		t.Errorf("got %d bytes, want %d", out.Len(), len(want))
	}
}

// golden writes the fields of s to out, one on a line, and returns them.
func golden(t *testing.T, out *bytes.Buffer, opt answer.Options, s situation) http.Header {
	t.Helper()
	w, err := answer.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	w.Header(h, s.ops, s.d, s.now)
	for _, line := range lines(h) {
		fmt.Fprintf(out, "  %s\n", line)
	}
	return h
}

// conforms reads the fields of a set by another's parser and checks what its
// draft demands.
func conforms(t testing.TB, set string, h http.Header) {
	t.Helper()
	switch set {
	case answer.IETF08:
		parse(t, h)
		for _, key := range []string{"Ratelimit", "Ratelimit-Policy"} {
			for _, m := range list(t, h, key) {
				if k, ok := m.(httpsfv.Item).Params.Get("pk"); ok {
					if b, ok := k.([]byte); !ok || len(b) != 12 {
						t.Fatalf("%s: pk is %v", key, k)
					}
				}
			}
		}
	case answer.IETF07:
		for _, m := range list(t, h, "Ratelimit-Policy") {
			q, isInteger := m.(httpsfv.Item).Value.(int64)
			w, _ := m.(httpsfv.Item).Params.Get("w")
			if n, ok := w.(int64); !isInteger || q < 0 || !ok || n < 1 {
				t.Fatalf("RateLimit-Policy: %q", h["Ratelimit-Policy"])
			}
		}
		if len(h["Ratelimit"]) == 0 {
			return
		}
		dict, err := httpsfv.UnmarshalDictionary(h["Ratelimit"])
		if err != nil || len(dict.Names()) != 3 {
			t.Fatalf("RateLimit %q: %v", h["Ratelimit"], err)
		}
		for _, name := range []string{"limit", "remaining", "reset"} {
			m, _ := dict.Get(name)
			if i, ok := m.(httpsfv.Item); !ok || i.Value.(int64) < 0 {
				t.Fatalf("no %s in RateLimit %q", name, h["Ratelimit"])
			}
		}
	}
}

func list(t testing.TB, h http.Header, key string) httpsfv.List {
	t.Helper()
	l, err := httpsfv.UnmarshalList(h[key])
	if err != nil {
		t.Fatalf("%s %q: %v", key, h[key], err)
	}
	return l
}

package answer_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
)

// Every answer, allowed or refused, says of a decision that was made while the store
// was away that it was, in whatever set but none; and no other answer does.
func TestDegraded(t *testing.T) {
	const name = "X-RateLimit-Degraded"
	l := weir.PerMinute(5, algorithm.FixedWindow)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	for _, set := range answer.Sets() {
		w, err := answer.New(answer.Options{Headers: []string{set}})
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []weir.Source{weir.FromStore, weir.FromShare, weir.FailedOpen, weir.FailedClosed} {
			d := weir.Decision{Limit: l.From(from), Remaining: 3}
			want, fieldsWanted := "", 0
			if d.Guarantee().Degraded && set != answer.None {
				want, fieldsWanted = "true", 2
			}
			ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Answer: weir.Answer{Decision: d}}}
			h := http.Header{}
			w.Header(h, ops, d, start)
			refused := d
			refused.Remaining, refused.RetryAfter = 0, 1e9
			ops[0].Decision = refused
			rec := httptest.NewRecorder()
			w.Refuse(rec, answer.OverLimit, ops, refused, start)
			if h.Get(name) != want || rec.Header().Get(name) != want {
				t.Errorf("%s, from %s: %q when allowed, %q when refused, want %q", set, from, h.Get(name), rec.Header().Get(name), want)
			}
			_, fields, _, _ := w.Refusal(nil, nil, answer.OverLimit, ops, refused, start)
			_, fields = w.Fields(nil, fields, ops, refused, start)
			told := 0
			for _, f := range fields {
				if http.CanonicalHeaderKey(f.Name) == http.CanonicalHeaderKey(name) && string(f.Value) == want {
					told++
				}
			}
			if told != fieldsWanted {
				t.Errorf("%s, from %s: told %d times without HTTP", set, from, told)
			}
		}
	}
}

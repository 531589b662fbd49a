package answer_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
)

// A client that is banned is told so and until when, and nothing of a limit that it
// could keep: not in the document, not in header fields, in no way of writing them.
func TestBannedIsToldSo(t *testing.T) {
	limit := &weir.Limit{Name: "user (banned)", Algorithm: algorithm.FixedWindow, Count: 100, Period: time.Minute, Bans: true}
	other := &weir.Limit{Name: "day", Algorithm: algorithm.FixedWindow, Count: 1000, Period: time.Hour}
	for _, l := range []*weir.Limit{limit, other} {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	const now = 1_700_000_000_000_000
	d := weir.Decision{Limit: limit, RetryAfter: 2 * time.Hour, ResetAfter: 2 * time.Hour}
	ops := []weir.Op{
		{Limit: other, Answer: weir.Answer{Decision: weir.Decision{Limit: other, Remaining: 7}}},
		{Limit: limit, Role: weir.Deny, Answer: weir.Answer{Now: now, Decision: d}},
	}
	w, err := answer.New(answer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, text, fields string) {
		t.Helper()
		for _, want := range []string{`"detail":"banned until 2023-11-15T00:13:20Z"`, `"title":"Banned"`, `"retry_after":7200`, `"violated-policies":[]`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in %s", what, want, text)
			}
		}
		for _, not := range []string{"exhausted", "guarantee", "user", "(banned)", "at_most"} {
			if strings.Contains(text, not) || strings.Contains(fields, not) {
				t.Errorf("%s tells %s: %s\n%s", what, not, text, fields)
			}
		}
		if strings.Contains(strings.ToLower(fields), "ratelimit-policy") || strings.Contains(strings.ToLower(fields), "remaining") {
			t.Errorf("%s tells of limits: %s", what, fields)
		}
		if !strings.Contains(fields, "7200") {
			t.Errorf("%s has no Retry-After: %s", what, fields)
		}
	}
	rec := httptest.NewRecorder()
	w.Refuse(rec, answer.OverLimit, ops, d, 0)
	var fields strings.Builder
	for name, values := range rec.Header() {
		fields.WriteString(name + ": " + strings.Join(values, ",") + "\n")
	}
	check("Refuse", rec.Body.String(), fields.String())
	_, fs, doc, status := w.Refusal(nil, nil, answer.OverLimit, ops, d, 0)
	fields.Reset()
	for _, f := range fs {
		fields.WriteString(f.Name + ": " + string(f.Value) + "\n")
	}
	check("Refusal", string(doc), fields.String())
	if got := answer.Detail(ops, d); got != "banned until 2023-11-15T00:13:20Z" {
		t.Error(got)
	}
	if status != rec.Code {
		t.Errorf("status %d and %d", status, rec.Code)
	}
}

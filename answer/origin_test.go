package answer

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// Scripts of other origins see a refusal if they may; what a handler said of
// origins stands.
func TestAllowOrigin(t *testing.T) {
	refusal := weir.Decision{RetryAfter: time.Second}
	for _, c := range []struct{ allow, said, want, vary string }{
		{"", "", "[]", "[Accept-Encoding]"},
		{"*", "", "[*]", "[Accept-Encoding]"},
		{"https://app.example:8443", "", "[https://app.example:8443]", "[Accept-Encoding Origin]"},
		{"*", "https://other.example", "[https://other.example]", "[Accept-Encoding]"},
	} {
		w, err := New(Options{AllowOrigin: c.allow})
		if err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		rec.Header().Set("Vary", "Accept-Encoding")
		if c.said != "" {
			rec.Header().Set("Access-Control-Allow-Origin", c.said)
		}
		w.Refuse(rec, OverLimit, nil, refusal, 0)
		if got := fmt.Sprint(rec.Header()["Access-Control-Allow-Origin"]); got != c.want {
			t.Errorf("%+v: allowed %s", c, got)
		}
		if got := fmt.Sprint(rec.Header()["Vary"]); got != c.vary {
			t.Errorf("%+v: varies by %s", c, got)
		}
		_, fields, _, _ := w.Refusal(nil, nil, OverLimit, nil, refusal, 0)
		told := "[]"
		for _, f := range fields {
			if f.Name == "Access-Control-Allow-Origin" {
				told = fmt.Sprintf("[%s]", f.Value)
			}
		}
		if c.said == "" && told != c.want {
			t.Errorf("%+v: told as a field %s", c, told)
		}
	}
	for _, bad := range []string{"app.example", "https://", "https://app.example/", "https://a b", "null\r\nX: y", "https://user@app.example"} {
		if _, err := New(Options{AllowOrigin: bad}); err == nil || !strings.Contains(err.Error(), "origin") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

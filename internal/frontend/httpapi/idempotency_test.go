package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// keyed posts body with idempotency keys, as an operator.
func (s *server) keyed(t *testing.T, path, body string, keys ...string) (int, string) {
	t.Helper()
	res, got := exchange(t, "POST", s.URL, path, body, http.Header{"Idempotency-Key": keys, "Authorization": bearer["Authorization"]})
	return res.StatusCode, got
}

const ann = `{"descriptors":[{"entries":{"user":"ann"}}]`

// A check, a reservation and a grant under one key are charged once.
func TestIdempotencyKey(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{named("perhour", weir.PerHour(10, algorithm.FixedWindow))}, httpapi.Options{AdminToken: token})
	f := func(path, body, key, want string) {
		t.Helper()
		if status, got := srv.keyed(t, path, body, key); status != 200 && !strings.HasPrefix(want, "!") || !strings.Contains(got, strings.TrimPrefix(want, "!")) {
			t.Errorf("%s %s %s: got %d %s, want %s", path, body, key, status, got, want)
		}
	}
	left := func(want string) {
		t.Helper()
		if _, got := post(t, srv.URL, "/v1/peek", ann+`}`); !strings.Contains(got, `"remaining":`+want+`,`) {
			t.Errorf("got %s, want %s left", got, want)
		}
	}
	f("/v1/check", ann+`,"cost":4}`, `"a"`, `{"allowed":true`)
	left("6")
	f("/v1/check", ann+`,"cost":4}`, `"a"`, `"repeated":true`)
	left("6")
	f("/v1/check", ann+`,"cost":5}`, `"a"`, `!IDEMPOTENCY_MISMATCH`)
	f("/v1/reserve", ann+`,"cost":4}`, `"a"`, `!IDEMPOTENCY_MISMATCH`)
	f("/v1/peek", ann+`,"cost":4}`, `"a"`, `"allowed":true`)
	left("6")

	var first, again struct{ Handle, Expires string }
	for _, res := range []any{&first, &again} {
		status, got := srv.keyed(t, "/v1/reserve", ann+`,"cost":3}`, `"r"`)
		if err := json.Unmarshal([]byte(got), res); err != nil || status != 200 {
			t.Fatal(status, got, err)
		}
		store.Advance(time.Second)
	}
	left("3")
	if first.Handle == "" || again.Handle == "" || first.Expires != again.Expires {
		t.Errorf("%+v, then %+v", first, again)
	}
	for _, h := range []string{again.Handle, first.Handle} {
		if status, got := post(t, srv.URL, "/v1/commit", `{"handle":"`+h+`","actual":1}`); status != 200 || got != `{"reserved":3,"actual":1}` {
			t.Errorf("got %d %s", status, got)
		}
	}
	left("5")

	f("/v1/admin/grant", ann+`,"units":2}`, `"g"`, `"remaining":7`)
	f("/v1/admin/grant", ann+`,"units":2}`, `"g"`, `"repeated":true`)
	f("/v1/admin/grant", ann+`,"units":1}`, `"g"`, `!IDEMPOTENCY_MISMATCH`)
	left("7")

	f("/shouldAllowRequest", `{"clientId":"7"}`, `"s"`, `{"allowed":true}`)
	f("/shouldAllowRequest", `{"clientId":"7"}`, `"s"`, `{"allowed":true}`)
	if _, got := post(t, srv.URL, "/v1/peek", `{"descriptors":[{"entries":{"client_id":"7"}}]}`); !strings.Contains(got, `"remaining":9,`) {
		t.Errorf("got %s", got)
	}
	store.Advance(once.Life)
	f("/v1/check", ann+`,"cost":5}`, `"a"`, `"remaining":5`) // the key is forgotten, and the window over
}

func TestBadIdempotencyKeys(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{weir.PerHour(10, algorithm.FixedWindow)}, httpapi.Options{AdminToken: token})
	f := func(path, body, detail string, keys ...string) {
		t.Helper()
		status, got := srv.keyed(t, path, body, keys...)
		var p struct {
			Code   string
			Errors []struct{ Header, Detail string }
		}
		if err := json.Unmarshal([]byte(got), &p); err != nil || status != 400 || p.Code != "INVALID_ARGUMENT" || len(p.Errors) != 1 ||
			p.Errors[0].Header != "Idempotency-Key" || !strings.Contains(p.Errors[0].Detail, detail) {
			t.Errorf("%q: got %d %s, want %s", keys, status, got, detail)
		}
	}
	f("/v1/check", ann+`}`, "in quotes", `a`)
	f("/v1/check", ann+`}`, "in quotes", `:YQ==:`)
	f("/v1/check", ann+`}`, "in quotes", ``)
	f("/v1/check", ann+`}`, "no quote at its end", `"a`)
	f("/v1/check", ann+`}`, `has a \`, `"a\b"`)
	f("/v1/check", ann+`}`, `has a \`, `"a\`)
	f("/v1/check", ann+`}`, "behind the quotes", `"a";b=1`)
	f("/v1/check", ann+`}`, "ASCII", `"é"`)
	f("/v1/check", ann+`}`, "from 1 to 256", `""`)
	f("/v1/check", ann+`}`, "from 1 to 256", `"`+strings.Repeat("k", 257)+`"`)
	f("/v1/check", ann+`}`, "there twice", `"a"`, `"b"`)
	f("/v1/check", `{"checks":[`+ann+`}]}`, "one check", `"a"`)
	f("/v1/acquire", ann+`}`, "lease", `"a"`)
	f("/shouldAllowRequest", `{"clientId":"7"}`, "in quotes", `a`)
	if _, got := post(t, srv.URL, "/v1/peek", ann+`}`); !strings.Contains(got, `"remaining":10,`) {
		t.Errorf("something was charged: %s", got)
	}
}

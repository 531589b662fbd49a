package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

func TestShouldAllowRequest(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{weir.PerMinute(2, algorithm.FixedWindow)}, httpapi.Options{})
	url, path := srv.URL, "/shouldAllowRequest"
	ask := func(body, want string) {
		t.Helper()
		status, got := post(t, url, path, body)
		if status != 200 || got != want {
			t.Errorf("%s: got %d %s, want 200 %s", body, status, got, want)
		}
	}
	const yes, no = `{"allowed":true}`, `{"allowed":false}`
	ask(`{"clientId":"123","timestamp":"2023-07-13T07:20:50.52Z"}`, yes)
	ask(` { "timestamp" : null , "clientId" : "\u0031\u00323" } `, yes)
	ask(`{"clientId":"123"}`, no)
	ask(`{"clientId":"124"}`, yes)
	// The client's own time moves nothing.
	ask(`{"clientId":"123","timestamp":"2043-07-13T07:20:50.52Z"}`, no)
	store.Advance(time.Minute)
	ask(`{"clientId":"123"}`, yes)
}

func TestShouldAllowRequestBadInput(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{weir.PerMinute(1, algorithm.FixedWindow)}, httpapi.Options{})
	url, path := srv.URL, "/shouldAllowRequest"
	f := func(body string, status int, pointer, detail string) {
		t.Helper()
		got, answer := post(t, url, path, body)
		var p struct {
			Type, Title, Detail string
			Status              int
			Errors              []struct{ Pointer, Detail string }
		}
		if err := json.Unmarshal([]byte(answer), &p); err != nil {
			t.Fatalf("%.80s: %v in %s", body, err, answer)
		}
		if got != status || p.Status != status || p.Type != "about:blank" ||
			p.Title != http.StatusText(status) || len(p.Errors) != 1 || p.Errors[0].Pointer != pointer ||
			!strings.Contains(p.Errors[0].Detail, detail) {
			t.Errorf("%.80s: got %d %s, want %d at %s: %s", body, got, answer, status, pointer, detail)
		}
	}
	f(``, 400, "#", "want an object at byte 0, got the end of the body")
	f(`[]`, 400, "#", "must be an object, is an array")
	f(`null`, 400, "#", "must be an object, is null")
	f(`{}`, 400, "#/clientId", "missing")
	f(`{"clientId":""}`, 400, "#/clientId", "must not be empty")
	f(`{"clientId":null}`, 400, "#/clientId", "must be a string, is null")
	f(`{"clientId":12}`, 400, "#/clientId", "must be a string, is a number")
	f(`{"clientId":"`+strings.Repeat("x", 1025)+`"}`, 400, "#/clientId", "at most 1024 bytes")
	f(`{"clientId":"a","clientId":"b"}`, 400, "#/clientId", "twice")
	f(`{"clientID":"a"}`, 400, "#/clientID", "unknown field; known are clientId and timestamp")
	f(`{"clientId":"a","a/b~ü":1}`, 400, "#/a~1b~0%C3%BC", "unknown")
	f(`{"clientId":"a"} x`, 400, "#", "want nothing more at byte 17")
	f(`{"clientId":"a",}`, 400, "#", "want a member's name")
	f(`{"clientId":"\ud800"}`, 400, "#/clientId", "surrogate")
	f("{\"clientId\":\"\xff\"}", 400, "#/clientId", "UTF-8")
	f("{\"clientId\":\"a\nb\"}", 400, "#/clientId", "control character")
	f(`{"clientId":"a","timestamp":"yesterday"}`, 400, "#/timestamp", "RFC 3339")
	f(`{"clientId":"a","timestamp":"2023-02-29T00:00:00Z"}`, 400, "#/timestamp", "RFC 3339")
	f(`{"clientId":"a","timestamp":1689232850}`, 400, "#/timestamp", "must be a string, is a number")
	f(`{"clientId":"`+strings.Repeat("x", 70<<10)+`"}`, 413, "#", "too large")
	if store.Stats().Keys != 0 {
		t.Errorf("bad input was counted: %d keys", store.Stats().Keys)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	srv := serve(t, clocked.New(t), weir.Limits{}, httpapi.Options{})
	res, _ := exchange(t, "GET", srv.URL, "/shouldAllowRequest", "", nil)
	if res.StatusCode != 405 || res.Header.Get("Allow") != "POST" || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("GET: got %d %v", res.StatusCode, res.Header)
	}
	if status, _ := post(t, srv.URL, "/nowhere", "{}"); status != 404 {
		t.Errorf("unknown path: got %d", status)
	}
}

func TestStoreError(t *testing.T) {
	store := clocked.New(t)
	store.Fail = errors.New("disk on fire")
	srv := serve(t, store, weir.Limits{weir.PerMinute(1, algorithm.FixedWindow)}, httpapi.Options{})
	status, body := post(t, srv.URL, "/shouldAllowRequest", `{"clientId":"a"}`)
	if status != 503 || strings.Contains(body, "fire") {
		t.Errorf("got %d %s, want 503 and nothing of the store's words", status, body)
	}
}

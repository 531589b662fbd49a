package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

func TestLeases(t *testing.T) {
	store := clocked.New(t)
	conc := named("conc", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute})
	srv := serve(t, store, weir.Limits{conc}, httpapi.Options{})
	acquire := func(lease string, want bool) string {
		t.Helper()
		status, got := post(t, srv.URL, "/v1/acquire", `{"descriptors":[{"entries":{"user":"ann"}}]`+lease+`}`)
		var answer struct {
			Allowed bool
			Lease   string
		}
		if err := json.Unmarshal([]byte(got), &answer); err != nil || status != 200 || answer.Allowed != want || (answer.Lease != "") != want {
			t.Fatalf("got %d %s, want allowed %t (%v)", status, got, want, err)
		}
		return answer.Lease
	}
	release := func(user, lease, want string) {
		t.Helper()
		status, got := post(t, srv.URL, "/v1/release", `{"descriptors":[{"entries":{"user":"`+user+`"}}],"lease":"`+lease+`"}`)
		if status != 200 || got != `{"released":`+want+`}` {
			t.Fatalf("release of %s by %s: %d %s, want %s", lease, user, status, got, want)
		}
	}
	mine := acquire(`,"lease":"mine"`, true)
	if again := acquire(`,"lease":"mine"`, true); again != mine {
		t.Errorf("the lease is %q, and again %q", mine, again)
	}
	acquire(`,"lease":"`+mine+`"`, true) // is it too
	made := acquire("", true)
	if len(made) < 20 {
		t.Errorf("a lease of %q is easily guessed", made)
	}
	acquire("", false)
	release("bob", "mine", "false") // of another key
	release("ann", "other", "false")
	release("bob", made, "true") // the lease knows better
	release("ann", made, "false")
	acquire(`,"lease":"other"`, true)
	acquire("", false)
	store.Advance(time.Minute)
	acquire("", true)

	rejected(t, srv.URL, "/v1/release", `{"descriptors":[{"entries":{"user":"ann"}}]}`, 400, "#/lease", "is missing")
	rejected(t, srv.URL, "/v1/release", `{"descriptors":[{"entries":{"user":"ann"}}],"lease":null}`, 400, "#/lease", "is missing")
	rejected(t, srv.URL, "/v1/acquire", `{"descriptors":[{"entries":{"user":"ann"}}],"cost":0}`, 400, "#/cost", "at least 1")
	rejected(t, srv.URL, "/v1/acquire", `{"descriptors":[{"entries":{"user":"ann"}}],"peek":true}`, 400, "#/peek", "unknown")
	rejected(t, srv.URL, "/v1/check", `{"descriptors":[{"entries":{"user":"ann"}}]}`, 400, "#/lease", "/v1/acquire")
	rejected(t, srv.URL, "/shouldAllowRequest", `{"clientId":"ann"}`, 400, "#/lease", "/v1/acquire")
}

// What was acquired is renewed and released by its lease alone, whatever it was that it was
// acquired by, and who names a lease can give all of it.
func TestALeaseAlone(t *testing.T) {
	store := clocked.New(t)
	places := named("places", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 5, Period: time.Minute})
	calls := named("calls", weir.PerDay(100, algorithm.FixedWindow))
	srv := serve(t, store, weir.Limits{places, calls}, httpapi.Options{})
	ask := func(path, body, want string) (lease string) {
		t.Helper()
		status, got := post(t, srv.URL, path, body)
		var answer struct{ Lease string }
		if err := json.Unmarshal([]byte(got), &answer); err != nil || status != 200 || !strings.Contains(got, want) {
			t.Fatalf("%s %s: got %d %s, want %s (%v)", path, body, status, got, want, err)
		}
		return answer.Lease
	}
	const acquired = `{"domain":"shop","descriptors":[{"entries":{"user":"ann"},"cost":5}],"cost":3`
	lease := ask("/v1/acquire", acquired+`}`, `"allowed":true`)
	ask("/v1/peek", acquired+`,"lease":"x"}`, `"count":5,"burst":5,"period":60,"algorithm":"concurrency"},"remaining":0,`)
	for range 3 { // past the period: it is kept
		store.Advance(40 * time.Second)
		ask("/v1/renew", `{"lease":"`+lease+`"}`, `"allowed":true`)
	}
	ask("/v1/release", `{"lease":"`+lease+`"}`, `{"released":true}`)
	ask("/v1/release", `{"lease":"`+lease+`"}`, `{"released":false}`)
	ask("/v1/peek", `{"domain":"shop","descriptors":[{"entries":{"user":"ann"}}],"lease":"x"}`, `"name":"calls","count":100,"burst":100,"period":86400,"algorithm":"fixed_window"},"role":"enforce","cost":1,"allowed":true,"charged":false,"remaining":95,`)
	ask("/v1/renew", `{"lease":"`+lease+`"}`, `"allowed":true`) // there is room
	other := ask("/v1/acquire", `{"descriptors":[{"entries":{"user":"bob"}}],"lease":"job 7"}`, `"allowed":true`)
	ask("/v1/renew", `{"descriptors":[{"entries":{"user":"bob"}}],"lease":"job 7"}`, `"allowed":true`)
	ask("/v1/release", `{"lease":"`+other+`"}`, `{"released":true}`)
	ask("/v1/release", `{"descriptors":[{"entries":{"user":"bob"}}],"lease":"job 7"}`, `{"released":false}`)

	rejected(t, srv.URL, "/v1/release", `{"lease":"job 7"}`, 400, "#/descriptors", "is missing: a lease that its client named")
	rejected(t, srv.URL, "/v1/renew", `{"lease":"job 7"}`, 400, "#/descriptors", "is missing: a lease that its client named")
	rejected(t, srv.URL, "/v1/renew", `{"descriptors":[{"entries":{"user":"bob"}}]}`, 400, "#/lease", "is missing")
	rejected(t, srv.URL, "/v1/release", `{"lease":"`+lease[:len(lease)-4]+`"}`, 400, "#/descriptors", "is missing")
	rejected(t, srv.URL, "/v1/release", `{"lease":"`+strings.Repeat("x", 300)+`"}`, 400, "#/lease", "at most 256 bytes, has 300")
	rejected(t, srv.URL, "/v1/release", `{"lease":"`+strings.Repeat("x", 9000)+`"}`, 400, "#/lease", "at most 8192 bytes")
}

func TestReservations(t *testing.T) {
	store := clocked.New(t)
	srv := serve(t, store, weir.Limits{named("tokens", weir.PerDay(1000, algorithm.FixedWindow))}, httpapi.Options{})
	reserve := func(cost int) (handle string) {
		t.Helper()
		status, got := post(t, srv.URL, "/v1/reserve", fmt.Sprintf(`{"descriptors":[{"entries":{"user":"ann"}}],"cost":%d}`, cost))
		var answer struct {
			Allowed         bool
			Handle, Expires string
		}
		if err := json.Unmarshal([]byte(got), &answer); err != nil || status != 200 || answer.Allowed != (answer.Handle != "") {
			t.Fatalf("got %d %s", status, got)
		}
		if want := "2023-11-14T22:23:20Z"; answer.Allowed && answer.Expires != want {
			t.Errorf("expires %s, want %s", answer.Expires, want)
		}
		return answer.Handle
	}
	left := func(want int) {
		t.Helper()
		_, got := post(t, srv.URL, "/v1/peek", `{"descriptors":[{"entries":{"user":"ann"}}]}`)
		if !strings.Contains(got, fmt.Sprintf(`"remaining":%d,`, want)) {
			t.Errorf("got %s, want %d remaining", got, want)
		}
	}
	h := reserve(600)
	if reserve(500) != "" {
		t.Error("what was reserved was promised twice")
	}
	status, got := post(t, srv.URL, "/v1/commit", `{"handle":"`+h+`","actual":100}`)
	if status != 200 || got != `{"reserved":600,"actual":100}` {
		t.Errorf("commit: got %d %s", status, got)
	}
	left(900)
	if status, got := post(t, srv.URL, "/v1/commit", `{"handle":"`+h+`","actual":100}`); status != 200 || got != `{"reserved":600,"actual":100}` {
		t.Errorf("the same commit again: got %d %s", status, got)
	}
	rejected(t, srv.URL, "/v1/commit", `{"handle":"`+h+`","actual":101}`, 409, "", "settled before, with 100")
	rejected(t, srv.URL, "/v1/cancel", `{"handle":"`+h+`"}`, 409, "", "settled before")
	h = reserve(500)
	status, got = post(t, srv.URL, "/v1/cancel", `{"handle":"`+h+`"}`)
	if status != 200 || got != `{"reserved":500,"actual":0}` {
		t.Errorf("cancel: got %d %s", status, got)
	}
	left(900)
	h = reserve(500)
	store.Advance(10 * time.Minute)
	rejected(t, srv.URL, "/v1/commit", `{"handle":"`+h+`","actual":1}`, 410, "", "expired")
	left(400)

	rejected(t, srv.URL, "/v1/commit", `{"handle":"`+h[1:]+`","actual":1}`, 400, "#/handle", "not a handle")
	rejected(t, srv.URL, "/v1/commit", `{"handle":"`+strings.Repeat("x", 9000)+`","actual":1}`, 400, "#/handle", "at most 8192")
	rejected(t, srv.URL, "/v1/commit", `{"handle":"x"}`, 400, "#/actual", "is missing")
	rejected(t, srv.URL, "/v1/commit", `{"actual":1}`, 400, "#/handle", "is missing")
	rejected(t, srv.URL, "/v1/commit", `{"handle":"x","actual":-1}`, 400, "#/actual", "from 0")
	rejected(t, srv.URL, "/v1/cancel", `{"handle":"x","actual":1}`, 400, "#/actual", "known are handle")
	rejected(t, srv.URL, "/v1/reserve", `{"descriptors":[{"entries":{"user":"ann"}}],"cost":0}`, 400, "#/cost", "at least 1")
	rejected(t, srv.URL, "/v1/reserve", `{"descriptors":[{"entries":{"user":"ann"}}],"lease":"x"}`, 400, "#/lease", "unknown")
	store.Fail = errors.New("disk on fire")
	rejected(t, srv.URL, "/v1/reserve", `{"descriptors":[{"entries":{"user":"ann"}}]}`, 503, "", "store")
}

func TestReservationsThatCannotBe(t *testing.T) {
	f := func(a weir.Algorithm, detail string) {
		t.Helper()
		srv := serve(t, clocked.New(t), weir.Limits{named("l", weir.PerMinute(1, a))}, httpapi.Options{})
		rejected(t, srv.URL, "/v1/reserve", `{"descriptors":[{"entries":{"user":"ann"}}]}`, 422, "", detail)
	}
	f(algorithm.LeakyQueue, "is a queue")
	f(algorithm.Approximate, "is approximate")
	f(algorithm.Concurrency, "acquire and release")
}

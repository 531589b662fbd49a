package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/witness"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// What the transport sends ends with the answer's body, and is told once.
func TestTransportTellsResults(t *testing.T) {
	seen := witness.New()
	lim, err := weir.New(clocked.New(t), weir.Limits{weir.PerMinute(10, algorithm.FixedWindow)}, weir.Options{Observers: []weir.Observer{seen}})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		if got := seen.Notes(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	do := func(ctx context.Context, base trip) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, "GET", "http://api.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		return transport(t, lim, base, httplimit.TransportOptions{}).RoundTrip(r)
	}
	res, err := do(t.Context(), func(r *http.Request) (*http.Response, error) { return answers(r, 404, "not here") })
	if err != nil {
		t.Fatal(err)
	}
	expect("allowed: unknown")
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	expect("ended: 404: unknown")

	failed := errors.New("no route")
	if _, err = do(t.Context(), func(*http.Request) (*http.Response, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	expect("allowed: unknown", "ended: 0: unknown")

	ctx, cancel := context.WithCancel(t.Context())
	if _, err = do(ctx, func(*http.Request) (*http.Response, error) { cancel(); return nil, ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	expect("allowed: unknown", "ended: 499: unknown")
}

// Of what passed because the store gave no decision nothing is told at the end.
func TestUndecidedHasNoResult(t *testing.T) {
	seen := witness.New()
	store := clocked.New(t)
	store.Fail = errors.New("away")
	lim, err := weir.New(store, weir.Limits{weir.PerMinute(10, algorithm.FixedWindow)}, weir.Options{Observers: []weir.Observer{seen}})
	if err != nil {
		t.Fatal(err)
	}
	tr := transport(t, lim, ok, httplimit.TransportOptions{OnError: func(*http.Request, error) error { return nil }})
	if _, err := send(t, tr, "http://api.example/"); err != nil {
		t.Fatal(err)
	}
	if got := seen.Notes(); !slices.Equal(got, []string{"failed: unknown"}) {
		t.Errorf("told %q", got)
	}
}

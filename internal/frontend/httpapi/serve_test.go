package httpapi_test

import (
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/reserve"
)

// server is an API on a loopback port.
type server struct {
	*httptest.Server
	api *httpapi.API
	lim *weir.Limiter
}

// serve starts the API with all its parts.
func serve(t *testing.T, store weir.Store, limits weir.Limits, opt httpapi.Options) *server {
	t.Helper()
	for _, l := range limits {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	return serveRules(t, store, limits, opt)
}

// serveRules is serve with rules whose limits are compiled.
func serveRules(t *testing.T, store weir.Store, rules weir.Rules, opt httpapi.Options) *server {
	t.Helper()
	board, ok := store.(documents.Board)
	if !ok {
		board = clocked.New(t)
	}
	laid := overlay.Options{Rules: rules, Board: board, Node: "n1"}
	if own, ok := rules.(weir.Limits); ok {
		laid.Limits = func() []*limits.Limit { return rulesOf(own) }
	}
	if c, ok := store.(*clocked.Store); ok {
		laid.Now = c.Now.Load
	}
	over, err := overlay.New(t.Context(), laid)
	if err != nil {
		t.Fatal(err)
	}
	lim, err := weir.New(store, over, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := reserve.New(lim, reserve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opt.Limiter, opt.Overlay, opt.Reserver = lim, over, res
	opt.Keyring, _ = store.(httpapi.Keyring)
	if opt.Rulebook == nil {
		opt.Rulebook = book{}
	}
	api, err := httpapi.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(api)
	t.Cleanup(srv.Close)
	return &server{srv, api, lim}
}

// rulesOf are limits as those of rules whose words are their algorithms.
func rulesOf(own weir.Limits) []*limits.Limit {
	var out []*limits.Limit
	for _, l := range own {
		out = append(out, &limits.Limit{Limit: l, Rule: &limits.Rule{Domain: "api", Path: l.Algorithm.Name(), File: "rules.yaml"}})
	}
	return out
}

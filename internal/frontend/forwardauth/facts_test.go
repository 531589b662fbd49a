package forwardauth_test

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/forwardauth"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/witness"
)

// Observers are told of the request that the proxy asks about.
func TestFacts(t *testing.T) {
	seen := witness.New()
	d := open(t, ten(), func(o *forwardauth.Options) {
		lim, err := weir.New(clocked.New(t), weir.Limits{ten()}, weir.Options{Observers: []weir.Observer{seen}})
		if err != nil {
			t.Fatal(err)
		}
		o.Authorize.Limiter = lim
	})
	rec := d.ask("10.1.2.3", "GET", "/auth", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/orders?id=7", "X-Forwarded-Host", "Shop.example",
		"User-Agent", "curl/8")
	if got, want := seen.Notes(), []string{"allowed: 203.0.113.7 POST shop.example /orders   curl/8"}; rec.Code != 200 || !slices.Equal(got, want) {
		t.Errorf("%d, told %q, want %q", rec.Code, got, want)
	}
}

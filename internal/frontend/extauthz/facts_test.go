package extauthz_test

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/extauthz"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/witness"
)

// Observers are told of the request that Envoy asks about.
func TestFacts(t *testing.T) {
	seen := witness.New()
	d := build(t, weir.PerHour(10, algorithm.FixedWindow), func(o *extauthz.Options) {
		lim, err := weir.New(clocked.New(t), weir.Limits{weir.PerHour(10, algorithm.FixedWindow)}, weir.Options{Observers: []weir.Observer{seen}})
		if err != nil {
			t.Fatal(err)
		}
		o.Authorize.Limiter = lim
	})
	in := recorded(t, "behind_balancer")
	if _, err := d.svc.Check(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if got, want := seen.Notes(), []string{"allowed: 203.0.113.7 GET shop.example /x   "}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

package rls_test

import (
	"slices"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/rls"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/witness"
)

// Observers are told of a client what the descriptors say of it.
func TestFacts(t *testing.T) {
	seen := witness.New()
	lim, err := weir.New(clocked.New(t), weir.Limits{weir.PerMinute(9, algorithm.FixedWindow)}, weir.Options{Observers: []weir.Observer{seen}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rls.New(rls.Options{Limiter: lim})
	if err != nil {
		t.Fatal(err)
	}
	client := rlspb.NewRateLimitServiceClient(serve(t, s))
	const words = "remote_address=203.0.113.7,user=ann"
	if _, err := client.ShouldRateLimit(t.Context(), question(t, words)); err != nil {
		t.Fatal(err)
	}
	if got, want := seen.Notes(), []string{"allowed: 203.0.113.7    ann  "}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

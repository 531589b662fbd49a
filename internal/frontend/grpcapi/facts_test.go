package grpcapi_test

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/grpcapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/witness"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// Observers are told of a client what the descriptors say of it, one by one and in
// a batch.
func TestFacts(t *testing.T) {
	seen := witness.New()
	lim, err := weir.New(clocked.New(t), weir.Limits{weir.PerMinute(9, algorithm.FixedWindow)}, weir.Options{Observers: []weir.Observer{seen}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := grpcapi.New(grpcapi.Options{Limiter: lim})
	if err != nil {
		t.Fatal(err)
	}
	client := weirpb.NewLimitServiceClient(serve(t, s))
	check := func(user string) *weirpb.CheckRequest {
		return &weirpb.CheckRequest{Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "user", Value: user}, {Key: "remote_address", Value: "203.0.113.7"}}}}}
	}
	if _, err := client.Check(t.Context(), check("ann")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CheckBatch(t.Context(), &weirpb.CheckBatchRequest{Checks: []*weirpb.CheckRequest{check("bob"), check("eve")}}); err != nil {
		t.Fatal(err)
	}
	if got, want := seen.Notes(), []string{"allowed: 203.0.113.7    ann  ", "allowed: 203.0.113.7    bob  ", "allowed: 203.0.113.7    eve  "}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

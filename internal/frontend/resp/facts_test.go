package resp

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/witness"
)

// Observers hear of every decision, and of a client what the entries of WEIR.CHECK
// say of it.
func TestObserversHear(t *testing.T) {
	seen := witness.New()
	b := newBench(t, Options{})
	lim, err := weir.New(b.store, byDomain{"api": b.limiterLimits()}, weir.Options{Observers: []weir.Observer{seen}})
	if err != nil {
		t.Fatal(err)
	}
	c := newBench(t, Options{Limiter: lim}).dial(t)
	c.do("WEIR.CHECK", "api", "user", "ann", "remote_address", "203.0.113.7")
	c.do("CL.THROTTLE", "k", "0", "1", "60")
	c.do("CL.THROTTLE", "k", "0", "1", "60")
	if got, want := seen.Notes(), []string{"allowed: 203.0.113.7    ann  ", "allowed: unknown", "refused: unknown"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

package limits_test

import (
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
)

// A layer that two sets share is in use while the later one is made: its limits are not
// written. Of a limit that is made anew the counts go on.
func TestInheritWritesNothingInUse(t *testing.T) {
	layerOf := func(domain string) *limits.Layer {
		l := &limits.Limit{Limit: &weir.Limit{Name: "l", Scope: domain, Algorithm: algorithm.FixedWindow, Count: 5, Period: 1e9}}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		l.Rule = &limits.Rule{Domain: domain, Path: "user", Key: "user", Keys: []string{"user"}, Limits: []*limits.Limit{l}}
		layer, err := limits.NewLayer(limits.Domain{Name: domain, Rules: []*limits.Rule{l.Rule}})
		if err != nil {
			t.Fatal(err)
		}
		return layer
	}
	shared := layerOf("configuration")
	old := limits.NewSet(shared, layerOf("file"))
	var reading sync.WaitGroup
	defer reading.Wait()
	begun := make(chan struct{})
	reading.Go(func() {
		close(begun)
		for range 1000 {
			for _, l := range old.Limits() {
				l.Counters().Add(weir.Allowed)
			}
		}
	})
	<-begun
	next := limits.NewSet(shared, layerOf("file"))
	next.Inherit(old)
	for i, l := range next.Limits() {
		if l.Counters() != old.Limits()[i].Counters() {
			t.Errorf("the counts of %s begin anew", l.Scope)
		}
	}
}

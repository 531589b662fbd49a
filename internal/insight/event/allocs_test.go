//go:build !race

// sync.Pool drops at random under the race detector.

package event

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

// Neither a decision that is told with all that is known nor how a request ended
// costs an allocation.
func TestHearingDoesNotAllocate(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	o, err := New(Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return nil }, Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	lim, err := weir.New(s, weir.Limits{weir.PerDay(600, algorithm.TokenBucket)}, weir.Options{Observers: []weir.Observer{o}})
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	hr := httptest.NewRequest("POST", "/a/../b?c=d", nil) // a path that is made canonical
	hr.RemoteAddr = "203.0.113.7:4711"
	// Names that come one after the other are found out anew.
	agents := make([]string, 2000)
	for i := range agents {
		agents[i] = fmt.Sprint("Mozilla/5.0 (compatible; Googlebot/2.1) ", i)
	}
	i := 0
	decide := func(end bool) {
		hr.Header["User-Agent"] = agents[i : i+1]
		i++
		c := who.Acquire()
		c.SetHTTP(hr)
		r := lim.Acquire()
		r.Facts = c.Facts()
		if err := plan.Fill(r, c); err != nil {
			t.Fatal(err)
		}
		if _, err := lim.Decide(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if end {
			lim.End(r, weir.Result{Code: 200, Duration: 1})
		}
		lim.Recycle(r)
		c.Release()
	}
	for _, c := range []struct {
		name string
		end  bool
	}{{"allowed", true}, {"refused", false}} {
		tail := o.ring.tail.Load()
		if n := testing.AllocsPerRun(500, func() { decide(c.end) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
		want := uint64(501)
		if c.end {
			want *= 2
		}
		if told := o.ring.tail.Load() - tail; told != want || o.Loss() != (Loss{}) {
			t.Errorf("%s: %d told, want %d, lost %+v", c.name, told, want, o.Loss())
		}
	}
}

package identity_test

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
)

// TestPriorityOfARoute: its requests carry it, those of others what they had.
func TestPriorityOfARoute(t *testing.T) {
	r, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	routes, err := r.Routes([]identity.Route{{Path: "/export/*", Priority: 3}, {}})
	if err != nil {
		t.Fatal(err)
	}
	f := func(target string, want int) {
		t.Helper()
		c := r.Acquire()
		defer c.Release()
		c.SetHTTP(read(t, "192.0.2.1:1", "GET "+target+" HTTP/1.1\nHost: a"))
		req := weir.Request{Priority: 1}
		if err := routes.Plan(routes.Find(c)).Fill(&req, c); err != nil {
			t.Fatal(err)
		}
		if req.Priority != want {
			t.Errorf("%s: priority %d, want %d", target, req.Priority, want)
		}
	}
	f("/export/all", 3)
	f("/", 1)
}

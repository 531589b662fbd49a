package gateway

import (
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
)

// Asked says what becomes of a request before any limit decides.
type Asked struct {
	// Route is the number of its route, -1 for none.
	Route int
	// Upstream is where it would be forwarded to, empty where Problem is set.
	Upstream string
	// Unlimited: no limit is asked.
	Unlimited bool
	// Problem is the response to a request that is not forwarded, whatever the limits
	// say. Nil for most.
	Problem *answer.Problem
}

// FillRequest tells c the request and fills req, which is empty, with what ServeHTTP has the limits
// decide, and decides nothing. What it fills in is valid until c is released.
func (g *Gateway) FillRequest(req *weir.Request, r *http.Request, c *identity.Caller) Asked {
	to, p := g.receive(r, c)
	a := Asked{Route: to.route, Problem: p}
	if p != nil {
		return a
	}
	a.Upstream, a.Unlimited = to.target.name, to.unlimited
	if !a.Unlimited {
		if err := g.middleware.Describe(req, r, c, to.plan, to.cost); err != nil {
			a.Problem = authorize.Problem(err)
		}
	}
	return a
}

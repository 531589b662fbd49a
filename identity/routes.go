package identity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// maxRoutes bounds how many routes there are, maxSegments how deep one is.
const (
	maxRoutes   = 10_000
	maxSegments = 64
)

// Routes finds the route of a request. Immutable and safe for concurrent use.
type Routes struct {
	routes []compiledRoute
	// Trees of paths: by host, by what follows the star of a host with its dot,
	// and for any host.
	hosts, below map[string]*tree
	any          *tree
}

type compiledRoute struct {
	Route
	reach
	plan    *Plan
	allowed liberties
}

// tree is a path up to some segment, and the paths that go on from it.
type tree struct {
	kids map[string]*tree
	// param goes on with any segment.
	param *tree
	// here are the routes whose path ends here, under those whose path ends in /*
	// here; both in order.
	here, under []int32
	// first is the smallest number of all routes in the tree.
	first int32
}

// Routes compiles routes. The first that matches a request wins.
func (r *Resolver) Routes(rs []Route) (*Routes, error) {
	if len(rs) > maxRoutes {
		return nil, fmt.Errorf("identity: %d routes are too many, the most is %d", len(rs), maxRoutes)
	}
	all := &Routes{hosts: map[string]*tree{}, below: map[string]*tree{}}
	for i := range rs {
		if err := all.addRoute(r, &rs[i]); err != nil {
			return nil, fmt.Errorf("identity: route %d (%s): %w", i+1, rs[i].nameOrPath(), err)
		}
	}
	return all, nil
}

func (rs *Routes) addRoute(r *Resolver, rt *Route) error {
	if rt.Cost < 0 || rt.Cost > weir.MaxCost {
		return fmt.Errorf("cost must be between 0 and %d, not %d", int64(weir.MaxCost), rt.Cost)
	}
	if rt.Priority < 0 {
		return fmt.Errorf("priority must not be negative, it is %d", rt.Priority)
	}
	c := compiledRoute{Route: *rt}
	for _, m := range rt.Methods {
		b, err := appendMethod(nil, m)
		if err != nil || m == "" {
			return fmt.Errorf("%q is not a method", m)
		}
		c.methods = append(c.methods, string(b))
	}
	t, host, err := rs.treeOfHost(rt.Host)
	if err != nil {
		return err
	}
	c.host = host
	opt := r.paths
	opt.Allow = slices.Concat(opt.Allow, rt.Allow)
	if c.allowed, err = libertiesOf(opt.Allow); err != nil {
		return err
	}
	if c.segments, c.under, err = splitPattern(rt.Path, opt); err != nil {
		return err
	}
	if c.plan, err = r.compilePlan(rt.Descriptors, rt); err != nil {
		return err
	}
	at := int32(len(rs.routes))
	rs.routes = append(rs.routes, c)
	if err := rs.shadowed(); err != nil {
		return err
	}
	for _, s := range c.segments {
		t = t.addChild(s, at)
	}
	if c.under {
		t.under = append(t.under, at)
	} else {
		t.here = append(t.here, at)
	}
	return nil
}

// treeOfHost returns the tree of a route's host, and that host in canonical form.
func (rs *Routes) treeOfHost(host string) (*tree, string, error) {
	if host == "" {
		return newTree(&rs.any, int32(len(rs.routes))), "", nil
	}
	m, name, below := rs.hosts, host, false
	if rest, ok := strings.CutPrefix(host, "*"); ok {
		if name, below = strings.CutPrefix(rest, "."); !below {
			return nil, "", fmt.Errorf("host %q: a star stands for whole labels, as in *.example.com", host)
		}
		m = rs.below
	}
	b, err := appendHost(nil, name)
	if err != nil || len(b) == 0 {
		return nil, "", fmt.Errorf("host %q is not the name of a host", host)
	}
	key := string(b)
	if below {
		key = "." + key
	}
	t := m[key]
	t = newTree(&t, int32(len(rs.routes)))
	m[key] = t
	return t, key, nil
}

// newTree returns the tree at t, made if there is none, for the route at.
func newTree(t **tree, at int32) *tree {
	if *t == nil {
		*t = &tree{first: at}
	}
	return *t
}

// addChild returns the tree behind a segment, "" for a param.
func (t *tree) addChild(segment string, at int32) *tree {
	if segment == "" {
		return newTree(&t.param, at)
	}
	if t.kids == nil {
		t.kids = map[string]*tree{}
	}
	kid := t.kids[segment]
	kid = newTree(&kid, at)
	t.kids[segment] = kid
	return kid
}

// Len returns how many routes there are.
func (rs *Routes) Len() int { return len(rs.routes) }

// Route returns route i as it was given.
func (rs *Routes) Route(i int) Route { return rs.routes[i].Route }

// Plan returns the plan of route i.
func (rs *Routes) Plan(i int) *Plan { return rs.routes[i].plan }

const none = int32(1<<31 - 1)

// Find returns the number of the first route that matches c's request, -1 if
// there is none or the request cannot be read, see Caller.Err. It does not
// allocate.
func (rs *Routes) Find(c *Caller) int {
	best := rs.findRoute(c, c.readPath())
	allowed := rs.allowedBy(best)
	for _, form := range c.forms {
		if form != "" {
			allowed &= rs.allowedBy(rs.findRoute(c, form))
		}
	}
	c.allowed |= allowed
	if c.Err() != nil {
		return -1
	}
	return best
}

// allowedBy returns what route i allows, nothing for -1.
func (rs *Routes) allowedBy(i int) liberties {
	if i < 0 {
		return 0
	}
	return rs.routes[i].allowed
}

// PlanFor returns the plan to ask by for c's request, for which Find returned i, and what
// it costs; nil if it is unlimited. Where routers that decode less of the path find other
// routes, it asks by all of them. unrouted is the plan without a route.
func (rs *Routes) PlanFor(c *Caller, i int, unrouted *Plan) (p *Plan, cost int64) {
	p, cost = rs.planOfRoute(i, unrouted)
	last := i
	for _, form := range c.forms {
		if form == "" {
			break
		}
		if other := rs.findRoute(c, form); other != i && other != last {
			last = other
			q, c := rs.planOfRoute(other, unrouted)
			p, cost = p.mergePlan(cost, q, c)
		}
	}
	return p, cost
}

// planOfRoute returns the plan of route i, nil if it is unlimited, and what it costs; -1 stands
// for no route.
func (rs *Routes) planOfRoute(i int, unrouted *Plan) (*Plan, int64) {
	switch {
	case i < 0:
		return unrouted, 0
	case rs.routes[i].Unlimited:
		return nil, 0
	}
	return rs.routes[i].plan, rs.routes[i].Cost
}

// findRoute returns the number of the first route that matches c's request if its path is as
// given, -1 for none.
func (rs *Routes) findRoute(c *Caller, path string) int {
	f := finder{rs, c.Method(), none}
	if host := c.Host(); host != "" {
		f.searchTree(rs.hosts[host], path)
		if len(rs.below) > 0 {
			for i := 1; i < len(host); i++ {
				if host[i] == '.' {
					f.searchTree(rs.below[host[i:]], path)
				}
			}
		}
	}
	f.searchTree(rs.any, path)
	if f.best == none {
		return -1
	}
	return int(f.best)
}

// finder looks for the first route of a method.
type finder struct {
	rs     *Routes
	method string
	best   int32
}

func (f *finder) searchTree(t *tree, path string) {
	if path == "/" {
		path = ""
	}
	f.walkTree(t, path)
}

// walkTree looks in t, the tree at the segment before path, which is "" or begins
// with a slash.
func (f *finder) walkTree(t *tree, path string) {
	if t == nil || t.first >= f.best {
		return
	}
	f.tryRoutes(t.under)
	if path == "" {
		f.tryRoutes(t.here)
		return
	}
	segment, rest := path[1:], ""
	if i := strings.IndexByte(segment, '/'); i >= 0 {
		segment, rest = segment[:i], segment[i:]
	}
	f.walkTree(t.kids[segment], rest)
	f.walkTree(t.param, rest)
}

// tryRoutes looks at the routes of one path.
func (f *finder) tryRoutes(at []int32) {
	for _, i := range at {
		if i >= f.best {
			return
		}
		if ms := f.rs.routes[i].methods; len(ms) == 0 || slices.Contains(ms, f.method) {
			f.best = i
			return
		}
	}
}

package identity

import (
	"fmt"
	"slices"
	"strings"
)

// A reach is which requests a route is about, in canonical form.
type reach struct {
	// host is empty for any, and begins with a dot for all names below it.
	host string
	// methods is empty for any.
	methods []string
	// segments of the path, "" for any one; under: all below them too.
	segments []string
	under    bool
}

// covers reports whether every request that other is about is one of r's.
func (r *reach) covers(other *reach) bool {
	switch {
	case r.host == "" || r.host == other.host:
	case r.host[0] == '.' && strings.HasSuffix(other.host, r.host):
	default:
		return false
	}
	if len(r.methods) > 0 && (len(other.methods) == 0 || slices.ContainsFunc(other.methods, func(m string) bool { return !slices.Contains(r.methods, m) })) {
		return false
	}
	if len(other.segments) < len(r.segments) || !r.under && (other.under || len(other.segments) > len(r.segments)) {
		return false
	}
	for i, s := range r.segments {
		if s != "" && s != other.segments[i] {
			return false
		}
	}
	return true
}

// shadowed says which earlier route takes all requests of the last one, nil if
// none does: a route that is never reached is not what its author meant.
func (rs *Routes) shadowed() error {
	last := &rs.routes[len(rs.routes)-1]
	for i := range rs.routes[:len(rs.routes)-1] {
		if rs.routes[i].reach.covers(&last.reach) {
			return fmt.Errorf("it is never reached: route %d (%s) takes all its requests; put it before that one", i+1, rs.routes[i].nameOrPath())
		}
	}
	return nil
}

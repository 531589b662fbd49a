package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir/identity"
)

// entryRoute is the first entry of the descriptors that a limit of a route is matched by.
// Its value is the route's name, so that no other request meets the limit.
const entryRoute = "route_limit"

// maxRouteName is the longest name of a route with limits, in bytes: a longer value of an
// entry is replaced by its hash.
const maxRouteName = 128

// limitName is the name of the route in those of its limits: name, or what it is for.
func (rt *Route) limitName() string {
	return cmp.Or(rt.Name, strings.TrimSpace(strings.Join(rt.Methods, ",")+" "+rt.Host+cmp.Or(rt.Path, "/*")))
}

// words parses the limits of the i-th route. Their texts name the route.
func (rt *Route) words(i int) ([]*Words, error) {
	var all []*Words
	if name := rt.limitName(); len(rt.Limit) > 0 && (len(name) > maxRouteName || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name)) {
		return nil, fmt.Errorf("routes[%d].limit: the limit is named by its route, and %.40q... is longer than %d bytes or not printable: give the route a name", i, name, maxRouteName)
	}
	for _, text := range rt.Limit {
		w, err := ParseWords(text)
		if err == nil && slices.Contains(w.By, byClientID) {
			err = fmt.Errorf("limit %q: a route has no client_id, which only callers of the API send: count by ip", text)
		}
		if err != nil {
			return nil, fmt.Errorf("routes[%d].limit: %w", i, err)
		}
		w.Text += " on " + rt.limitName()
		all = append(all, w)
	}
	return all, nil
}

// routeKeys returns the keys of the descriptor that a limit of a route is matched by.
func (w *Words) routeKeys() []string {
	keys := []string{entryRoute}
	for _, by := range w.By {
		switch by {
		case byAll:
		case byIP:
			keys = append(keys, entryAddress)
		default:
			keys = append(keys, by)
		}
	}
	return keys
}

// descriptors returns those of the i-th route, with what its limits are matched by.
func (rt *Route) descriptors(i int) ([]identity.Descriptor, error) {
	limits, err := rt.words(i)
	if err != nil || len(limits) == 0 {
		return rt.Descriptors, err
	}
	all := slices.Clone(rt.Descriptors)
	if len(all) == 0 { // it is asked by the address, and goes on to be
		all = []identity.Descriptor{{Entries: []identity.EntryFrom{{From: entryAddress}}}}
	}
	var lists [][]string
	for _, w := range limits {
		keys := w.routeKeys()
		if slices.ContainsFunc(lists, func(l []string) bool { return slices.Equal(l, keys) }) {
			continue // a second descriptor would be charged as well
		}
		lists = append(lists, keys)
		d := identity.Descriptor{Entries: []identity.EntryFrom{{Key: entryRoute, From: "value:" + rt.limitName()}}}
		for _, key := range keys[1:] {
			d.Entries = append(d.Entries, identity.EntryFrom{From: key})
		}
		all = append(all, d)
	}
	return all, nil
}

// addRoutes adds the limits of routes.
func (w *wordRules) addRoutes(routes []Route) error {
	var errs []error
	names := map[string]int{}
	for i := range routes {
		rt := &routes[i]
		limits, err := rt.words(i)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(limits) == 0 {
			continue
		}
		name := rt.limitName()
		if first, ok := names[name]; ok {
			errs = append(errs, fmt.Errorf("routes[%d].limit: routes[%d] has limits under the name %q too: give one of them a name", i, first, name))
			continue
		}
		names[name] = i
		for _, l := range limits {
			keys := l.routeKeys()
			limit, err := l.compile(keys)
			if err == nil && slices.ContainsFunc(w.byRoute[name], func(o *wordLimit) bool { return o.text == l.Text }) {
				err = fmt.Errorf("limit %q is given twice", l.Text)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("routes[%d].limit: %w", i, err))
				continue
			}
			one := wordLimit{text: l.Text, route: name, parts: []wordPart{{keys, limit}}}
			w.limits, w.byRoute[name] = append(w.limits, one), append(w.byRoute[name], &one)
		}
	}
	return errors.Join(errs...)
}

// hasLimits reports whether some route has limits.
func hasLimits(routes []Route) bool {
	return slices.ContainsFunc(routes, func(r Route) bool { return len(r.Limit) > 0 })
}

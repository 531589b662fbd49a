package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/words"
)

// maxRouteName is the longest name of a route with limits, in bytes: a longer value of an
// entry is replaced by its hash.
const maxRouteName = 128

// LimitName is the name of the route in those of its limits: name, or what it is for.
func (rt *Route) LimitName() string {
	return cmp.Or(rt.Name, strings.TrimSpace(strings.Join(rt.Methods, ",")+" "+rt.Host+cmp.Or(rt.Path, "/*")))
}

// parseLimits parses the limits of the i-th route. Their texts name the route.
func (rt *Route) parseLimits(i int) ([]*words.Words, error) {
	var all []*words.Words
	if name := rt.LimitName(); len(rt.Limit) > 0 && (len(name) > maxRouteName || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name)) {
		return nil, fmt.Errorf("routes[%d].limit: the limit is named by its route, and %.40q... is longer than %d bytes or not printable: give the route a name", i, name, maxRouteName)
	}
	for _, text := range rt.Limit {
		w, err := words.Parse(text)
		if err == nil && w.CountsBy(words.ClientID) {
			err = fmt.Errorf("limit %q: a route has no client_id, which only callers of the API send: count by ip", text)
		}
		if err != nil {
			return nil, fmt.Errorf("routes[%d].limit: %w", i, err)
		}
		w.Text += " on " + rt.LimitName()
		all = append(all, w)
	}
	return all, nil
}

// AllDescriptors returns those of the i-th route, with what its limits are matched by.
func (rt *Route) AllDescriptors(i int) ([]identity.Descriptor, error) {
	limits, err := rt.parseLimits(i)
	if err != nil || len(limits) == 0 {
		return rt.Descriptors, err
	}
	all := slices.Clone(rt.Descriptors)
	if len(all) == 0 { // it is asked by the address, and goes on to be
		all = []identity.Descriptor{{Entries: []identity.EntryFrom{{From: words.Address}}}}
	}
	var lists [][]string
	for _, w := range limits {
		keys := w.RouteKeys()
		if slices.ContainsFunc(lists, func(l []string) bool { return slices.Equal(l, keys) }) {
			continue // a second descriptor would be charged as well
		}
		lists = append(lists, keys)
		d := identity.Descriptor{Entries: []identity.EntryFrom{{Key: words.RouteKey, From: "value:" + rt.LimitName()}}}
		for _, key := range keys[1:] {
			d.Entries = append(d.Entries, identity.EntryFrom{From: key})
		}
		all = append(all, d)
	}
	return all, nil
}

// addRoutes adds the limits of routes to b and w.
func (w *WordLimits) addRoutes(b *words.Builder, routes []Route) error {
	var errs []error
	names := map[string]int{}
	for i := range routes {
		rt := &routes[i]
		parsed, err := rt.parseLimits(i)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(parsed) == 0 {
			continue
		}
		name := rt.LimitName()
		if first, ok := names[name]; ok {
			errs = append(errs, fmt.Errorf("routes[%d].limit: routes[%d] has limits under the name %q too: give one of them a name", i, first, name))
			continue
		}
		names[name] = i
		for _, l := range parsed {
			if err := b.AddOfRoute(l, name); err != nil {
				errs = append(errs, fmt.Errorf("routes[%d].limit: %w", i, err))
				continue
			}
			w.OfRoute = append(w.OfRoute, WordLimit{Text: l.Text, Route: name, Lists: [][]string{l.RouteKeys()}})
		}
	}
	return errors.Join(errs...)
}

// hasLimits reports whether some route has limits.
func hasLimits(routes []Route) bool {
	return slices.ContainsFunc(routes, func(r Route) bool { return len(r.Limit) > 0 })
}

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// Unlimited are requests of the gateway, or of proxies that ask, that no rule limits.
type Unlimited struct {
	// Route is its place in the configuration, -1 for requests without one.
	Route int
	// Keys are those that it is asked by.
	Keys string
	// Have are the keys of the first rules.
	Have string
}

// Fault says what is wrong and the cure, as the log and `weir check` have it.
func (u *Unlimited) Fault() (fault, cure string) {
	if u.Route < 0 {
		return "requests without a route are not limited: no rule matches them", "add a rule with this key, or a route with descriptors"
	}
	return "route is not limited: no rule matches its descriptors", "add a rule with these keys, or set unlimited: true"
}

// finding returns u as a warning of the configuration at path.
func (u *Unlimited) finding(path string) *rules.Error {
	at := "upstream"
	if u.Route >= 0 {
		at = fmt.Sprintf("routes[%d]", u.Route)
	}
	fault, cure := u.Fault()
	return &rules.Error{File: path, Path: at, Warning: true, Msg: fmt.Sprintf("%s (%s); the rules have %s", fault, u.Keys, u.Have), Hint: cure}
}

// FindUnlimited finds what of the requests no rule limits. With load shedding something
// limits all of them.
func FindUnlimited(conf *config.Config, who *identity.Resolver, set *limits.Set) (found []Unlimited) {
	if conf.Shed != nil {
		return nil
	}
	domain := conf.API.Domain
	meets := func(ds []identity.Descriptor) bool {
		return slices.ContainsFunc(ds, func(d identity.Descriptor) bool {
			return set.Meets(domain, d.Keys())
		})
	}
	add := func(route int, ds []identity.Descriptor) {
		found = append(found, Unlimited{route, keysOf(ds), keysThere(set, domain)})
	}
	address := []identity.Descriptor{{Entries: []identity.EntryFrom{{From: words.Address}}}}
	if conf.Upstream != "" && config.HasUnrouted(conf) && !meets(address) && (len(conf.Routes) > 0 || !meetsSome(set, domain, who)) {
		add(-1, address)
	}
	for i := range conf.Routes {
		ds := conf.Routes[i].Descriptors
		if len(ds) == 0 {
			ds = address
		}
		if !conf.Routes[i].Unlimited && len(conf.Routes[i].Limit) == 0 && !meets(ds) {
			add(i, ds)
		}
	}
	return found
}

// meetsSome reports whether requests can have what some rule is matched by.
func meetsSome(set *limits.Set, domain string, who *identity.Resolver) bool {
	return slices.ContainsFunc(set.KeyLists(domain), func(l weir.KeyList) bool {
		return set.Meets(domain, l.Keys) && !slices.ContainsFunc(l.Keys, func(key string) bool { return who.Unknown(key) != nil })
	})
}

// keysOf writes the keys of descriptors.
func keysOf(ds []identity.Descriptor) string {
	var all []string
	for i := range ds {
		all = append(all, strings.Join(ds[i].Keys(), "/"))
	}
	return strings.Join(all, ", ")
}

// keysThere writes the keys of the domain's first rules.
func keysThere(set *limits.Set, domain string) string {
	const most = 8
	var all []string
	for _, r := range set.Rules() {
		if keys := strings.Join(r.Keys, "/"); r.Domain == domain && !slices.Contains(all, keys) {
			if len(all) == most {
				return strings.Join(all, ", ") + ", ..."
			}
			all = append(all, keys)
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

package server

import (
	"context"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
)

// warnOfUnlimited tells of what no limit applies to, since the rules have none for
// what it is asked by: nobody would notice until it is too late. Rules that are
// loaded later can change that, so it is no error, and they are looked at too.
func (s *Server) warnOfUnlimited() {
	if s.rules.live == nil {
		return
	}
	s.checkedGeneration = s.rules.live.Status().Successes
	s.warnOfUnasked()
	if s.conf.Shed != nil {
		return
	}
	address := []identity.Descriptor{{Entries: []identity.EntryFrom{{From: entryAddress}}}}
	if s.conf.Upstream != "" && !s.meets(address) && (len(s.conf.Routes) > 0 || !s.ruleLists()) {
		s.log.Warn("requests without a route are not limited: no rule matches them; add a rule with this key, or a route with descriptors",
			"domain", s.conf.API.Domain, "key", entryAddress, "rules", s.rulesThere())
	}
	for i := range s.conf.Routes {
		r := &s.conf.Routes[i]
		ds := r.Descriptors
		if len(ds) == 0 {
			ds = address
		}
		if !r.Unlimited && !s.meets(ds) {
			s.log.Warn("route is not limited: no rule matches its descriptors; add a rule with these keys, or set unlimited: true",
				"route", i+1, "host", r.Host, "path", r.Path, "domain", s.conf.API.Domain, "keys", keysOf(ds), "rules", s.rulesThere())
		}
	}
}

// watchUnlimited warns of rules that are read as of those at the start, until ctx ends.
// What is read again unchanged is warned of again: who asks for that wants to know.
func (s *Server) watchUnlimited(ctx context.Context) {
	if s.checkedGeneration == 0 {
		return
	}
	live := s.rules.live
	for {
		changed := live.Changed()
		if live.Status().Successes != s.checkedGeneration {
			s.warnOfUnlimited()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// ruleLists reports whether requests can have what some rule is matched by.
func (s *Server) ruleLists() bool {
	return slices.ContainsFunc(s.rules.KeyLists(s.conf.API.Domain), func(l weir.KeyList) bool {
		return s.rules.live.Set().Meets(s.conf.API.Domain, l.Keys) &&
			!slices.ContainsFunc(l.Keys, func(key string) bool { return s.identity.Unknown(key) != nil })
	})
}

// meets reports whether requests that are asked about by ds can meet a limit.
func (s *Server) meets(ds []identity.Descriptor) bool {
	return slices.ContainsFunc(ds, func(d identity.Descriptor) bool {
		return s.rules.words.limitAddresses() && byAddress(d) || s.rules.live.Set().Meets(s.conf.API.Domain, d.Keys())
	})
}

// keysOf writes the keys of descriptors for the log.
func keysOf(ds []identity.Descriptor) string {
	var all []string
	for i := range ds {
		all = append(all, strings.Join(ds[i].Keys(), "/"))
	}
	return strings.Join(all, ", ")
}

// rulesThere writes the keys of the domain's first rules for the log.
func (s *Server) rulesThere() string {
	const most = 8
	var all []string
	for _, r := range s.rules.live.Set().Rules() {
		if keys := strings.Join(r.Keys, "/"); r.Domain == s.conf.API.Domain && !slices.Contains(all, keys) {
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

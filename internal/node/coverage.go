package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/check"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
)

// coverage warns of rules that no request meets, and of requests that no rule limits. Its
// warnings are for one goroutine at a time: the one that opens the node, then that of watch.
// The rest is safe for concurrent use.
type coverage struct {
	conf  *config.Config
	rules *ruleSet
	who   *identity.Resolver
	log   *slog.Logger
	// checked is which load of the rules warn has looked at, zero for none.
	checked uint64
	// asksNow says which rules of the last set that was looked at are asked.
	asksNow atomic.Pointer[check.Plan]
}

// warnUnlimited tells of what no limit applies to, since the rules have none for
// what it is asked by: nobody would notice until it is too late. Rules that are
// loaded later can change that, so it is no error, and they are looked at too.
func (s *coverage) warnUnlimited() {
	if !s.rules.hasFiles {
		return
	}
	s.checked = s.rules.live.Status().Successes
	s.warnOfUnasked()
	for _, u := range check.FindUnlimited(s.conf, s.who, s.rules.currentLimits()) {
		fault, cure := u.Fault()
		log := s.log
		if u.Route >= 0 {
			r := &s.conf.Routes[u.Route]
			log = log.With("route", u.Route+1, "host", r.Host, "path", r.Path)
		}
		log.Warn(fault+"; "+cure, "domain", s.conf.API.Domain, "keys", u.Keys, "rules", u.Have)
	}
}

// watchRules warns of rules that are read as of those at the start, until ctx ends.
// What is read again unchanged is warned of again: who asks for that wants to know.
func (s *coverage) watchRules(ctx context.Context) {
	if s.checked == 0 {
		return
	}
	followRules(ctx, s.rules.live, func() {
		if s.rules.live.Status().Successes != s.checked {
			s.warnUnlimited()
		}
	})
}

// warnOfNeverPaths tells of routes that no request takes.
func (s *coverage) warnOfNeverPaths() {
	for i := range s.conf.Routes {
		if why, cure := check.NeverPath(s.conf.Routes[i].Path); why != "" {
			s.log.Warn("route without effect: no request has its path; "+cure, "route", i+1, "path", s.conf.Routes[i].Path, "reason", why)
		}
	}
}

// warnOfUncounted tells of limits in words that count nothing here, and of routes on
// which they do not count: their requests are asked about by other things than the
// client's address.
func (s *coverage) warnOfUncounted() {
	w := s.rules.words
	for i := range w.General {
		l := &w.General[i]
		switch {
		case !l.LimitsForwarded():
			s.log.Warn("limit without effect for forwarded requests and proxies: only callers of the API send a client_id; count by ip or by all", "limit", l.Text)
			continue
		case !w.LimitAddresses() && s.conf.Rules == "" && s.conf.Shed == nil && slices.ContainsFunc(l.Lists[0], mayBeMissing):
			s.log.Warn("requests without this are not limited: add a limit by ip", "limit", l.Text, "keys", strings.Join(l.Lists[0], ", "))
		}
		for j := range s.conf.Routes {
			if r := &s.conf.Routes[j]; !r.Unlimited && !l.IsAskedBy(r) {
				s.log.Warn("limit of --limit has no effect on this route: add a descriptor of its keys, or a limit in the rules",
					"limit", l.Text, "keys", strings.Join(l.Lists[0], ", "), "route", j+1, "host", r.Host, "path", r.Path)
			}
		}
	}
}

// mayBeMissing reports whether requests need not have an entry of a key.
func mayBeMissing(key string) bool {
	word, _, _ := strings.Cut(key, "/") // a width of the address
	return !slices.Contains([]string{words.Address, "client", "method", "path", "host"}, word)
}

// warnOfAsked tells of limits that do not count where proxies ask, and of those
// by which they cannot be answered: a request that meets one is not let through.
func (s *coverage) warnOfAsked() {
	if !s.conf.Forwards() {
		s.warnOfNeverPaths()
		s.warnOfUncounted()
		s.warnUnlimited()
	}
	for _, l := range s.rules.currentLimits().Refs() {
		if l.Domain == s.conf.API.Domain && (l.Limit.Traits()&weir.Leases != 0 || l.Limit.Adjustment != nil) {
			s.log.Warn("requests of forward-auth and ext_authz are refused under this limit, as their end is not known; use it on gateway routes only",
				"limit", l.Limit.Name, "rule", l.Rule)
		}
	}
}

// planFor returns which rules of a set are asked, found out once for the set in use.
func (s *coverage) planFor(set *limits.Set) (*check.Plan, error) {
	if a := s.asksNow.Load(); a != nil && a.Set == set {
		return a, nil
	}
	a, err := check.MakePlan(s.conf, s.who, set)
	if err == nil {
		s.asksNow.Store(a)
	}
	return a, err
}

// isAsked returns which rules of a set are asked.
func (s *coverage) isAsked(set *limits.Set) func(*limits.Rule) bool {
	a, err := s.planFor(set)
	if err != nil { // of routes, without which the node does not start
		return func(*limits.Rule) bool { return false }
	}
	return a.IsAsked
}

// maxUnaskedWarnings is how many rules that are not asked are logged one by one.
const maxUnaskedWarnings = 20

// warnOfUnasked warns of rules that are written and limit nobody.
func (s *coverage) warnOfUnasked() {
	a, err := s.planFor(s.rules.currentLimits())
	if err != nil {
		return // the doors report it
	}
	for i, u := range a.Found {
		if i == maxUnaskedWarnings {
			s.log.Warn("further rules that no request can match: see /v1/rules", "rules", len(a.Found)-i)
			return
		}
		args := []any{"domain", u.Domain, "rule", u.What, "reason", u.Why}
		if u.Rule != nil {
			args = append(args, "at", fmt.Sprintf("%s:%d", u.Rule.File, u.Rule.Line))
		}
		if u.Add != "" {
			args = append(args, "to", u.To, "add", u.Add)
		}
		s.log.Warn(u.Summary(), args...)
	}
}

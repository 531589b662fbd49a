package check

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
)

// Unasked is a rule, or a part of it, that no request of the doors which make
// descriptors can meet.
type Unasked struct {
	// Rule is nil for a list of a domain, and for a whole domain.
	Rule   *limits.Rule
	Domain string
	// What is not asked, and Why.
	What, Why string
	// To is where Add, YAML, is to be put so that it is. Empty where nothing helps.
	To, Add string
	// Minor: it is likely meant so, such as rules for the API in a domain of their own.
	Minor bool
	// Partly: some requests meet it, and others could that do not.
	Partly bool
}

// Summary returns the problem as a message.
func (u *Unasked) Summary() string {
	switch {
	case u.Partly:
		return "deny list not applied to all requests: some routes or proxies do not send its descriptor"
	case u.Minor:
		return "rules for callers of the API only"
	}
	return "rule without effect: no request can match it"
}

// Plan says which rules the gateway, and proxies that ask, can meet.
type Plan struct {
	conf     *config.Config
	who      *identity.Resolver
	Set      *limits.Set
	domain   string
	routes   *identity.Routes // nil without routes
	unrouted *identity.Plan   // of requests that no route matches; nil: there are none
	// fixed are the values of the sources path and host that all requests of a route
	// have.
	fixed []map[string]string
	// asked are the rules that can be met, and those that lead to them.
	asked map[*limits.Rule]bool
	Found []Unasked
}

// maxRouteTries is how many routes are tried to find one that asks a rule. A rule for
// which more come in question is taken to be asked.
const maxRouteTries = 2000

// MakePlan finds out which rules of a set the doors of a configuration ask.
func MakePlan(conf *config.Config, who *identity.Resolver, set *limits.Set) (*Plan, error) {
	a := &Plan{conf: conf, who: who, Set: set, domain: conf.API.Domain, asked: map[*limits.Rule]bool{}}
	if !conf.MakesDescriptors() {
		for _, r := range set.FileRules() {
			a.asked[r] = true
		}
		return a, nil
	}
	if err := a.makePlans(); err != nil {
		return nil, err
	}
	// Those beneath come first: a rule that leads to one that is asked is asked too.
	for _, r := range slices.Backward(set.FileRules()) {
		if a.asked[r] || r.Domain != a.domain && !conf.IsAsked() {
			continue
		}
		if a.reaches(r) {
			for _, step := range r.Chain() {
				a.asked[step] = true
			}
		}
	}
	a.noteUnasked()
	return a, nil
}

// IsAsked reports whether r can be met, or leads to a rule that can.
func (a *Plan) IsAsked(r *limits.Rule) bool { return a.asked[r] }

// makePlans makes the plans of the doors.
func (a *Plan) makePlans() (err error) {
	if len(a.conf.Routes) == 0 {
		a.unrouted = a.who.RulePlan(a.Set, 0)
		return nil
	}
	all := make([]identity.Route, len(a.conf.Routes))
	for i := range a.conf.Routes {
		r, err := a.conf.GatewayRoute(i)
		if err != nil {
			return err
		}
		all[i] = r.Route
		a.fixed = append(a.fixed, a.fixedBy(&a.conf.Routes[i]))
	}
	if a.routes, err = a.who.Routes(all); err != nil {
		return err
	}
	if config.HasUnrouted(a.conf) {
		a.unrouted, err = a.who.Plan(nil)
	}
	return err
}

// fixedBy returns what a route fixes of the path and the host of its requests.
func (a *Plan) fixedBy(rt *config.Route) map[string]string {
	fixed := map[string]string{}
	for source, value := range map[string]string{"path": rt.Path, "host": rt.Host} {
		if form, err := a.who.EntryForm(source, value); value != "" && err == nil && !strings.ContainsAny(value, "{*") {
			fixed[source] = form
		}
	}
	return fixed
}

// isElsewhere reports whether no request of route i has the value of a rule where the
// value is that of a source.
func (a *Plan) isElsewhere(i int, r *limits.Rule, source string) bool {
	fixed, ok := a.fixed[i][source]
	return ok && r.Value != "" && fixed != r.Value && !strings.Contains(r.Value, "*")
}

// sampleRequest is one that a rule may be met by.
type sampleRequest struct{ method, host, path string }

// reaches reports whether some request meets r.
func (a *Plan) reaches(r *limits.Rule) bool {
	if a.routes == nil {
		return a.planReaches(r, a.unrouted, sampleRequest{"GET", "weir.invalid", "/"})
	}
	tries := 0
	for i := range a.conf.Routes {
		if a.conf.Routes[i].Unlimited || !a.mayReach(r, i) {
			continue
		}
		if tries++; tries > maxRouteTries {
			return true
		}
		if a.takesSome(i, r, func(q sampleRequest) bool { return a.planReaches(r, a.routes.Plan(i), q) }) {
			return true
		}
	}
	return a.unrouted != nil && a.takesSome(-1, r, func(q sampleRequest) bool { return a.planReaches(r, a.unrouted, q) })
}

// takesSome reports whether route i takes a request that a rule is for and that fits; -1
// stands for no route.
func (a *Plan) takesSome(i int, r *limits.Rule, fits func(sampleRequest) bool) bool {
	return slices.ContainsFunc(a.requests(r, i), func(q sampleRequest) bool { return a.routeOf(q) == i && fits(q) })
}

// mayReach reports whether some descriptor of route i begins with the keys of r, and
// can have its values.
func (a *Plan) mayReach(r *limits.Rule, i int) bool {
	ds := a.conf.Routes[i].Descriptors
	if len(ds) == 0 {
		return r.Keys[0] == words.Address
	}
	return slices.ContainsFunc(ds, func(d identity.Descriptor) bool {
		keys := d.Keys()
		if len(keys) < len(r.Keys) || !slices.Equal(keys[:len(r.Keys)], r.Keys) {
			return false
		}
		for step, at := r, len(r.Keys)-1; step != nil; step, at = step.Parent, at-1 {
			if a.isElsewhere(i, step, d.Entries[at].From) {
				return false
			}
		}
		return true
	})
}

// makeCaller returns a caller who sends q.
func (a *Plan) makeCaller(q sampleRequest) *identity.Caller {
	c := a.who.Acquire()
	c.Set(identity.Facts{Peer: netip.IPv6Loopback(), Method: q.method, Host: q.host, Path: q.path})
	return c
}

// routeOf returns the number of the route of q, -1 for none.
func (a *Plan) routeOf(q sampleRequest) int {
	c := a.makeCaller(q)
	defer c.Release()
	return a.routes.Find(c)
}

// planReaches reports whether a descriptor that p makes of q meets r.
func (a *Plan) planReaches(r *limits.Rule, p *identity.Plan, q sampleRequest) bool {
	c := a.makeCaller(q)
	defer c.Release()
	for _, shapes := range p.Shapes(c, r.Domain) {
		if a.routes == nil { // any request will do
			for i := range shapes {
				shapes[i].Fixed = false
			}
		}
		if a.descriptorReaches(r, shapes) {
			return true
		}
	}
	return false
}

// descriptorReaches reports whether a descriptor meets r with some values of what is
// not fixed. Entries of one source have one value.
func (a *Plan) descriptorReaches(r *limits.Rule, shapes []identity.Shape) bool {
	for i, step := range r.Chain() {
		if i >= len(shapes) || step.Value == "" || strings.Contains(step.Value, "*") {
			continue
		}
		for j := range shapes {
			s := &shapes[j]
			if s.Like != shapes[i].Like {
				continue
			}
			if s.Fixed && s.Value != step.Value {
				return false
			}
			s.Fixed, s.Value = true, step.Value
		}
	}
	entries := make([]weir.Entry, len(shapes))
	for i, s := range shapes {
		entries[i] = weir.Entry{Key: s.Key, Value: s.Value}
	}
	return a.Set.Reaches(r, entries, func(i int) bool { return shapes[i].Fixed })
}

// varying finds what is not fixed in the path of a route.
var varying = regexp.MustCompile(`\{[^/]*\}|\*$`)

// FillPath returns a path that a route for path takes.
func FillPath(path string) string { return varying.ReplaceAllString(path, "x") }

// requests returns requests that fit a rule, and, of those that fit it equally, route
// i; -1 stands for no route.
func (a *Plan) requests(r *limits.Rule, i int) []sampleRequest {
	// Routes before it may take some methods.
	methods := []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "WEIR"}
	hosts, paths := []string{"weir.invalid"}, []string{"/weir-no-route/x"}
	if i >= 0 {
		rt := &a.conf.Routes[i]
		if len(rt.Methods) > 0 {
			methods = rt.Methods
		}
		if rt.Host != "" {
			hosts = []string{strings.Replace(rt.Host, "*", "x", 1)}
		}
		if rt.Path != "" {
			paths = []string{FillPath(rt.Path), strings.TrimSuffix(rt.Path, "/*")}
		}
	}
	for _, step := range r.Chain() {
		if step.Value == "" {
			continue
		}
		fits := []string{step.Example(), strings.ReplaceAll(step.Value, "*", "")}
		switch step.Key {
		case "method":
			methods = fits
		case "host":
			hosts = fits
		case "path":
			paths = append(fits, paths...)
		default:
			// A segment of the path.
			if i < 0 {
				continue
			}
			for _, d := range a.conf.Routes[i].Descriptors {
				for j, key := range d.Keys() {
					if name, ok := strings.CutPrefix(d.Entries[j].From, "param:"); ok && key == step.Key {
						paths = append(paths, FillPath(strings.ReplaceAll(a.conf.Routes[i].Path, "{"+name+"}", step.Example())))
					}
				}
			}
		}
	}
	var out []sampleRequest
	for _, m := range methods {
		for _, h := range hosts {
			for _, p := range paths {
				out = append(out, sampleRequest{m, h, p})
			}
		}
	}
	return out
}

// noteUnasked notes what is not asked.
func (a *Plan) noteUnasked() {
	others := map[string]bool{}
	for _, r := range a.Set.FileRules() {
		switch {
		case !r.Decides():
		case a.asked[r]:
			a.reportTiers(r)
		case r.Domain != a.domain && !a.conf.IsAsked():
			if !others[r.Domain] {
				others[r.Domain] = true
				u := Unasked{Domain: r.Domain, What: "domain " + r.Domain, Minor: true,
					Why: fmt.Sprintf("the gateway asks the domain %q, so only callers of the API can ask this one", a.domain)}
				if !a.Set.Has(a.domain) && a.conf.Shed == nil {
					u.Minor = false
					u.Why += "; the domain of the gateway (api.domain) has no rules"
				}
				a.Found = append(a.Found, u)
			}
		default:
			a.Found = append(a.Found, a.explainUnasked(r))
		}
	}
	a.reportLists()
}

// explainUnasked says why r is not asked, and what to do.
func (a *Plan) explainUnasked(r *limits.Rule) Unasked {
	u := Unasked{Rule: r, Domain: r.Domain, What: r.Path}
	for _, key := range r.Keys {
		if key == words.ClientID && a.routes == nil {
			u.Why = "only callers of the API send client_id: leave it out, or give it a domain of their own"
			return u
		}
		if err := a.who.Unknown(key); err != nil && a.routes == nil {
			u.Why = fmt.Sprintf("requests have no %s, which only callers of the API can send: %v", key, err)
			return u
		}
	}
	if a.routes == nil {
		u.Why = fmt.Sprintf("no descriptor leads to it: of a domain %d lists of up to %d keys are asked", identity.MaxRuleLists, identity.MaxRuleKeys)
		return u
	}
	u.Why = "no route that its requests take sends " + strings.Join(r.Keys, ", ")
	u.To, u.Add = a.whereToAdd(r)
	return u
}

// entriesFor writes the entries by which r is asked, empty if some have no source.
func (a *Plan) entriesFor(r *limits.Rule) string {
	var all []string
	seen := map[string]bool{}
	for _, step := range r.Chain() {
		if seen[step.Key] {
			return "" // which of the values is meant from where, nobody can tell
		}
		seen[step.Key] = true
		_, isText := strings.CutPrefix(step.Key, "value:")
		switch {
		case a.who.Unknown(step.Key) == nil:
			all = append(all, quoteYAML(step.Key))
		case step.Value != "" && !strings.Contains(step.Value, "*") && !isText && !slices.Contains(identity.Sources(), step.Key):
			all = append(all, fmt.Sprintf("{key: %s, from: %s}", quoteYAML(step.Key), quoteYAML("value:"+step.Value)))
		default:
			return ""
		}
	}
	return "{entries: [" + strings.Join(all, ", ") + "]}"
}

// whereToAdd returns where to add which descriptor, so that r is asked: to the first route
// that has a request which r is for, or a route of its own.
func (a *Plan) whereToAdd(r *limits.Rule) (to, add string) {
	entries := a.entriesFor(r)
	if entries == "" {
		return "", ""
	}
	fits := func(q sampleRequest) bool { return a.fitsPath(r, q) }
	for i := range min(len(a.conf.Routes), maxRouteTries+1) {
		isElsewhere := func(step *limits.Rule) bool { return a.isElsewhere(i, step, step.Key) }
		if !a.conf.Routes[i].Unlimited && !slices.ContainsFunc(r.Chain(), isElsewhere) && a.takesSome(i, r, fits) {
			return a.addEntries(i, entries)
		}
	}
	if a.unrouted != nil && a.takesSome(-1, r, fits) {
		return a.addEntries(-1, entries)
	}
	return "", ""
}

// addEntries returns where to add a descriptor of these entries, and what to write, so that
// route i asks by it; -1 stands for requests without a route.
func (a *Plan) addEntries(i int, entries string) (to, add string) {
	if i >= 0 && len(a.conf.Routes[i].Descriptors) > 0 {
		return fmt.Sprintf("routes[%d].descriptors", i), "- " + entries
	}
	// It is asked by the address, and goes on to be.
	if address := "{entries: [" + words.Address + "]}"; entries != address {
		entries = address + ", " + entries
	}
	if i < 0 {
		return "the end of routes", "- {descriptors: [" + entries + "]}"
	}
	return fmt.Sprintf("routes[%d]", i), "descriptors: [" + entries + "]"
}

// fitsPath reports whether r is for the method, host and path of q, as far as it says.
func (a *Plan) fitsPath(r *limits.Rule, q sampleRequest) bool {
	c := a.makeCaller(q)
	defer c.Release()
	path, err := c.Path()
	if err != nil {
		return false
	}
	is := map[string]string{"method": c.Method(), "host": c.Host(), "path": path}
	chain := r.Chain()
	entries := make([]weir.Entry, len(chain))
	for i, step := range chain {
		entries[i] = weir.Entry{Key: step.Key, Value: is[step.Key]}
	}
	return a.Set.Reaches(r, entries, func(i int) bool { return is[entries[i].Key] != "" })
}

// simple is text that YAML takes for itself in a flow.
var simple = regexp.MustCompile(`^[a-z][a-z_]*$`)

func quoteYAML(s string) string {
	if simple.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// reportTiers notes tiers that are never chosen, as nothing that asks the rule names
// one.
func (a *Plan) reportTiers(r *limits.Rule) {
	if r.TierBy == "" || a.sendsKey(r.TierBy) {
		return
	}
	a.Found = append(a.Found, Unasked{Rule: r, Domain: r.Domain, What: "tiers of " + r.Path, Why: a.whyNotSent(r.TierBy)})
}

// whyNotSent says why no descriptor has an entry of the key.
func (a *Plan) whyNotSent(key string) string {
	if err := a.who.Unknown(key); err != nil {
		return fmt.Sprintf("requests have no %s: %v", key, err)
	}
	return "no route sends " + key
}

// reportLists notes lists of the gateway's domain that nothing is looked up in.
func (a *Plan) reportLists() {
	deny, allow := a.Set.Listed(a.domain)
	for i, keys := range [][]string{deny, allow} {
		for _, key := range keys {
			if a.sendsKey(key) {
				if i == 0 && a.routes != nil {
					a.reportGaps(key)
				}
				continue
			}
			a.Found = append(a.Found, Unasked{Domain: a.domain, What: []string{"deny", "allow"}[i] + " list of " + key, Why: a.whyNotSent(key)})
		}
	}
}

// reportGaps notes the routes whose requests are not looked up in a deny list, as they
// are not asked by its key.
func (a *Plan) reportGaps(key string) {
	var gaps []string
	first, entries := -1, "{entries: ["+quoteYAML(key)+"]}"
	for i := range a.conf.Routes {
		rt := &a.conf.Routes[i]
		if rt.Unlimited || rt.SendsKey(key) {
			continue
		}
		if gaps = append(gaps, strconv.Itoa(i+1)); first < 0 {
			first = i
		}
	}
	const most = 8
	if len(gaps) > most {
		gaps = append(gaps[:most], fmt.Sprintf("%d more", len(gaps)-most))
	}
	why := "no " + key + " is sent "
	anyOther := sampleRequest{"WEIR", "weir.invalid", "/weir-no-route/x"}
	switch rest := a.unrouted != nil && key != words.Address && a.routeOf(anyOther) < 0; {
	case rest && len(gaps) == 0:
		why += "without a route"
	case rest:
		why += "by route " + strings.Join(gaps, ", ") + ", and without a route"
	case len(gaps) > 0:
		why += "by route " + strings.Join(gaps, ", ")
	default:
		return
	}
	u := Unasked{Domain: a.domain, What: "deny list of " + key, Why: why, Minor: true, Partly: true}
	if a.who.Unknown(key) == nil {
		u.To, u.Add = a.addEntries(first, entries)
	}
	a.Found = append(a.Found, u)
}

// sendsKey reports whether some descriptor has an entry of the key.
func (a *Plan) sendsKey(key string) bool {
	if a.routes == nil {
		return a.who.Unknown(key) == nil
	}
	return config.HaveKey(config.SentKeys(a.conf), key)
}

// FindUnknownSource reports a limit in words that counts by what no request of the gateway,
// or of proxies that ask, has: it would never hold.
func FindUnknownSource(w *config.WordLimits, c *config.Config, who *identity.Resolver) error {
	if !c.MakesDescriptors() {
		return nil // callers of the API send what they like
	}
	for _, l := range w.All() {
		for _, keys := range l.Lists {
			for _, key := range keys {
				if key == words.RouteKey || slices.Contains(keys, words.ClientID) {
					continue
				}
				if err := who.Unknown(key); err != nil {
					return fmt.Errorf("limit %q: %w", l.Text, err)
				}
			}
		}
	}
	return nil
}

package rules

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/pattern"
	"github.com/weirlimit/weir/limits"
)

// compileFile compiles one file into the set.
func (c *compiler) compileFile(f *fileSpec) {
	c.path = ""
	if f.Domain != "" {
		c.path = quoteStep(f.Domain)
	}
	d, ok := c.domainOf(f)
	if !ok {
		// In none of the set, so that all else that is wrong is told at once.
		d = c.newDomain(f.Domain)
	}
	c.domain, c.defaults = d, f.Defaults
	c.lint = c.newLinter()
	if f.Defaults != nil {
		c.checkDefaults(f.Defaults)
	}
	c.compilePools(f)
	c.compileLists(f)
	if d.first == nil {
		d.first = c.lint.newLevelLinter(c.path)
	}
	d.Rules = append(d.Rules, c.compileLevel(f.Descriptors, &limits.Rule{}, d.first)...)
	if !c.opt.Merge {
		// Else other files of the domain may use what this one has.
		c.lint.checkDomain(d, f)
	}
}

// domain is the rules of one domain while they are compiled.
type domain struct {
	limits.Domain
	// paths are its rules by their paths, which tell them apart.
	paths map[string]*limits.Rule
	// first lints its rules for the first entry, which several files may add to.
	first *levelLinter
}

func (c *compiler) newDomain(name string) *domain {
	return &domain{Domain: limits.Domain{Name: name, Files: []string{c.report.file}, Pools: map[string]*limits.Limit{}}, paths: map[string]*limits.Rule{}}
}

const noDomain = "no domain"

// domainOf returns the domain of the set that f adds to, and reports a fault if
// there is none.
func (c *compiler) domainOf(f *fileSpec) (d *domain, ok bool) {
	if n := f.Node.valueOf("domain"); f.Domain == "" && n != nil && (n.kind == list || n.kind == mapping) {
		return nil, false // which is told already
	}
	if f.Domain == "" {
		c.addFault(f.Node, "", "begin the file with domain: and a name", noDomain)
		return nil, false
	}
	i := slices.IndexFunc(c.domains, func(d *domain) bool { return d.Name == f.Domain })
	switch {
	case i < 0:
		d = c.newDomain(f.Domain)
		c.domains = append(c.domains, d)
		return d, true
	case !c.opt.Merge:
		c.addFault(f.Node.valueOrSelf("domain"), "", "put both in one file, or give each a name of its own", "domain %q is already in %s", f.Domain, c.domains[i].Files[0])
		return nil, false
	}
	d = c.domains[i]
	d.Files = append(d.Files, c.report.file)
	return d, true
}

// compileLists compiles the allow and deny lists of the domain.
func (c *compiler) compileLists(f *fileSpec) {
	d := c.domain
	for _, l := range f.Deny {
		if d.Deny == nil {
			d.Deny = map[string]*limits.DenyList{}
		}
		list := d.Deny[l.name]
		if list == nil {
			list = &limits.DenyList{Limit: c.newDenial("deny "+l.name, c.path+"#deny="+quoteStep(l.name), l.node)}
			d.Deny[l.name] = list
		}
		c.lint.checkKey(l.name, l.node, c.path)
		c.addValues(&list.Values, l.name, l.value)
	}
	for _, l := range f.Allow {
		if d.Allow == nil {
			d.Allow = map[string]*limits.Values{}
		}
		if d.Allow[l.name] == nil {
			d.Allow[l.name] = &limits.Values{}
		}
		c.lint.checkKey(l.name, l.node, c.path)
		c.addValues(d.Allow[l.name], l.name, l.value)
	}
}

// addValues adds the values of a list, of entries with the given key, to v.
func (c *compiler) addValues(v *limits.Values, key string, ws words) {
	for _, w := range ws {
		text, usable := v.Add(w.text)
		if text != "" {
			c.addErrorAt(w.node, c.path, "", usable, "%s", text)
		} else {
			c.lint.checkListValue(key, w.text, w.node, c.path)
		}
	}
}

// compileLevel compiles the descriptors of one list, beneath parent.
func (c *compiler) compileLevel(specs []*descriptorSpec, parent *limits.Rule, lv *levelLinter) (all []*limits.Rule) {
	path := c.path
	defer func() { c.path = path }()
	for _, spec := range specs {
		if spec == nil || spec.Node == nil {
			continue
		}
		rule := c.compileRule(spec, path, parent)
		if rule == nil {
			continue
		}
		if old := c.domain.paths[rule.Path]; old != nil {
			c.addFault(spec.Node, c.path, "keep one of them", "descriptor %q is already there in %s", rule.Path, location(old, c.report.file))
			continue
		}
		c.domain.paths[rule.Path] = rule
		lv.checkReached(rule, spec)
		all = append(all, rule)
		rule.Rules = c.compileLevel(spec.Descriptors, rule, c.lint.newLevelLinter(c.path))
	}
	lv.checkHidden()
	return all
}

// compileRule compiles a descriptor without what is beneath it.
func (c *compiler) compileRule(spec *descriptorSpec, path string, parent *limits.Rule) *limits.Rule {
	step := pathStep(spec.Key, spec.Value)
	c.path = joinPath(path, step)
	if spec.Key == "" {
		c.path = path
		c.addFault(spec.Node.valueOrSelf("key"), path, "give it a key: the name of the entry that it matches", "descriptor has no key")
		return nil
	}
	rule := &limits.Rule{
		Domain: c.domain.Name, Path: joinPath(parent.Path, step), Key: spec.Key, Value: spec.Value,
		Keys: append(slices.Clip(parent.Keys), spec.Key),
		File: spec.Node.file, Line: spec.Node.line, Column: spec.Node.col,
		Shadow: spec.ShadowMode != nil && *spec.ShadowMode, Quota: spec.QuotaMode,
		DetailedMetric: spec.DetailedMetric, ValueToMetric: spec.ValueToMetric, ShareThreshold: spec.ShareThreshold,
		Metadata: spec.Metadata != nil,
	}
	if parent.Key != "" {
		rule.Parent = parent
	}
	c.checkRule(spec, rule)
	c.lint.descriptor(spec, c.path)
	c.lint.checkIdleSettings(spec, c.path)
	c.ruleLimits(spec, rule)
	if spec.Allow != nil {
		rule.Allow = &limits.Values{}
		c.addValues(rule.Allow, spec.Key, spec.Allow)
	}
	if spec.Deny != nil {
		rule.Deny = &limits.Values{}
		c.addValues(rule.Deny, spec.Key, spec.Deny)
		rule.Denial = c.newDenial("deny "+rule.Path, c.path+"#deny", spec.Node)
	}
	return rule
}

// checkRule reports flags and words of a descriptor that cannot be.
func (c *compiler) checkRule(spec *descriptorSpec, rule *limits.Rule) {
	if pattern.Is(spec.Key) {
		c.addFault(spec.Node.valueOrSelf("key"), c.path, "put the * into value", "a key cannot hold *")
	}
	if spec.ShareThreshold && !pattern.Is(spec.Value) {
		c.addFault(spec.Node.valueOrSelf("share_threshold"), c.path, "write a * into value, or leave share_threshold out",
			"share_threshold shares a counter among the values of a wildcard, and %q has no *", spec.Value)
	}
	if spec.QuotaMode {
		c.addWarning(spec.Node.valueOrSelf("quota_mode"), c.path, "", "only compatible mode (weir ratelimit) reads quota_mode: here the limit refuses by itself")
	}
}

// ruleLimits compiles the limits of a descriptor, with its tiers and overrides.
func (c *compiler) ruleLimits(spec *descriptorSpec, rule *limits.Rule) {
	rule.Limits = c.limitList(spec, c.baseLimits(spec), rule, spec.Name, "")
	if t := spec.Tiers; t != nil && t.Node != nil {
		c.compileTiers(spec, t, rule)
	}
	if len(spec.Overrides) > 0 {
		rule.Overrides, _ = c.choices(spec, rule, spec.Overrides, spec.Key, "")
	}
}

// choices compiles the limits for single values of the entry with the given key.
// What names a value in messages begins with prefix.
func (c *compiler) choices(spec *descriptorSpec, rule *limits.Rule, specs ordered[limitList], key, prefix string) (
	list []limits.Choice, patterns *pattern.Table[struct{}]) {
	patterns = &pattern.Table[struct{}]{}
	for _, o := range specs {
		ls := c.limitList(spec, o.value, rule, "", prefix+quoteStep(o.name))
		list = append(list, limits.Choice{Value: o.name, Limits: ls})
		c.lint.checkChoice(patterns, o.name, o.node, c.path)
		c.lint.checkValue(key, o.name, o.node, c.path)
	}
	return list, patterns
}

func (c *compiler) compileTiers(spec *descriptorSpec, t *tiersSpec, rule *limits.Rule) {
	if t.By == "" {
		c.addFault(t.Node, c.path, "write by: and the key of the entry that names the tier", "tiers without by")
		return
	}
	rule.TierBy = t.By
	c.lint.checkKey(t.By, t.Node.valueOrSelf("by"), c.path)
	var patterns *pattern.Table[struct{}]
	rule.Tiers, patterns = c.choices(spec, rule, t.Limits, t.By, quoteStep(t.By)+"=")
	if len(t.Limits) == 0 {
		if t.Node.valueOf("limits") == nil {
			c.addFault(t.Node, c.path, "write limits: and a limit for each tier", "tiers without limits")
		}
		return
	}
	c.lint.checkTiers(t, rule, patterns, c.path)
}

// baseLimits returns the limits that the descriptor has in one of three ways.
func (c *compiler) baseLimits(spec *descriptorSpec) limitList {
	var ways []string
	var all limitList
	if spec.RateLimit != nil {
		ways, all = append(ways, "rate_limit"), append(all, spec.RateLimit)
	}
	if spec.Limit != nil {
		ways, all = append(ways, "limit"), append(all, spec.Limit)
	}
	if spec.Limits != nil {
		ways, all = append(ways, "limits"), append(all, spec.Limits...)
	}
	if len(ways) > 1 {
		c.addFault(spec.Node.valueOrSelf(ways[1]), c.path, "put them all under limits", "both %s", strings.Join(ways, " and "))
		return nil
	}
	return all
}

// limitList compiles the limits of a rule, or those of one of its tiers or
// overrides, which label then names.
func (c *compiler) limitList(spec *descriptorSpec, specs limitList, rule *limits.Rule, name, label string) []*limits.Limit {
	var all []*limits.Limit
	scopes := map[string]bool{}
	for _, s := range specs {
		if s == nil || s.Node == nil {
			continue
		}
		b := c.builder(s, spec)
		b.rule, b.label, b.isListed = rule, label, len(specs) > 1
		n := s.Name
		if n == "" && len(specs) == 1 {
			n = name
		}
		// All limits of a rule count under its path, so that a client keeps
		// what it spent when it changes its tier, or the rule its name.
		scope := c.path
		if b.isListed {
			tag := s.Name
			if tag == "" {
				tag = b.nameByPeriod()
			}
			scope += "#" + quoteStep(tag)
			if scopes[scope] {
				c.addFault(s.Node, c.path, "give each a name of its own", "two limits of the same descriptor are called %q", tag)
				continue
			}
		}
		scopes[scope] = true
		l := b.buildLimit(n, scope)
		if l == nil {
			continue
		}
		l.Rule, l.For = rule, label
		all = append(all, l)
	}
	c.lint.checkLimits(all, c.path)
	return all
}

// compilePools compiles the pools of the domain, which its elastic limits share.
func (c *compiler) compilePools(f *fileSpec) {
	for _, p := range f.Pools {
		if p.value == nil {
			continue
		}
		if c.domain.Pools[p.name] != nil {
			c.addFault(p.node, c.path, "", "pool %q is already there", p.name)
			continue
		}
		if l := c.compilePool(p.value, p.name, c.path+"#pool="+quoteStep(p.name)); l != nil {
			c.domain.Pools[p.name] = l
		}
	}
}

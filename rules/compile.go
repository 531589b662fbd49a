package rules

import (
	"slices"
	"strings"
)

// file compiles one file into the set.
func (c *compiler) file(f *fileSpec) {
	c.path = ""
	if f.Domain != "" {
		c.path = quoteStep(f.Domain)
	}
	d, ok := c.domainOf(f)
	if !ok {
		// In none of the set, so that all else that is wrong is told at once.
		d = newDomain(f.Domain, c.report.file)
	}
	c.domain, c.defaults = d, f.Defaults
	c.lint = c.linter()
	if f.Defaults != nil {
		c.checkDefaults(f.Defaults)
	}
	c.pools(f)
	c.lists(f)
	c.level(&d.root, f.Descriptors, &Rule{})
	if !c.opt.Merge {
		// Else other files of the domain may use what this one has.
		c.lint.finish(d, f)
	}
}

func newDomain(name, file string) *domain {
	return &domain{name: name, file: file, pools: map[string]*Limit{}}
}

const noDomain = "no domain"

// domainOf returns the domain of the set that f adds to, and reports a fault if
// there is none.
func (c *compiler) domainOf(f *fileSpec) (d *domain, ok bool) {
	if n := f.Node.find("domain"); f.Domain == "" && n != nil && (n.kind == list || n.kind == mapping) {
		return nil, false // which is told already
	}
	if f.Domain == "" {
		c.bad(f.Node, "", "begin the file with domain: and a name", noDomain)
		return nil, false
	}
	d = c.set.domains[f.Domain]
	switch {
	case d == nil:
		d = newDomain(f.Domain, c.report.file)
		c.set.domains[f.Domain] = d
		if c.set.first == nil {
			c.set.first = d
		}
	case !c.opt.Merge:
		c.bad(f.Node.where("domain"), "", "put both in one file, or give each a name of its own", "domain %q is already in %s", f.Domain, d.file)
		return nil, false
	}
	return d, true
}

// lists compiles the allow and deny lists of the domain.
func (c *compiler) lists(f *fileSpec) {
	d := c.domain
	for _, l := range f.Deny {
		if d.deny == nil {
			d.deny = map[string]*denyList{}
		}
		list := d.deny[l.name]
		if list == nil {
			list = &denyList{limit: c.denial("deny "+l.name, c.path+"#deny="+quoteStep(l.name), l.node)}
			d.deny[l.name] = list
		}
		c.lint.key(l.name, l.node, c.path)
		c.values(&list.values, l.name, l.value)
	}
	for _, l := range f.Allow {
		if d.allow == nil {
			d.allow = map[string]*valueSet{}
		}
		if d.allow[l.name] == nil {
			d.allow[l.name] = &valueSet{}
		}
		c.lint.key(l.name, l.node, c.path)
		c.values(d.allow[l.name], l.name, l.value)
	}
}

// values adds the values of a list, of entries with the given key, to v.
func (c *compiler) values(v *valueSet, key string, ws words) {
	for _, w := range ws {
		text, usable := v.add(w.text)
		if text != "" {
			c.at(w.node, c.path, "", usable, "%s", text)
		} else {
			c.lint.listed(key, w.text, w.node, c.path)
		}
	}
}

// level compiles the descriptors of one list, beneath parent, into lv.
func (c *compiler) level(lv *level, specs []*descriptorSpec, parent *Rule) {
	path := c.path
	defer func() { c.path = path }()
	for _, spec := range specs {
		if spec == nil || spec.Node == nil {
			continue
		}
		rule := c.rule(spec, path, parent)
		if rule == nil {
			continue
		}
		c.lintWildcard(lv, spec, rule)
		if old := lv.put(rule); old != nil {
			c.bad(spec.Node, c.path, "keep one of them", "descriptor %q is already there in %s", rule.Path, old.location(c.report.file))
			continue
		}
		c.level(&rule.kids, spec.Descriptors, rule)
	}
	c.lint.level(lv, path)
}

// lintWildcard warns if the rule can never be reached.
func (c *compiler) lintWildcard(lv *level, spec *descriptorSpec, rule *Rule) {
	if b := lv.keys[rule.Key]; b != nil && isPattern(rule.Value) && b.exact[rule.Value] == nil {
		c.lint.wildcard(b.wild, rule.Value, spec.Node.where("value"), c.path)
	}
}

// rule compiles a descriptor without what is beneath it.
func (c *compiler) rule(spec *descriptorSpec, path string, parent *Rule) *Rule {
	step := pathStep(spec.Key, spec.Value)
	c.path = join(path, step)
	if spec.Key == "" {
		c.path = path
		c.bad(spec.Node.where("key"), path, "give it a key: the name of the entry that it matches", "descriptor has no key")
		return nil
	}
	rule := &Rule{
		Domain: c.domain.name, Path: join(parent.Path, step), Key: spec.Key, Value: spec.Value,
		Keys: append(slices.Clip(parent.Keys), spec.Key),
		File: spec.Node.file, Line: spec.Node.line, Column: spec.Node.col,
		Shadow: spec.ShadowMode != nil && *spec.ShadowMode, Quota: spec.QuotaMode,
		DetailedMetric: spec.DetailedMetric, ValueToMetric: spec.ValueToMetric, ShareThreshold: spec.ShareThreshold,
		Metadata: spec.Metadata != nil,
		node:     spec.Node,
	}
	if parent.Key != "" {
		rule.Parent = parent
	}
	c.checkRule(spec, rule)
	c.lint.descriptor(spec, c.path)
	c.lint.idle(spec, c.path)
	c.set.rules = append(c.set.rules, rule)
	c.limits(spec, rule)
	if spec.Allow != nil {
		rule.allow = &valueSet{}
		c.values(rule.allow, spec.Key, spec.Allow)
	}
	if spec.Deny != nil {
		rule.deny = &valueSet{}
		c.values(rule.deny, spec.Key, spec.Deny)
		rule.denial = c.denial("deny "+rule.Path, c.path+"#deny", spec.Node)
	}
	return rule
}

// checkRule reports flags and words of a descriptor that cannot be.
func (c *compiler) checkRule(spec *descriptorSpec, rule *Rule) {
	if isPattern(spec.Key) {
		c.bad(spec.Node.where("key"), c.path, "put the * into value", "a key cannot hold *")
	}
	if spec.ShareThreshold && !isPattern(spec.Value) {
		c.bad(spec.Node.where("share_threshold"), c.path, "write a * into value, or leave share_threshold out",
			"share_threshold shares a counter among the values of a wildcard, and %q has no *", spec.Value)
	}
	if spec.QuotaMode {
		c.warn(spec.Node.where("quota_mode"), c.path, "", "only compatible mode (weir ratelimit) reads quota_mode: here the limit refuses by itself")
	}
}

// limits compiles the limits of a descriptor, with its tiers and overrides.
func (c *compiler) limits(spec *descriptorSpec, rule *Rule) {
	rule.Limits = c.limitList(spec, c.base(spec), rule, spec.Name, "")
	if t := spec.Tiers; t != nil && t.Node != nil {
		c.tiers(spec, t, rule)
	}
	if len(spec.Overrides) > 0 {
		rule.Overrides, rule.overrides = c.choices(spec, rule, spec.Overrides, spec.Key, "")
	}
}

// choices compiles the limits for single values of the entry with the given key.
// What names a value in messages begins with prefix.
func (c *compiler) choices(spec *descriptorSpec, rule *Rule, specs ordered[limitList], key, prefix string) (
	list []Choice, found *choices) {
	found = &choices{}
	for _, o := range specs {
		ls := c.limitList(spec, o.value, rule, "", prefix+quoteStep(o.name))
		list = append(list, Choice{Value: o.name, Limits: ls})
		c.lint.choice(found, o.name, o.node, c.path)
		c.lint.value(key, o.name, o.node, c.path)
		found.add(o.name, ls)
	}
	return list, found
}

func (c *compiler) tiers(spec *descriptorSpec, t *tiersSpec, rule *Rule) {
	if t.By == "" {
		c.bad(t.Node, c.path, "write by: and the key of the entry that names the tier", "tiers without by")
		return
	}
	rule.TierBy = t.By
	c.lint.key(t.By, t.Node.where("by"), c.path)
	rule.Tiers, rule.tiers = c.choices(spec, rule, t.Limits, t.By, quoteStep(t.By)+"=")
	if len(t.Limits) == 0 {
		if t.Node.find("limits") == nil {
			c.bad(t.Node, c.path, "write limits: and a limit for each tier", "tiers without limits")
		}
		return
	}
	c.lint.tiers(t, rule, c.path)
}

// base returns the limits that the descriptor has in one of three ways.
func (c *compiler) base(spec *descriptorSpec) limitList {
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
		c.bad(spec.Node.where(ways[1]), c.path, "put them all under limits", "both %s", strings.Join(ways, " and "))
		return nil
	}
	return all
}

// limitList compiles the limits of a rule, or those of one of its tiers or
// overrides, which label then names.
func (c *compiler) limitList(spec *descriptorSpec, specs limitList, rule *Rule, name, label string) []*Limit {
	var all []*Limit
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
				tag = b.tag()
			}
			scope += "#" + quoteStep(tag)
			if scopes[scope] {
				c.bad(s.Node, c.path, "give each a name of its own", "two limits of the same descriptor are called %q", tag)
				continue
			}
		}
		scopes[scope] = true
		l := b.build(n, scope)
		if l == nil {
			continue
		}
		l.Rule, l.For = rule, label
		c.domain.replaces = c.domain.replaces || len(l.Replaces) > 0
		all = append(all, l)
	}
	c.lint.limits(all, c.path)
	return all
}

// put adds a rule to the level. It returns the rule that is already there.
func (lv *level) put(r *Rule) *Rule {
	b := lv.keys[r.Key]
	if b == nil {
		b = &branch{}
		if lv.keys == nil {
			lv.keys, lv.first, lv.firstBranch = map[string]*branch{}, r.Key, b
		}
		lv.keys[r.Key] = b
	}
	return b.put(r)
}

// pools compiles the pools of the domain, which its elastic limits share.
func (c *compiler) pools(f *fileSpec) {
	for _, p := range f.Pools {
		if p.value == nil {
			continue
		}
		if c.domain.pools[p.name] != nil {
			c.bad(p.node, c.path, "", "pool %q is already there", p.name)
			continue
		}
		if l := c.pool(p.value, p.name, c.path+"#pool="+quoteStep(p.name)); l != nil {
			c.domain.pools[p.name] = l
		}
	}
}

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
)

// questions are the requests that meet a set of rules: one descriptor for each list of keys
// that rules match.
type questions struct {
	// set is without limits on concurrency: the requests last no time.
	set    *limits.Set
	domain string
	lists  []weir.KeyList
	values map[string]*value
	keys   []string // of values, in the order of the rules
	// limits are those that are played, and leftOut the names of those that are not.
	limits  []*weir.Limit
	leftOut []string
}

// A value says what an entry of a request has for a value.
type value struct {
	key string
	// fixed are the values that the rules name, of which a request has one; of a tier each
	// user has one. None: each user has its own.
	fixed  []string
	isTier bool
}

// newQuestions returns the questions for rules that count in a mode.
func newQuestions(set *limits.Set, o *Options) (q *questions, err error) {
	q = &questions{set: set.Without(isHeld), values: map[string]*value{}}
	if q.domain, err = set.Domain(o.Domain); err != nil {
		return nil, err
	}
	for _, r := range set.Rules() {
		if r.Domain == q.domain {
			q.learn(r)
		}
	}
	for _, l := range set.KeyLists(q.domain) {
		for _, key := range l.Keys {
			q.valueOf(key)
		}
		if !slices.ContainsFunc(l.Keys, func(key string) bool { return slices.Contains(o.Without, key) }) {
			q.lists = append(q.lists, l)
		}
	}
	if err := q.fix(o); err != nil {
		return nil, err
	}
	for _, ref := range set.Refs() {
		switch {
		case ref.Domain != q.domain && ref.Domain != "":
		case isHeld(ref.Limit):
			q.leftOut = append(q.leftOut, ref.Limit.Name)
		default:
			q.limits = append(q.limits, ref.Limit)
		}
	}
	if len(q.limits) == 0 {
		return nil, fmt.Errorf("domain %s has no limit that can be played: limits on concurrency need requests that last, and --for plays requests that do not", q.domain)
	}
	return q, nil
}

// isHeld reports whether requests hold a permit of the limit while they run.
func isHeld(l *weir.Limit) bool { return l.Traits()&weir.Leases != 0 }

// fix gives entries the values that were asked for, and takes out those that were not wanted.
func (q *questions) fix(o *Options) error {
	known := strings.Join(q.keys, ", ")
	for _, e := range o.Entries {
		if q.values[e.Key] == nil {
			return fmt.Errorf("--entry %s=%s: no rule of domain %s looks at %s: the rules look at %s", e.Key, e.Value, q.domain, e.Key, known)
		}
		q.values[e.Key] = &value{key: e.Key, fixed: []string{e.Value}}
	}
	for _, key := range o.Without {
		i := slices.Index(q.keys, key)
		if i < 0 {
			return fmt.Errorf("--without %s: no rule of domain %s looks at it: the rules look at %s", key, q.domain, known)
		}
		q.keys = slices.Delete(q.keys, i, i+1)
	}
	if len(q.lists) == 0 {
		return fmt.Errorf("no rule of domain %s is left to play: it has %s", q.domain, cmp.Or(known, "none"))
	}
	return nil
}

// valueOf returns the value of a key, made if need be.
func (q *questions) valueOf(key string) *value {
	v := q.values[key]
	if v == nil {
		v = &value{key: key}
		q.values[key], q.keys = v, append(q.keys, key)
	}
	return v
}

// open are the values of keys that say nothing of the user, where rules name none.
var open = map[string]string{"path": "/", "method": "GET", "host": "example.com", "user_agent": "example"}

// learn notes the values that a rule names.
func (q *questions) learn(r *limits.Rule) {
	if v := q.valueOf(r.Key); r.Value != "" {
		v.fix(r.Example())
	} else if name := open[r.Key]; name != "" {
		v.fix(name)
	}
	if r.TierBy == "" {
		return
	}
	tier := q.valueOf(r.TierBy)
	tier.isTier = true
	for _, c := range r.Tiers {
		tier.fix(strings.ReplaceAll(c.Value, "*", "x"))
	}
}

// fix adds a value that the rules name.
func (v *value) fix(name string) {
	if !slices.Contains(v.fixed, name) {
		v.fixed = append(v.fixed, name)
	}
}

// of returns the value of a request of a user.
func (v *value) of(user int, choice uint64) string {
	switch {
	case v.isTier && len(v.fixed) > 0:
		return v.fixed[user%len(v.fixed)]
	case len(v.fixed) > 0:
		return v.fixed[choice%uint64(len(v.fixed))]
	case v.key == "remote_address": // of the block that networks share, which no list trusts
		return fmt.Sprintf("100.%d.%d.%d", 64+user>>16, user>>8&255, user&255)
	}
	return "u" + strconv.Itoa(user)
}

// describe says what a request has, for people.
func (q *questions) describe() string {
	var parts []string
	for _, key := range q.keys {
		switch v := q.values[key]; {
		case len(v.fixed) == 0:
			parts = append(parts, key+" of its user")
		case v.isTier:
			parts = append(parts, fmt.Sprintf("%s of its user (%s)", key, some(v.fixed)))
		default:
			parts = append(parts, fmt.Sprintf("%s %s", key, some(v.fixed)))
		}
	}
	return strings.Join(parts, ", ")
}

// some lists a few words.
func some(words []string) string {
	const most = 4
	if len(words) > most {
		return fmt.Sprintf("%s or %d others", strings.Join(words[:most], ", "), len(words)-most)
	}
	return strings.Join(words, " or ")
}

// fill makes r a request of a user.
func (q *questions) fill(r *weir.Request, user int, choice uint64) {
	r.Domain = q.domain
	for _, l := range q.lists {
		entries := make([]weir.Entry, 0, 4)
		for _, key := range l.Keys {
			entries = append(entries, weir.Entry{Key: key, Value: q.values[key].of(user, choice)})
		}
		if l.Repeats == nil || !l.Repeats(entries) {
			r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: entries})
		}
	}
}

// leastShare is of how many units a node's share is at least that is counted on the node: of
// a smaller one each request asks the store (docs/explanation/consistency.md).
const leastShare = 8

// smallLimits returns the names of the limits of which a node's share is smaller.
func (q *questions) smallLimits(nodes int64) (names []string) {
	for _, l := range q.limits {
		if l.Traits()&weir.Sketches == 0 && l.Count > 0 && l.Burst/nodes < leastShare {
			names = append(names, l.Name)
		}
	}
	return names
}

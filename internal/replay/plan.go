package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/replay/facts"
	"github.com/weirlimit/weir/limits"
)

// plan turns lines into the descriptors that rules can match.
type plan struct {
	facts       *facts.Reader
	descriptors []planned
	// entries backs the descriptors of the request under way.
	entries []weir.Entry
}

// planned is a descriptor; repeats: see weir.KeyList.
type planned struct {
	entries []plannedEntry
	repeats func([]weir.Entry) bool
}

// plannedEntry is an entry: its key, and where its value is told.
type plannedEntry struct {
	key   string
	index int
}

// TryRules returns a set of rules to be tried: about each line they are asked all that it
// tells, one descriptor for each list of keys that rules of the domain are matched by.
// An empty domain means the only one of the rules. Fields are the JSON members that
// entries take their values from, by the entry's key: "tenant" ->
// "request.headers.X-Tenant"; they come before what is known of every log. Constants are
// entries that have the same value in each request, by the key.
func TryRules(set *limits.Set, domain string, fields, constants map[string]string) (*Tried, error) {
	t := &Tried{Files: set.Files(), Set: set}
	var err error
	if t.Domain, err = set.Domain(domain); err != nil {
		return nil, err
	}
	p := &plan{}
	if p.facts, err = facts.New(fields); err != nil {
		return nil, err
	}
	for key, value := range constants {
		p.facts.FixValue(key, value)
	}
	n := 0
next:
	for _, l := range set.KeyLists(t.Domain) {
		d := planned{repeats: l.Repeats}
		for _, key := range l.Keys {
			index, ok := p.facts.Index(key)
			if !ok {
				t.Untold = append(t.Untold, l.Keys)
				continue next
			}
			d.entries = append(d.entries, plannedEntry{key, index})
		}
		p.descriptors = append(p.descriptors, d)
		n += len(d.entries)
	}
	if len(p.descriptors) == 0 {
		return nil, fmt.Errorf("no rule of domain %s can be tried: lines have %s, and the rules need %s: name the field of a JSON log that has it (--field tenant=request.headers.X-Tenant), or one value for all lines (--set tenant=acme)",
			t.Domain, strings.Join(facts.KnownKeys(), ", "), missingKeys(t.Untold))
	}
	p.entries, t.Ask = make([]weir.Entry, 0, n), p.fillRequest
	return t, nil
}

// missingKeys lists the keys that lines do not tell.
func missingKeys(lists [][]string) string {
	var keys []string
	for _, key := range slices.Concat(lists...) {
		if !slices.Contains(keys, key) && !slices.Contains(facts.KnownKeys(), key) {
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, ", ")
}

// fillRequest appends the descriptors of a line. One that lacks a value is left out, as a
// proxy leaves it out. They are valid until the next line. It always returns true.
func (p *plan) fillRequest(r *weir.Request, l *accesslog.Line) bool {
	p.facts.Read(l)
	p.entries = p.entries[:0]
next:
	for _, d := range p.descriptors {
		from := len(p.entries)
		for _, e := range d.entries {
			v := p.facts.Value(e.index)
			if v == "" {
				p.entries = p.entries[:from]
				continue next
			}
			p.entries = append(p.entries, weir.Entry{Key: e.key, Value: v})
		}
		if d.repeats != nil && d.repeats(p.entries[from:]) {
			p.entries = p.entries[:from]
			continue
		}
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: p.entries[from:len(p.entries):len(p.entries)]})
	}
	return true
}

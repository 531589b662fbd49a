package replay

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/replay/facts"
	"github.com/weirlimit/weir/rules"
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

// newPlan plans descriptors for all rules of a domain: one for each list of keys
// that rules are matched by. It returns the lists with a key that lines do not tell.
func newPlan(set *rules.Set, domain string, opt *Options) (p *plan, untold [][]string, err error) {
	p = &plan{}
	if p.facts, err = facts.New(opt.Fields); err != nil {
		return nil, nil, err
	}
	for key, value := range opt.Constants {
		p.facts.Fix(key, value)
	}
	n := 0
next:
	for _, l := range set.KeyLists(domain) {
		d := planned{repeats: l.Repeats}
		for _, key := range l.Keys {
			index, ok := p.facts.Index(key)
			if !ok {
				untold = append(untold, l.Keys)
				continue next
			}
			d.entries = append(d.entries, plannedEntry{key, index})
		}
		p.descriptors = append(p.descriptors, d)
		n += len(d.entries)
	}
	p.entries = make([]weir.Entry, 0, n)
	return p, untold, nil
}

// fill appends the descriptors of a line. One that lacks a value is left out, as a
// proxy leaves it out. They are valid until the next line.
func (p *plan) fill(r *weir.Request, l *accesslog.Line) {
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
}

package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/replay/accesslog"
	"github.com/weirlimit/weir/rules"
)

// fact is a thing that a line tells, by the key of a descriptor's entry.
type fact struct {
	key string
	// path leads to the member of a JSON line, for facts that the user names.
	path []string
	of   func(f *facts, l *accesslog.Line) string
}

// known are the facts that every log can tell.
var known = []fact{
	{key: "remote_address", of: (*facts).address},
	{key: "method", of: func(_ *facts, l *accesslog.Line) string { return l.Method }},
	{key: "path", of: (*facts).path},
	{key: "user", of: func(_ *facts, l *accesslog.Line) string { return l.User }},
	{key: "host", of: func(_ *facts, l *accesslog.Line) string { return strings.ToLower(l.Host) }},
	{key: "user_agent", of: func(_ *facts, l *accesslog.Line) string { return l.UserAgent }},
}

// Facts lists the keys that need no field of their own.
func Facts() []string {
	var keys []string
	for _, f := range known {
		keys = append(keys, f.key)
	}
	return keys
}

// facts turns a line into the descriptors that rules can match.
type facts struct {
	all []fact
	// plans are the descriptors of a request, each the places of its entries in
	// all.
	plans  [][]int
	values []string
	// entries backs the descriptors of the request under way.
	entries []weir.Entry
	text    []byte
}

// newFacts plans descriptors for all rules of a domain: one for each list of keys
// that rules match. It returns the lists with a key that lines do not tell.
func newFacts(set *rules.Set, domain string, fields map[string]string) (f *facts, untold [][]string, err error) {
	f = &facts{all: slices.Clone(known)}
	for key, path := range fields {
		if path == "" || key == "" {
			return nil, nil, fmt.Errorf("field %q=%q: give an entry's key and the path of a JSON member, such as tenant=request.headers.X-Tenant", key, path)
		}
		f.all = slices.DeleteFunc(f.all, func(k fact) bool { return k.key == key })
		f.all = append(f.all, fact{key: key, path: strings.Split(path, ".")})
	}
	f.values = make([]string, len(f.all))
	var seen [][]string
	for _, r := range set.Rules() {
		if r.Domain != domain || slices.ContainsFunc(seen, func(k []string) bool { return slices.Equal(k, r.Keys) }) {
			continue
		}
		seen = append(seen, r.Keys)
		var plan []int
		for _, key := range r.Keys {
			if i := slices.IndexFunc(f.all, func(k fact) bool { return k.key == key }); i >= 0 {
				plan = append(plan, i)
			}
		}
		if len(plan) < len(r.Keys) {
			untold = append(untold, r.Keys)
			continue
		}
		f.plans = append(f.plans, plan)
	}
	return f, untold, nil
}

// read takes in the facts of a line. They are valid until the next.
func (f *facts) read(l *accesslog.Line) {
	f.text = f.text[:0]
	for i := range f.all {
		if k := &f.all[i]; k.of != nil {
			f.values[i] = k.of(f, l)
		} else {
			f.values[i], _ = l.Field(k.path...)
		}
	}
}

// fill appends the descriptors of the line. One that lacks a value is left out, as
// a proxy leaves it out.
func (f *facts) fill(r *weir.Request) {
	f.entries = f.entries[:0]
	n := 0
	for _, plan := range f.plans {
		n += len(plan)
	}
	if cap(f.entries) < n {
		f.entries = make([]weir.Entry, 0, n) // descriptors point into it
	}
next:
	for _, plan := range f.plans {
		from := len(f.entries)
		for _, i := range plan {
			if f.values[i] == "" {
				f.entries = f.entries[:from]
				continue next
			}
			f.entries = append(f.entries, weir.Entry{Key: f.all[i].key, Value: f.values[i]})
		}
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: f.entries[from:len(f.entries):len(f.entries)]})
	}
}

// address returns the client that a node would take an address for. A name stands
// for itself.
func (f *facts) address(l *accesslog.Line) string {
	if !strings.Contains(l.Address, ":") {
		return l.Address // IPv4 in its one form, or a name
	}
	a, err := netip.ParseAddr(l.Address)
	if err != nil {
		return l.Address
	}
	return f.keep(func(b []byte) []byte { return identity.AppendClient(b, a) })
}

// path returns the path as a node would see it, empty for what is none.
func (f *facts) path(l *accesslog.Line) string {
	p, err := identity.Canonical(l.Path(), identity.PathOptions{})
	if err != nil {
		return ""
	}
	return p
}

// keep returns a text that lives as long as the line's facts.
func (f *facts) keep(write func([]byte) []byte) string {
	from := len(f.text)
	f.text = write(f.text)
	return string(f.text[from:])
}

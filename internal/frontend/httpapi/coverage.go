package httpapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/address"
	"github.com/weirlimit/weir/internal/overlay"
)

// coverage says whom a change does not reach.
type coverage struct {
	overlay   *overlay.Overlay
	domain    string                                    // the one that front ends ask by themselves
	entryForm func(key, value string) (string, error)   // nil: every form is sent
	isSent    func(keys []string, isAnywhere bool) bool // nil: every key is sent
}

// writtenForm returns the form of e that front ends write in a domain, or why they write none.
func (v *coverage) writtenForm(domain string, e weir.Entry) (string, error) {
	if v.entryForm == nil || domain != v.domain {
		return e.Value, nil // callers are counted by what they send
	}
	return v.entryForm(e.Key, e.Value)
}

// rewrite names the key of q as front ends count it.
func (v *coverage) rewrite(q *query) {
	d := &q.reqs[0].Descriptors[0]
	if as := v.countedAll(q.reqs[0].Domain, d.Entries, q.wholeDomain); !slices.Equal(as, d.Entries) {
		q.typed, d.Entries = d.Entries, as
	}
}

// countedAll returns entries as front ends count them.
func (v *coverage) countedAll(domain string, es []weir.Entry, isRange bool) []weir.Entry {
	as := slices.Clone(es)
	for i, e := range as {
		as[i].Value = v.counted(domain, e, isRange)
	}
	return as
}

// counted returns the value by which front ends count e. What they write in no form stays
// as it is, but for a range that is banned over a domain: bits beyond its length say nothing.
func (v *coverage) counted(domain string, e weir.Entry, isRange bool) string {
	form, err := v.writtenForm(domain, e)
	if err == nil {
		return form
	}
	if p, ok := address.Parse(e.Value); ok && isRange && strings.Contains(e.Value, "/") {
		return p.String()
	}
	return e.Value
}

// findUnsent says which of the entries of a change no front end sends by itself, so that it
// reaches only who sends them as they are; isRange: ranges are of all that is in them.
func (v *coverage) findUnsent(domain string, es []weir.Entry, isRange bool) (out []string) {
	keys := make([]string, len(es))
	for i, e := range es {
		keys[i] = e.Key
	}
	if v.isSent != nil && domain == v.domain && !v.isSent(keys, isRange) {
		name := strings.Join(keys, ", ")
		if v.isSent(keys, true) {
			name = "descriptor of " + name
		}
		return []string{fmt.Sprintf("requests that front ends ask about by themselves: they send no %s in domain %s, as no rule or route there reads it", name, domain)}
	}
	for _, e := range es {
		if _, err := v.writtenForm(domain, e); err != nil && !(isRange && v.holdsClients(e)) {
			out = append(out, fmt.Sprintf("requests that front ends ask about by themselves: they write no %s %q (%s)", e.Key, e.Value, err))
		}
	}
	return out
}

// holdsClients reports whether the value of e is a range of addresses that front ends
// count one by one, or by ranges that lie in it.
func (v *coverage) holdsClients(e weir.Entry) bool {
	p, ok := address.Parse(e.Value)
	if !ok {
		return false
	}
	form, err := v.entryForm(e.Key, p.Addr().String())
	q, isAddress := address.Parse(form)
	return err == nil && isAddress && q.Bits() >= p.Bits() && p.Contains(q.Addr())
}

// maxListed is how many rules an answer lists.
const maxListed = 8

// ofKey says what a ban of a key under one limit does not refuse.
func (v *coverage) ofKey(t overlay.Target) []string {
	es := t.Entries
	if n := len(es) - 1; n > 0 && (v.meetsLimit(t, es[:n]) || v.meetsLimit(t, es[:n], es[n:])) {
		es = es[:n] // the last one names a tier alone, which may stand apart
	}
	out := []string{"requests that do not meet this limit under this key: the ban is of the key, not of the client; a ban over the whole domain is of the client"}
	return append(append(out, v.without(t.Domain, es)...),
		"requests that come when another tier or override gives them a limit that counts apart")
}

// ofDomain says what a ban of an entry in a domain does not refuse.
func (v *coverage) ofDomain(domain string, e weir.Entry) []string {
	return append(v.without(domain, []weir.Entry{e}),
		"requests that front ends ask nothing about: of a route without descriptors, or that the configuration exempts",
		"calls of CL.THROTTLE, which name a key and numbers, and no domain")
}

// meetsLimit reports whether a request with descriptors of the entries meets the limit of t
// under its key.
func (v *coverage) meetsLimit(t overlay.Target, descriptors ...[]weir.Entry) bool {
	r := &weir.Request{Domain: t.Domain}
	for _, es := range descriptors {
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: es})
	}
	return slices.ContainsFunc(v.overlay.Beneath().Match(nil, r), func(o weir.Op) bool {
		return o.Limit.Scope == t.Limit.Scope && o.Key == t.Key
	})
}

// without says which requests of a domain and of others carry none of the entries.
func (v *coverage) without(domain string, es []weir.Entry) []string {
	keys := make([]string, len(es))
	for i, e := range es {
		keys[i] = e.Key
	}
	name := strings.Join(keys, ", ")
	var lists []string
	known := v.overlay.KeyLists(domain)
	have := false
	for _, l := range known {
		if slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(l.Keys, k) }) {
			lists = append(lists, strings.Join(l.Keys, "/"))
		} else {
			have = true
		}
	}
	out := []string{"requests of other domains than " + domain}
	switch {
	case len(known) > 0 && !have:
		out = append(out, "requests that front ends ask about by themselves: no rule of the domain has the key "+name+", so only a route or a caller of the API that sends it is refused")
	case len(lists) > 0:
		if len(lists) > maxListed {
			lists = append(lists[:maxListed], fmt.Sprintf("and %d more", len(lists)-maxListed))
		}
		out = append(out, "requests without "+name+", such as those that are asked about only by "+strings.Join(lists, ", "))
	default:
		out = append(out, "requests without "+name)
	}
	return out
}

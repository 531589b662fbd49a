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
	entryForm func(key, value string) (string, error) // nil: every form is sent
}

// unsent says of entries that front ends write in another form, or never, that their
// requests are not met, and by which form they are. anySpelling: an address is met in
// every spelling.
func (v *coverage) unsent(es []weir.Entry, anySpelling bool) (out []string) {
	if v.entryForm == nil {
		return nil
	}
	for _, e := range es {
		form, err := v.entryForm(e.Key, e.Value)
		if err == nil && (form == e.Value || anySpelling && isSameAddress(form, e.Value)) {
			continue
		}
		text := fmt.Sprintf("write %s %q as %q; name it so: %s=%s", e.Key, e.Value, form, e.Key, form)
		if err != nil {
			text = fmt.Sprintf("write no %s %q (%s)", e.Key, e.Value, err)
		}
		out = append(out, "requests that front ends ask about by themselves: they "+text)
	}
	return out
}

// isSameAddress reports whether a and b are spellings of one address or prefix.
func isSameAddress(a, b string) bool {
	p, ok := address.Parse(a)
	q, also := address.Parse(b)
	return ok && also && p == q
}

// maxListed is how many rules an answer lists.
const maxListed = 8

// ofKey says what a ban of a key under one limit does not refuse.
func (v *coverage) ofKey(t overlay.Target) []string {
	es := t.Entries
	if n := len(es) - 1; n > 0 && (v.meets(t, es[:n]) || v.meets(t, es[:n], es[n:])) {
		es = es[:n] // the last one names a tier alone, which may stand apart
	}
	out := append(v.unsent(t.Entries, false),
		"requests that do not meet this limit under this key: the ban is of the key, not of the client; a ban over the whole domain is of the client")
	return append(append(out, v.without(t.Domain, es)...),
		"requests that come when another tier or override gives them a limit that counts apart")
}

// ofDomain says what a ban of an entry in a domain does not refuse.
func (v *coverage) ofDomain(domain string, e weir.Entry) []string {
	return append(append(v.unsent([]weir.Entry{e}, true), v.without(domain, []weir.Entry{e})...),
		"requests that front ends ask nothing about: of a route without descriptors, or that the configuration exempts",
		"calls of CL.THROTTLE, which name a key and numbers, and no domain")
}

// meets reports whether a request with descriptors of the entries meets the limit of t
// under its key.
func (v *coverage) meets(t overlay.Target, descriptors ...[]weir.Entry) bool {
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

package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/address"
	"github.com/weirlimit/weir/internal/overlay"
)

// KnownClient is who a name in events stands for, under one limit.
type KnownClient struct {
	Domain, Limit string
	Entries       []weir.Entry
}

// Equal reports whether c is o.
func (c KnownClient) Equal(o KnownClient) bool {
	return c.Domain == o.Domain && c.Limit == o.Limit && slices.Equal(c.Entries, o.Entries)
}

// identify puts the entries that a name in events stands for in the place of
// descriptors.
func (a *API) identify(c *call) *inputError {
	q, req := &c.query, c.query.reqs[0]
	if q.seen&seenDescriptors != 0 {
		return &inputError{"stands in the place of descriptors: leave one of them out", "#/client"}
	}
	var all []KnownClient
	if a.opt.Clients != nil {
		all = a.opt.Clients(q.client)
	}
	if len(all) == 0 {
		return &inputError{"this node has told of no client of this name lately: ask a node that shows it, or name the client by its entries", "#/client"}
	}
	var fit []KnownClient
	var names []string
	for _, k := range all {
		if q.seen&seenDomain != 0 && k.Domain != req.Domain {
			continue
		}
		if name := k.Limit; !slices.Contains(names, name) {
			names = append(names, name)
		}
		switch {
		case q.limit != "" && k.Limit != q.limit:
			continue
		case q.wholeDomain && len(k.Entries) > 1:
			continue // another rule may know it by one entry
		}
		fit = append(fit, k)
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return &inputError{fmt.Sprintf("the client is one of the domain %q, not of this", all[0].Domain), "#/domain"}
	case len(fit) == 0 && q.wholeDomain:
		return &inputError{"a ban over the domain is by one entry, and the client is known by several: " + words(&weir.Request{Descriptors: []weir.Descriptor{{Entries: all[0].Entries}}}), "#/client"}
	case len(fit) == 0:
		return &inputError{"is not one that the client is known by; it is known by " + quoted(names), "#/limit"}
	}
	for _, k := range fit[1:] {
		if k.Domain != fit[0].Domain || !slices.Equal(k.Entries, fit[0].Entries) {
			return &inputError{"is missing; the client is known by several limits, say which is meant: " + quoted(names), "#/limit"}
		}
	}
	req.Domain = fit[0].Domain
	req.Descriptors = append(req.Descriptors[:0], weir.Descriptor{Entries: fit[0].Entries})
	if len(fit) == 1 && q.limit == "" {
		q.limit = fit[0].Limit
	}
	return nil
}

// appendMore appends who was meant by a name in events, and what a ban does not
// refuse, to an object.
func (q *query) appendMore(b []byte) ([]byte, error) {
	var more struct {
		Client     *foundClient `json:"client,omitempty"`
		NotCovered []string     `json:"not_covered,omitempty"`
		Warnings   []string     `json:"warnings,omitempty"`
	}
	more.NotCovered, more.Warnings = q.notCovered, q.warnings
	if q.client != "" {
		more.Client = &foundClient{q.reqs[0].Domain, q.reqs[0].Descriptors[0].Entries}
	}
	data, err := json.Marshal(more)
	if err != nil || len(data) == len("{}") {
		return b, err
	}
	return append(append(b[:len(b)-1], ','), data[1:]...), nil
}

type foundClient struct {
	Domain  string       `json:"domain"`
	Entries []weir.Entry `json:"entries"`
}

// banDomain refuses all requests of the domain with the entry for a time; for none, its
// ban is lifted.
func (a *API) banDomain(r *http.Request, q *query) error {
	if a.opt.Overlay == nil {
		return errNoOverlay
	}
	req := q.reqs[0]
	es := req.Descriptors[0].Entries
	switch {
	case len(es) != 1:
		return &inputError{"a ban over the domain is by one entry: leave the others out", "#/descriptors"}
	case q.limit != "" && q.client == "":
		return &inputError{"a ban over the domain is of every limit: leave limit out", "#/limit"}
	}
	e := weir.Entry{Key: strings.Clone(es[0].Key), Value: strings.Clone(es[0].Value)}
	domain := strings.Clone(req.Domain)
	if q.seconds == 0 {
		_, err := a.opt.Overlay.LiftDomain(r.Context(), domain, e, a.author(r, q))
		return err
	}
	err := a.opt.Overlay.BanDomain(r.Context(), domain, e, time.Duration(q.seconds)*time.Second, a.author(r, q))
	if err != nil {
		return err
	}
	for _, b := range a.opt.Overlay.OfClient(req) {
		q.yaml = a.opt.Overlay.YAML(&b)
	}
	q.notCovered = append(append(a.unsent([]weir.Entry{e}, true), a.without(domain, []weir.Entry{e})...),
		"requests that front ends ask nothing about: of a route without descriptors, or that the configuration exempts",
		"calls of CL.THROTTLE, which name a key and numbers, and no domain")
	return nil
}

// unsent says of entries that front ends write in another form, or never, that their
// requests are not met, and by which form they are. anySpelling: an address is met in
// every spelling.
func (a *API) unsent(es []weir.Entry, anySpelling bool) (out []string) {
	if a.opt.EntryForm == nil {
		return nil
	}
	for _, e := range es {
		form, err := a.opt.EntryForm(e.Key, e.Value)
		if err == nil && (form == e.Value || anySpelling && isSameAddress(form, e.Value)) {
			continue
		}
		text := "requests that front ends ask about by themselves: they "
		if err != nil {
			text += fmt.Sprintf("write no %s %q (%s)", e.Key, e.Value, err)
		} else {
			text += fmt.Sprintf("write %s %q as %q; name it so: %s=%s", e.Key, e.Value, form, e.Key, form)
		}
		out = append(out, text)
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

// besides says what a ban of a key under one limit does not refuse.
func (a *API) besides(t overlay.Target) []string {
	es := t.Entries
	if n := len(es) - 1; n > 0 && (a.meets(t, es[:n]) || a.meets(t, es[:n], es[n:])) {
		es = es[:n] // the last one names a tier alone, which may stand apart
	}
	out := append([]string{"requests that do not meet this limit under this key: the ban is of the key, not of the client (whole_domain is of the client)"},
		a.without(t.Domain, es)...)
	return append(out, "requests that come when another tier or override gives them a limit that counts apart")
}

// meets reports whether a request with descriptors of the entries meets the limit of t
// under its key.
func (a *API) meets(t overlay.Target, descriptors ...[]weir.Entry) bool {
	r := &weir.Request{Domain: t.Domain}
	for _, es := range descriptors {
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: es})
	}
	return slices.ContainsFunc(a.opt.Overlay.Beneath().Match(nil, r), func(o weir.Op) bool {
		return o.Limit.Scope == t.Limit.Scope && o.Key == t.Key
	})
}

// without says which requests of a domain and of others carry none of the entries.
func (a *API) without(domain string, es []weir.Entry) []string {
	keys := make([]string, len(es))
	for i, e := range es {
		keys[i] = e.Key
	}
	name := strings.Join(keys, ", ")
	var lists []string
	known := a.opt.Overlay.KeyLists(domain)
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

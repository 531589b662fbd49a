package httpapi

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
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
func identify(q *query, clients func(name string) []KnownClient) *inputError {
	req := q.reqs[0]
	if q.seen&seenDescriptors != 0 {
		return &inputError{"stands in the place of descriptors: leave one of them out", "#/client"}
	}
	var all []KnownClient
	if clients != nil {
		all = clients(q.client)
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
		return &inputError{"a ban over the domain is by one entry, and the client is known by several: " + overlay.FormatEntries(all[0].Entries), "#/client"}
	case len(fit) == 0:
		return &inputError{"is not one that the client is known by; it is known by " + quoteNames(names), "#/limit"}
	}
	for _, k := range fit[1:] {
		if k.Domain != fit[0].Domain || !slices.Equal(k.Entries, fit[0].Entries) {
			return &inputError{"is missing; the client is known by several limits, say which is meant: " + quoteNames(names), "#/limit"}
		}
	}
	req.Domain = fit[0].Domain
	req.Descriptors = append(req.Descriptors[:0], weir.Descriptor{Entries: fit[0].Entries})
	if len(fit) == 1 && q.limit == "" {
		q.limit = fit[0].Limit
	}
	return nil
}

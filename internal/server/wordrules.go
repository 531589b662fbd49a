package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/metrics"
)

// wordRules are the limits in words as rules of one domain. Immutable.
type wordRules struct {
	domain string
	// limits are those of --limit, general of them, and those of routes.
	limits  []wordLimit
	general int
	byRoute map[string][]*wordLimit
}

// wordLimit is a limit in words. A client that the gateway knows by its
// address and one that the API knows by its clientId are told apart even if
// they go by the same text, hence a part for each.
type wordLimit struct {
	text string
	// route is the name of the route whose requests it is about, empty for all.
	route string
	parts []wordPart
	// all counts everybody under one key; the parts then have the same limit.
	all bool
}

// wordPart is the limit of the requests that have a descriptor of these keys.
type wordPart struct {
	keys  []string
	limit *weir.Limit
}

// newWordRules parses and compiles texts. domain is the one that the API and
// the gateway ask.
func newWordRules(texts []string, domain string) (*wordRules, error) {
	rules := &wordRules{domain: domain, byRoute: map[string][]*wordLimit{}}
	for _, text := range texts {
		w, err := ParseWords(text)
		if err != nil {
			return nil, err
		}
		// The same limit twice would count every request twice.
		if slices.ContainsFunc(rules.limits, func(l wordLimit) bool { return l.text == w.Text }) {
			return nil, fmt.Errorf("limit %q is given twice", w.Text)
		}
		l := wordLimit{text: w.Text, all: w.By[0] == byAll}
		for _, keys := range w.keyLists() {
			part := wordPart{keys: keys}
			if l.all && len(l.parts) > 0 {
				part.limit = l.parts[0].limit
			} else if part.limit, err = w.compile(keys); err != nil {
				return nil, err
			}
			l.parts = append(l.parts, part)
		}
		rules.limits = append(rules.limits, l)
	}
	rules.general = len(rules.limits)
	return rules, nil
}

// keyLists returns the keys of the descriptors that w is about: of a client's address and
// its clientId where it counts by ip, or all.
func (w *Words) keyLists() [][]string {
	lists := [][]string{nil}
	for _, by := range w.By {
		keys := []string{by}
		if by == byIP || by == byAll {
			keys = []string{entryAddress, entryClientID}
		}
		var longer [][]string
		for _, key := range keys {
			for _, l := range lists {
				longer = append(longer, append(slices.Clip(l), key))
			}
		}
		lists = longer
	}
	return lists
}

// distinct returns the parts, each limit once.
func (l *wordLimit) distinct() []wordPart {
	if l.all {
		return l.parts[:1]
	}
	return l.parts
}

// keyLists are the keys of the descriptors that it is about.
func (l *wordLimit) keyLists() [][]string {
	var lists [][]string
	for _, p := range l.parts {
		lists = append(lists, p.keys)
	}
	return lists
}

// limitsAddresses reports whether the limit applies to a client that is known by its
// address alone.
func (l wordLimit) limitsAddresses() bool {
	return slices.ContainsFunc(l.parts, func(p wordPart) bool { return slices.Equal(p.keys, []string{entryAddress}) })
}

// limitsForwarded reports whether the limit applies to requests that are forwarded, or
// that proxies ask about: they have no clientId.
func (l wordLimit) limitsForwarded() bool {
	return slices.ContainsFunc(l.parts, func(p wordPart) bool { return !slices.Contains(p.keys, entryClientID) })
}

// compile returns the limit that w says, with counters of its own for a list of keys.
func (w *Words) compile(keys []string) (*weir.Limit, error) {
	l := w.Limit()
	l.Scope = "\x1flimit\x1f" + strings.Join(keys, "\x1f") + "\x1f" + w.Text
	return l, l.Compile()
}

// Entries that tell who the client is.
const (
	entryAddress  = "remote_address"
	entryClientID = "client_id"
)

// everybody is the key of a limit by all.
const everybody = "all"

// limitAddresses reports whether some limit applies to a client that is known
// by its address alone.
func (w *wordRules) limitAddresses() bool {
	return slices.ContainsFunc(w.limits, wordLimit.limitsAddresses)
}

// limitForwarded reports whether some limit applies to requests that are forwarded.
func (w *wordRules) limitForwarded() bool {
	return slices.ContainsFunc(w.limits, wordLimit.limitsForwarded)
}

// Match implements [weir.Rules].
func (w *wordRules) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	if r.Domain != w.domain {
		return dst
	}
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		if len(d.Entries) > 0 && d.Entries[0].Key == entryRoute {
			for _, l := range w.byRoute[d.Entries[0].Value] {
				dst = l.append(dst, i, r)
			}
			continue
		}
		for j := range w.limits[:w.general] {
			dst = w.limits[j].append(dst, i, r)
		}
	}
	return dst
}

// limitFor returns the limit of what has these entries, nil for none: a longer descriptor
// asks about something that the limit says nothing of.
func (l *wordLimit) limitFor(entries []weir.Entry) *weir.Limit {
	for i := range l.parts {
		if slices.EqualFunc(l.parts[i].keys, entries, func(key string, e weir.Entry) bool { return e.Key == key }) {
			return l.parts[i].limit
		}
	}
	return nil
}

// append appends the ops by which the descriptor of r at a place meets the limit.
func (l *wordLimit) append(dst []weir.Op, at int, r *weir.Request) []weir.Op {
	d := &r.Descriptors[at]
	limit := l.limitFor(d.Entries)
	if limit == nil {
		return dst
	}
	key := everybody
	if !l.all {
		key = r.KeyOf(d)
	}
	cost := d.Cost
	if cost == 0 {
		cost = max(r.Cost, 1)
	}
	from := len(dst)
	dst = limit.Append(dst, key, cost, r)
	for i := from; i < len(dst); i++ {
		if dst[i].Descriptor = uint16(at); d.Peek {
			dst[i].Verb = weir.Peek
		}
	}
	return dst
}

// series lists the limits for metrics.
func (w *wordRules) series() []metrics.Series {
	var out []metrics.Series
	for _, l := range w.limits {
		for _, p := range l.distinct() {
			rule := strings.Join(p.keys, "/")
			if l.all {
				rule = everybody
			}
			out = append(out, metrics.Series{Domain: w.domain, Rule: rule, Limit: p.limit})
		}
	}
	return out
}

// isAskedBy reports whether some descriptor of a route meets the limit.
func (l *wordLimit) isAskedBy(r *Route) bool {
	return len(r.Descriptors) == 0 && l.limitsAddresses() || slices.ContainsFunc(r.Descriptors, l.isMetBy)
}

// isMetBy reports whether a descriptor meets the limit.
func (l *wordLimit) isMetBy(d identity.Descriptor) bool {
	return slices.ContainsFunc(l.parts, func(p wordPart) bool { return slices.Equal(d.Keys(), p.keys) })
}

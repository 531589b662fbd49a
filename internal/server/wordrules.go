package server

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/metrics"
)

// wordRules are the limits in words as rules of one domain. Immutable.
type wordRules struct {
	domain string
	limits []wordLimit
}

// wordLimit is a limit in words. A client that the gateway knows by its
// address and one that the API knows by its clientId are told apart even if
// they go by the same text, hence a part for each.
type wordLimit struct {
	text  string
	parts []wordPart
	// all counts everybody under one key; the parts then have the same limit.
	all bool
}

// wordPart is the limit of the clients that are named by an entry.
type wordPart struct {
	entry string
	limit *weir.Limit
}

// newWordRules parses and compiles texts. domain is the one that the API and
// the gateway ask.
func newWordRules(texts []string, domain string) (*wordRules, error) {
	rules := &wordRules{domain: domain}
	for _, text := range texts {
		w, err := ParseWords(text)
		if err != nil {
			return nil, err
		}
		// The same limit twice would count every request twice.
		if slices.ContainsFunc(rules.limits, func(l wordLimit) bool { return l.text == w.Text }) {
			return nil, fmt.Errorf("limit %q is given twice", w.Text)
		}
		l := wordLimit{text: w.Text, all: w.By == ByAll}
		for _, entry := range []string{entryAddress, entryClientID} {
			if entry == entryAddress && w.By == ByClientID {
				continue
			}
			part := wordPart{entry: entry}
			if l.all && len(l.parts) > 0 {
				part.limit = l.parts[0].limit
			} else if part.limit, err = w.compile(entry); err != nil {
				return nil, err
			}
			l.parts = append(l.parts, part)
		}
		rules.limits = append(rules.limits, l)
	}
	return rules, nil
}

// distinct returns the parts, each limit once.
func (l *wordLimit) distinct() []wordPart {
	if l.all {
		return l.parts[:1]
	}
	return l.parts
}

// entries are those by which clients are named.
func (l *wordLimit) entries() []string {
	var keys []string
	for _, p := range l.parts {
		keys = append(keys, p.entry)
	}
	return keys
}

// limitsAddresses reports whether the limit applies to a client that is known by its
// address alone.
func (l wordLimit) limitsAddresses() bool { return l.parts[0].entry == entryAddress }

// compile returns the limit that w says, with counters of its own for entry.
func (w *Words) compile(entry string) (*weir.Limit, error) {
	l := w.Limit()
	l.Scope = "\x1flimit\x1f" + entry + "\x1f" + w.Text
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

// Match implements [weir.Rules].
func (w *wordRules) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	if r.Domain != w.domain {
		return dst
	}
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		// One entry, the client: a longer descriptor asks about something
		// that these limits say nothing of.
		if len(d.Entries) != 1 {
			continue
		}
		for j := range w.limits {
			dst = w.limits[j].append(dst, d, r)
		}
	}
	return dst
}

// limitFor returns the limit of clients that are named by an entry, nil for none.
func (l *wordLimit) limitFor(entry string) *weir.Limit {
	for i := range l.parts {
		if l.parts[i].entry == entry {
			return l.parts[i].limit
		}
	}
	return nil
}

func (l *wordLimit) append(dst []weir.Op, d *weir.Descriptor, r *weir.Request) []weir.Op {
	e := &d.Entries[0]
	limit := l.limitFor(e.Key)
	if limit == nil {
		return dst
	}
	key := e.Value
	if l.all {
		key = everybody
	}
	cost := d.Cost
	if cost == 0 {
		cost = max(r.Cost, 1)
	}
	from := len(dst)
	dst = limit.Append(dst, key, cost, r)
	if d.Peek {
		for i := from; i < len(dst); i++ {
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
			rule := p.entry
			if l.all {
				rule = everybody
			}
			out = append(out, metrics.Series{Domain: w.domain, Rule: rule, Limit: p.limit})
		}
	}
	return out
}

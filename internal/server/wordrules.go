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
// they go by the same text, hence two limits.
type wordLimit struct {
	text              string
	address, clientID *weir.Limit // either may be nil
	// all counts everybody under one key; address and clientID are then the
	// same limit.
	all bool
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
		if w.By != ByClientID {
			if l.address, err = w.compile(entryAddress); err != nil {
				return nil, err
			}
		}
		switch w.By {
		case ByAll:
			l.clientID = l.address
		default:
			if l.clientID, err = w.compile(entryClientID); err != nil {
				return nil, err
			}
		}
		rules.limits = append(rules.limits, l)
	}
	return rules, nil
}

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
	return slices.ContainsFunc(w.limits, func(l wordLimit) bool { return l.address != nil })
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

func (l *wordLimit) append(dst []weir.Op, d *weir.Descriptor, r *weir.Request) []weir.Op {
	limit, key := l.address, d.Entries[0].Value
	switch d.Entries[0].Key {
	case entryAddress:
	case entryClientID:
		limit = l.clientID
	default:
		return dst
	}
	if limit == nil {
		return dst
	}
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
		if l.address != nil && !l.all {
			out = append(out, metrics.Series{Domain: w.domain, Rule: entryAddress, Limit: l.address})
		}
		if l.clientID != nil {
			rule := entryClientID
			if l.all {
				rule = everybody
			}
			out = append(out, metrics.Series{Domain: w.domain, Rule: rule, Limit: l.clientID})
		}
	}
	return out
}

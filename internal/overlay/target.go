package overlay

import (
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// Target is one key of one limit, as an operator named it and as it is counted.
type Target struct {
	Domain  string
	Entries []weir.Entry
	// Limit that counts, of the rules beneath, and Key.
	Limit *weir.Limit
	Key   string
	// Here: what is done is of this node alone, in memory. The board is not asked, and
	// gets none of it when it is back.
	Here bool
}

// Numbers are what an override gives a key.
type Numbers struct {
	// Count per Period. Zero Period means that of the limit.
	Count  int64
	Period time.Duration
	// Burst as in a limit. Zero means Count.
	Burst int64
}

// makeEntry returns an entry of kind for t.
func (t *Target) makeEntry(kind Kind, now int64, by string) Entry {
	e := Entry{Kind: kind, Subject: Subject{Domain: strings.Clone(t.Domain), Limit: t.Limit.Name}, Scope: t.Limit.Scope, Key: strings.Clone(t.Key),
		Algorithm: t.Limit.Algorithm.Name(), Made: now, By: by, Here: t.Here}
	for _, p := range t.Entries {
		e.Entries = append(e.Entries, weir.Entry{Key: strings.Clone(p.Key), Value: strings.Clone(p.Value)})
	}
	return e
}

// DomainTarget is what a ban over a domain is of: every request of the domain that
// carries the entry in one of its descriptors.
func DomainTarget(domain string, e weir.Entry) Target {
	return Target{Domain: domain, Entries: []weir.Entry{e}, Key: e.Key + "\x1f" + e.Value,
		Limit: &weir.Limit{Name: "every limit of the domain", Scope: domain + banMark, Algorithm: algorithm.FixedWindow}}
}

// rate returns the numbers of the limit of t, which a rules file gave it.
func (t *Target) rate() string {
	e := Entry{Algorithm: t.Limit.Algorithm.Name(), Count: t.Limit.Count, Period: t.Limit.Period.Microseconds()}
	return e.Rate()
}

// FormatEntries are entries as a command line writes them.
func FormatEntries(entries []weir.Entry) string {
	all := make([]string, len(entries))
	for i, p := range entries {
		all[i] = p.Key + "=" + p.Value
	}
	return strings.Join(all, " ")
}

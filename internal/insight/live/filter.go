package live

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/spell"
)

// Kinds of messages.
const (
	KindRecord  = "record"
	KindRollup  = "rollup"
	KindLoss    = "loss"
	KindState   = "state"
	KindDropped = "missed"
)

var kinds = []string{KindRecord, KindRollup, KindLoss, KindState}

// Filter says what a reader wants to hear. Of a list any will do; an empty one is
// no condition.
type Filter struct {
	// Kinds are those of messages; missed is always told.
	Kinds []string
	// Domains, Rules and Limits are conditions on records and roll-ups, Keys and
	// Outcomes on records.
	Domains, Rules, Limits, Keys, Outcomes []string
}

// maxValues bounds how many values a filter has, maxValue their bytes.
const maxValues, maxValue = 100, 1024

// names are the parameters of a URL that a filter reads.
var names = []string{"kind", "domain", "rule", "limit", "key", "outcome"}

// fieldLists are the values of those parameters.
func (f *Filter) fieldLists() []*[]string {
	return []*[]string{&f.Kinds, &f.Domains, &f.Rules, &f.Limits, &f.Keys, &f.Outcomes}
}

// Query returns the filter as the parameters of a URL.
func (f *Filter) Query() url.Values {
	q := make(url.Values)
	for i, values := range f.fieldLists() {
		if len(*values) > 0 {
			q[names[i]] = *values
		}
	}
	return q
}

// ParseFilter reads the parameters of a URL: kind, domain, rule, limit, key and
// outcome, each as often as wanted.
func ParseFilter(q url.Values) (*Filter, error) {
	f := new(Filter)
	fields := f.fieldLists()
	n := 0
	for name, values := range q {
		at := slices.Index(names, name)
		if at < 0 {
			return nil, spell.Unknown("parameter", name, names)
		}
		for _, v := range values {
			if n++; n > maxValues || len(v) > maxValue {
				return nil, fmt.Errorf("a filter has at most %d values of %d bytes", maxValues, maxValue)
			}
			if v != "" {
				*fields[at] = append(*fields[at], v)
			}
		}
	}
	return f, f.CheckWords()
}

// CheckWords reports which of the words are none.
func (f *Filter) CheckWords() error {
	var outcomes []string
	for o := weir.Allowed; o < weir.NumOutcomes; o++ {
		outcomes = append(outcomes, o.String())
	}
	var errs []error
	for _, k := range f.Kinds {
		if !slices.Contains(kinds, k) {
			errs = append(errs, spell.Unknown("kind", k, kinds))
		}
	}
	for _, o := range f.Outcomes {
		if !slices.Contains(outcomes, o) {
			errs = append(errs, spell.Unknown("outcome", o, outcomes))
		}
	}
	return errors.Join(errs...)
}

// wantsKind reports whether messages of a kind are wanted.
func (f *Filter) wantsKind(kind string) bool { return meetsAny(f.Kinds, kind) }

// KeepsEvent reports whether an event is wanted.
func (f *Filter) KeepsEvent(e *event.Event) bool {
	switch {
	case e.Record != nil:
		r := e.Record
		return f.wantsKind(KindRecord) && f.meetsLimit(&r.LimitRef) && meetsAny(f.Keys, r.Key) && meetsAny(f.Outcomes, r.Outcome)
	case e.Rollup != nil:
		return f.wantsKind(KindRollup) && f.meetsLimit(&e.Rollup.LimitRef)
	}
	return f.wantsKind(KindLoss)
}

func (f *Filter) meetsLimit(p *event.LimitRef) bool {
	return meetsAny(f.Domains, p.Domain) && meetsAny(f.Rules, p.Rule) && meetsAny(f.Limits, p.Limit)
}

func meetsAny(any []string, value string) bool { return len(any) == 0 || slices.Contains(any, value) }

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

// fields are the values of those parameters.
func (f *Filter) fields() []*[]string {
	return []*[]string{&f.Kinds, &f.Domains, &f.Rules, &f.Limits, &f.Keys, &f.Outcomes}
}

// Query returns the filter as the parameters of a URL.
func (f *Filter) Query() url.Values {
	q := make(url.Values)
	for i, values := range f.fields() {
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
	fields := f.fields()
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
	return f, f.Check()
}

// Check reports which of the words are none.
func (f *Filter) Check() error {
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

// wants reports whether messages of a kind are wanted.
func (f *Filter) wants(kind string) bool { return meets(f.Kinds, kind) }

// Keeps reports whether an event is wanted.
func (f *Filter) Keeps(e *event.Event) bool {
	switch {
	case e.Record != nil:
		r := e.Record
		return f.wants(KindRecord) && f.at(&r.LimitRef) && meets(f.Keys, r.Key) && meets(f.Outcomes, r.Outcome)
	case e.Rollup != nil:
		return f.wants(KindRollup) && f.at(&e.Rollup.LimitRef)
	}
	return f.wants(KindLoss)
}

func (f *Filter) at(p *event.LimitRef) bool {
	return meets(f.Domains, p.Domain) && meets(f.Rules, p.Rule) && meets(f.Limits, p.Limit)
}

func meets(any []string, value string) bool { return len(any) == 0 || slices.Contains(any, value) }

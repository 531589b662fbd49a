package overlay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/params"
)

// Target is one key of one limit, as an operator named it and as it is counted.
type Target struct {
	Domain  string
	Entries []weir.Entry
	// Limit that counts, of the rules beneath, and Key.
	Limit *weir.Limit
	Key   string
}

// Numbers are what an override gives a key.
type Numbers struct {
	// Count per Period. Zero Period means that of the limit.
	Count  int64
	Period time.Duration
	// Burst as in a limit. Zero means Count.
	Burst int64
}

// Errors of a change.
var (
	// ErrContended: other nodes changed the document again and again.
	ErrContended = errors.New("overlay: other nodes were changing the same document all the while: try again")
	// ErrUnread: what is on the board cannot be read, so it is not changed.
	ErrUnread = errors.New("overlay: a document of what operators changed cannot be read in the store, and is left as it is: " +
		"a newer version wrote it, or it is damaged; delete it, and the nodes put back the last one that they could read")
)

// StoreError: the board did not answer, so a change was not made, or may have been.
type StoreError struct{ Err error }

func (e *StoreError) Error() string {
	return "overlay: the store did not answer; whether the change was made shows the next look at the key: " + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *StoreError) Unwrap() error { return e.Err }

// NumbersError: a limit cannot have the numbers of an override.
type NumbersError struct{ Err error }

func (e *NumbersError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *NumbersError) Unwrap() error { return e.Err }

// entry returns an entry of kind for t.
func (t *Target) entry(kind Kind, now int64, by string) Entry {
	e := Entry{Kind: kind, Domain: strings.Clone(t.Domain), Limit: t.Limit.Name, Scope: t.Limit.Scope, Key: strings.Clone(t.Key),
		Algorithm: t.Limit.Algorithm.Name(), Made: now, By: by}
	for _, p := range t.Entries {
		e.Entries = append(e.Entries, weir.Entry{Key: strings.Clone(p.Key), Value: strings.Clone(p.Value)})
	}
	return e
}

// Ban refuses the key of t for d, from now on, whatever was before.
func (o *Overlay) Ban(ctx context.Context, t Target, d time.Duration, who Author) error {
	return o.forTime(ctx, Ban, t, d, who)
}

// BanDomain refuses for d, from now on, every request of a domain that carries the
// entry in one of its descriptors.
func (o *Overlay) BanDomain(ctx context.Context, domain string, e weir.Entry, d time.Duration, who Author) error {
	return o.forTime(ctx, BanDomain, domainTarget(domain, e), d, who)
}

// LiftDomain takes a ban over a domain back, and reports whether there was one.
func (o *Overlay) LiftDomain(ctx context.Context, domain string, e weir.Entry, who Author) (bool, error) {
	return o.Lift(ctx, domainTarget(domain, e), BanDomain, who)
}

// domainTarget is what a ban over a domain is of.
func domainTarget(domain string, e weir.Entry) Target {
	return Target{Domain: domain, Entries: []weir.Entry{e}, Key: e.Key + "\x1f" + e.Value,
		Limit: &weir.Limit{Name: "every limit of the domain", Scope: domain + banMark, Algorithm: algorithm.FixedWindow}}
}

// Allow lets the key of t pass for d, from now on, whatever it has spent: its
// limit counts what it would refuse. A ban refuses it all the same.
func (o *Overlay) Allow(ctx context.Context, t Target, d time.Duration, who Author) error {
	return o.forTime(ctx, Allow, t, d, who)
}

func (o *Overlay) forTime(ctx context.Context, kind Kind, t Target, d time.Duration, who Author) error {
	if d <= 0 || d > weir.MaxPeriod {
		return fmt.Errorf("overlay: kind %s for %s must be for longer than nothing and at most ten years", kind, d)
	}
	return o.put(ctx, t, who, func(now int64) Entry {
		e := t.entry(kind, now, who.By)
		e.Until = now + micros.Of(d)
		return e
	})
}

// Override gives the key of t other numbers for d, or until they are taken back
// if d is zero.
func (o *Overlay) Override(ctx context.Context, t Target, n Numbers, d time.Duration, who Author) error {
	if d < 0 || d > weir.MaxPeriod {
		return fmt.Errorf("overlay: an override for %s must be for at most ten years", d)
	}
	if n.Period == 0 {
		n.Period = t.Limit.Period
	}
	if n.Period < 0 || n.Period%time.Microsecond != 0 {
		return &NumbersError{fmt.Errorf("period %s must be whole microseconds", n.Period)}
	}
	if t.Limit.Anchor == params.AnchorCalendar && n.Period != t.Limit.Period {
		return &NumbersError{fmt.Errorf("limit %q counts in windows of the calendar: leave the period as it is, %s", t.Limit.Name, period.Format(t.Limit.Period))}
	}
	of := func(now int64) Entry {
		e := t.entry(Override, now, who.By)
		e.Count, e.Period, e.Burst = n.Count, n.Period.Microseconds(), n.Burst
		if d > 0 {
			e.Until = now + micros.Of(d)
		}
		return e
	}
	probe := of(0)
	if _, err := o.variant(t.Limit, &probe); err != nil {
		return &NumbersError{err}
	}
	return o.put(ctx, t, who, of)
}

// put puts an entry in the place of the one of its kind.
func (o *Overlay) put(ctx context.Context, t Target, who Author, of func(now int64) Entry) error {
	var e Entry
	var was *Entry
	err := o.changeKey(ctx, of(0).Kind, t, func(now int64, old *Entry) *Entry {
		e, was = of(now), old
		return &e
	})
	if err == nil {
		o.noteKey(ctx, &t, &e, was, who)
	}
	return err
}

// Lift takes back what there is of a kind for the key of t, and reports whether
// there was anything.
func (o *Overlay) Lift(ctx context.Context, t Target, kind Kind, who Author) (bool, error) {
	var was *Entry
	err := o.changeKey(ctx, kind, t, func(_ int64, old *Entry) *Entry {
		was = old
		return nil
	})
	if err == nil && was != nil {
		o.noteKey(ctx, &t, nil, was, who)
	}
	return was != nil, err
}

// changeKey puts what f makes of the entry of a kind for the key of t in its
// place; nil means none.
func (o *Overlay) changeKey(ctx context.Context, kind Kind, t Target, f func(now int64, old *Entry) *Entry) error {
	at := target{kind, counter{t.Limit.Scope, t.Key}, ""}
	return o.change(ctx, func(all []Entry, now int64) ([]Entry, bool) {
		var old *Entry
		rest := slices.DeleteFunc(all, func(e Entry) bool {
			if e.target() != at {
				return false
			}
			found := e
			old = &found
			return true
		})
		next := f(now, old)
		if next != nil {
			rest = append(rest, *next)
		}
		return rest, next != nil || old != nil
	})
}

// change makes a change of the entries that have not ended.
func (o *Overlay) change(ctx context.Context, f func(all []Entry, now int64) ([]Entry, bool)) error {
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	return o.state.change(ctx, o, func(all []Entry) ([]Entry, bool) {
		now := o.now()
		return f(slices.DeleteFunc(all, func(e Entry) bool { return e.over(now) }), now)
	})
}

// noteKey notes that e is in the place of was; nil means none.
func (o *Overlay) noteKey(ctx context.Context, t *Target, e, was *Entry, who Author) {
	some := was
	if e != nil {
		some = e
	}
	k := kinds[some.Kind]
	without := k.without
	if some.Kind == Override {
		without = t.rate()
	}
	c := Change{By: who.By, Reason: who.Reason, Action: k.do, Domain: some.Domain, Entries: some.Entries, Limit: some.Limit,
		Before: without, After: without, YAML: o.YAML(some)}
	what := k.done
	if was != nil {
		c.Before = was.describe()
	}
	if e != nil {
		c.After, c.At = e.describe(), e.Made
	} else {
		c.Action, what = k.undo, k.undone
	}
	o.Note(ctx, what, c)
	if some.Kind == Override {
		o.warnOfRestart(t, e, was)
	}
}

// warnOfRestart logs that the key of t counts from zero under the override e, in the
// place of was; nil means none. Both fit their limit, or never had an effect.
func (o *Overlay) warnOfRestart(t *Target, e, was *Entry) {
	with := func(e *Entry) *weir.Limit {
		if e != nil {
			if v, err := t.Limit.Variant(e.Count, time.Duration(e.Period)*time.Microsecond, e.Burst); err == nil {
				return v
			}
		}
		return t.Limit
	}
	if why := o.opt.Restarts(with(e), with(was)); why != "" {
		o.opt.Logger.Warn("key counts from zero since this change; it may use the old and the new count within one period",
			"domain", t.Domain, "entries", words(t.Entries), "limit", t.Limit.Name, "reason", why)
	}
}

// rate returns the numbers of the limit of t, which a rules file gave it.
func (t *Target) rate() string {
	e := Entry{Algorithm: t.Limit.Algorithm.Name(), Count: t.Limit.Count, Period: t.Limit.Period.Microseconds()}
	return e.Rate()
}

// words are the entry's facts as a command line writes them.
func (e *Entry) words() string { return words(e.Entries) }

func words(entries []weir.Entry) string {
	all := make([]string, len(entries))
	for i, p := range entries {
		all[i] = p.Key + "=" + p.Value
	}
	return strings.Join(all, " ")
}

// Counts is how much of each kind is in force.
type Counts struct{ Bans, Overrides, Allowed, Modes int }

// Count returns how much is in force.
func (o *Overlay) Count() Counts {
	var c Counts
	s := inUse(o)
	now := o.now()
	for _, e := range s.keys {
		switch {
		case e.over(now):
		case e.Kind == Ban, e.Kind == BanDomain:
			c.Bans++
		case e.Kind == Allow:
			c.Allowed++
		default:
			c.Overrides++
		}
	}
	for _, m := range s.switches {
		if !m.over(now) {
			c.Modes++
		}
	}
	return c
}

// OfClient returns the bans over the domain that refuse r.
func (o *Overlay) OfClient(r *weir.Request) []Entry {
	s := inUse(o)
	now := o.now()
	var out []Entry
	for i := range r.Descriptors {
		for _, e := range r.Descriptors[i].Entries {
			if b := s.banOf(r.Domain, e); b != nil && !b.entry.over(now) {
				out = append(out, *b.entry)
			}
		}
	}
	return out
}

// Entries returns what is in force for single keys, the oldest first.
func (o *Overlay) Entries() []Entry {
	s := inUse(o)
	now := o.now()
	var all []Entry
	for _, e := range s.keys {
		if !e.over(now) {
			all = append(all, *e)
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(a.Made, b.Made) })
	return all
}

// Of returns what is in force for a key of a limit.
func (o *Overlay) Of(l *weir.Limit, key string) []Entry {
	s := inUse(o)
	m := s.marks[counter{l.Scope, key}]
	if m == nil {
		return nil
	}
	now := o.now()
	var out []Entry
	for _, e := range []*Entry{m.ban, m.override, m.allow} {
		if e != nil && !e.over(now) {
			out = append(out, *e)
		}
	}
	return out
}

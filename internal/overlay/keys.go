package overlay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/params"
)

// Keys are the bans, overrides and free passes of single keys. Safe for concurrent use.
type Keys struct {
	entries  *entries
	audit    *Audit
	variants *variants
	restarts func(l, old *weir.Limit) string
}

// Set does to the key of t what a kind does, Ban, BanDomain or Allow, for d from now on,
// whatever was before. The target of BanDomain is a [DomainTarget].
func (k *Keys) Set(ctx context.Context, t Target, kind Kind, d time.Duration, who Author) error {
	if d <= 0 || d > weir.MaxPeriod {
		return fmt.Errorf("overlay: kind %s for %s must be for longer than nothing and at most ten years", kind, d)
	}
	return k.putEntry(ctx, t, who, func(now int64) Entry {
		e := t.makeEntry(kind, now, who.By)
		e.Until = now + micros.Of(d)
		return e
	})
}

// Override gives the key of t other numbers for d, or until they are taken back
// if d is zero.
func (k *Keys) Override(ctx context.Context, t Target, n Numbers, d time.Duration, who Author) error {
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
		e := t.makeEntry(Override, now, who.By)
		e.Count, e.Period, e.Burst = n.Count, n.Period.Microseconds(), n.Burst
		if d > 0 {
			e.Until = now + micros.Of(d)
		}
		return e
	}
	probe := of(0)
	if _, err := k.variants.override(t.Limit, &probe); err != nil {
		return &NumbersError{err}
	}
	return k.putEntry(ctx, t, who, of)
}

// putEntry puts an entry in the place of the one of its kind.
func (k *Keys) putEntry(ctx context.Context, t Target, who Author, of func(now int64) Entry) error {
	var e Entry
	old, err := k.replace(ctx, of(0).Kind, &t, func(now int64) []Entry {
		e = of(now)
		return []Entry{e}
	})
	if err == nil {
		k.noteKey(ctx, &t, &e, old, who)
	}
	return err
}

// LiftEntry takes back what there is of a kind for the key of t, and reports whether
// there was anything.
//
// What is of all nodes takes what is of this node alone along.
func (k *Keys) LiftEntry(ctx context.Context, t Target, kind Kind, who Author) (bool, error) {
	old, err := k.replace(ctx, kind, &t, nil)
	if err != nil {
		return false, err
	}
	if !t.Here {
		t.Here = true
		here, _ := k.replace(ctx, kind, &t, nil)
		old = cmp.Or(old, here)
	}
	if old != nil {
		k.noteKey(ctx, &t, nil, old, who)
	}
	return old != nil, nil
}

// replace puts what create makes in the place of the entry of a kind for the key of t,
// which it returns; nil means none.
func (k *Keys) replace(ctx context.Context, kind Kind, t *Target, create func(now int64) []Entry) (*Entry, error) {
	at := target{kind, counter{t.Limit.Scope, t.Key}, ""}
	isOld := func(e Entry) bool { return e.target() == at }
	change := func() ([]Entry, error) { return k.entries.replace(ctx, isOld, create) }
	if t.Here {
		change = func() ([]Entry, error) { return k.entries.replaceHere(isOld, create) }
	}
	old, err := change()
	if len(old) == 0 {
		return nil, err
	}
	return &old[0], err
}

// noteKey notes that e is in the place of was; nil means none.
func (k *Keys) noteKey(ctx context.Context, t *Target, e, was *Entry, who Author) {
	some := cmp.Or(e, was)
	words := kinds[some.Kind]
	without := words.without
	if some.Kind == Override {
		without = t.rate()
	}
	c := Change{By: who.By, Reason: who.Reason, Action: words.do, Subject: some.Subject,
		Before: without, After: without}
	what := words.done
	if was != nil {
		c.Before = was.describe()
	}
	if e != nil {
		c.After, c.At, c.YAML = e.describe(), e.Made, e.Snippet()
	} else {
		c.Action, what = words.undo, words.undone
	}
	k.audit.NoteChanges(ctx, what, c)
	if some.Kind == Override {
		k.warnOfRestart(t, e, was)
	}
}

// warnOfRestart logs that the key of t counts from zero under the override e, in the
// place of was; nil means none. Both fit their limit, or never had an effect.
func (k *Keys) warnOfRestart(t *Target, e, was *Entry) {
	with := func(e *Entry) *weir.Limit {
		if e != nil {
			if v, err := withNumbers(t.Limit, e); err == nil {
				return v
			}
		}
		return t.Limit
	}
	if why := k.restarts(with(e), with(was)); why != "" {
		k.audit.board.logger.Warn("key counts from zero since this change; it may use the old and the new count within one period",
			"domain", t.Domain, "entries", FormatEntries(t.Entries), "limit", t.Limit.Name, "reason", why)
	}
}

// ListEntries returns what is in force for single keys, the oldest first.
func (k *Keys) ListEntries() []Entry {
	all := k.entries.inForce(k.entries.inUse().keys...)
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(a.Made, b.Made) })
	return all
}

// EntriesOf returns what is in force for a key of a limit.
func (k *Keys) EntriesOf(l *weir.Limit, key string) []Entry {
	m := k.entries.inUse().marks[counter{l.Scope, key}]
	if m == nil {
		return nil
	}
	return k.entries.inForce(m.ban, m.override, m.allow)
}

// OfClient returns the bans over the domain that refuse r.
func (k *Keys) OfClient(r *weir.Request) []Entry {
	s, now := k.entries.inUse(), k.entries.board.storeTime()
	var bans []*Entry
	for i := range r.Descriptors {
		for _, e := range r.Descriptors[i].Entries {
			if b := s.banOf(r.Domain, e, now); b != nil {
				bans = append(bans, b.entry)
			}
		}
	}
	return k.entries.inForce(bans...)
}

// Views returns the views of entries, never nil.
func (k *Keys) Views(entries []Entry) []View {
	out := make([]View, len(entries))
	for i := range entries {
		out[i] = entries[i].view()
	}
	return out
}

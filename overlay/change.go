package overlay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
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
	ErrContended = errors.New("overlay: other nodes were changing bans and overrides all the while: try again")
	// ErrUnread: what is on the board cannot be read, so it is not changed.
	ErrUnread = errors.New("overlay: the document of bans and overrides in the store cannot be read, and is left as it is: " +
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

// Ban refuses the key of t for d, from now on, whatever was before. By says who
// wants it.
func (o *Overlay) Ban(ctx context.Context, t Target, d time.Duration, by string) error {
	if d <= 0 || d > weir.MaxPeriod {
		return fmt.Errorf("overlay: a ban of %s must be longer than nothing and at most ten years", d)
	}
	return o.put(ctx, t, by, "key banned", func(now int64) Entry {
		e := t.entry(Ban, now, by)
		e.Until = now + weir.Micros(d)
		return e
	})
}

// Override gives the key of t other numbers for d, or until they are taken back
// if d is zero.
func (o *Overlay) Override(ctx context.Context, t Target, n Numbers, d time.Duration, by string) error {
	if d < 0 || d > weir.MaxPeriod {
		return fmt.Errorf("overlay: an override for %s must be for at most ten years", d)
	}
	if n.Period == 0 {
		n.Period = t.Limit.Period
	}
	if n.Period < 0 || n.Period%time.Microsecond != 0 {
		return &NumbersError{fmt.Errorf("period %s must be whole microseconds", n.Period)}
	}
	if t.Limit.Anchor == weir.AnchorCalendar && n.Period != t.Limit.Period {
		return &NumbersError{fmt.Errorf("limit %q counts in windows of the calendar: leave the period as it is, %s", t.Limit.Name, period.Format(t.Limit.Period))}
	}
	of := func(now int64) Entry {
		e := t.entry(Override, now, by)
		e.Count, e.Period, e.Burst = n.Count, n.Period.Microseconds(), n.Burst
		if d > 0 {
			e.Until = now + weir.Micros(d)
		}
		return e
	}
	probe := of(0)
	if _, err := o.variant(t.Limit, &probe); err != nil {
		return &NumbersError{err}
	}
	return o.put(ctx, t, by, "limit of a key overridden", of)
}

// put puts an entry in the place of the one of its kind.
func (o *Overlay) put(ctx context.Context, t Target, by, what string, of func(now int64) Entry) error {
	var e Entry
	err := o.change(ctx, func(all []Entry, now int64) ([]Entry, bool) {
		e = of(now)
		return append(without(all, e.Kind, e.counter()), e), true
	})
	if err == nil {
		o.audit(what, &e, by)
	}
	return err
}

// Lift takes back the ban or the override of the key of t, and reports whether
// there was one.
func (o *Overlay) Lift(ctx context.Context, t Target, kind Kind, by string) (bool, error) {
	var was *Entry
	err := o.change(ctx, func(all []Entry, _ int64) ([]Entry, bool) {
		was = nil
		at := counter{t.Limit.Scope, t.Key}
		for i := range all {
			if all[i].Kind == kind && all[i].counter() == at {
				was = &all[i]
			}
		}
		return without(all, kind, at), was != nil
	})
	if err == nil && was != nil {
		o.audit(map[Kind]string{Ban: "ban lifted", Override: "override taken back"}[kind], was, by)
	}
	return was != nil, err
}

// audit logs a change that was made.
func (o *Overlay) audit(what string, e *Entry, by string) {
	args := []any{"domain", e.Domain, "entries", e.words(), "limit", e.Limit, "by", by, "yaml", e.YAML()}
	if e.Until > 0 {
		args = append(args, "until", time.UnixMicro(e.Until).UTC().Format(time.RFC3339))
	}
	o.opt.Logger.Info(what, args...)
}

// words are the entry's facts as a command line writes them.
func (e *Entry) words() string {
	words := make([]string, len(e.Entries))
	for i, p := range e.Entries {
		words[i] = p.Key + "=" + p.Value
	}
	return strings.Join(words, " ")
}

// without returns a copy of all without the entry of kind at a counter.
func without(all []Entry, kind Kind, at counter) []Entry {
	return slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return e.Kind == kind && e.counter() == at })
}

const (
	// tries is how often a change is made anew when another node was faster, and
	// longestPause the most that it waits before.
	tries        = 64
	longestPause = 40 * time.Millisecond
)

// change makes a change by compare and set: of the entries that are on the board
// and not over, f makes those that shall be, and says whether there is a change.
func (o *Overlay) change(ctx context.Context, f func(all []Entry, now int64) ([]Entry, bool)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range tries {
		d, entries, err := o.current(ctx)
		if err != nil {
			return err
		}
		now := o.now()
		next, changed := f(slices.DeleteFunc(entries, func(e Entry) bool { return e.over(now) }), now)
		if !changed {
			return nil
		}
		data, err := encode(next)
		if err != nil {
			return err
		}
		put, err := o.opt.Board.SwapDocument(ctx, o.opt.Name, d.Version, weir.Document{Version: o.version, Data: data})
		switch {
		case err == nil:
			o.install(put.Version, data, next)
			return nil
		case !errors.Is(err, weir.ErrChanged):
			return &StoreError{err}
		}
		if err := pause(ctx, rand.N(longestPause)); err != nil {
			return &StoreError{err}
		}
	}
	return ErrContended
}

// current returns the document on the board and its entries; the node's own if
// the board has an older one or none. Requires: mu.
func (o *Overlay) current(ctx context.Context) (weir.Document, []Entry, error) {
	d, err := o.read(ctx, 0)
	switch {
	case errors.Is(err, weir.ErrDocument):
		return d, nil, fmt.Errorf("%w (%w)", ErrUnread, err)
	case err != nil:
		return d, nil, &StoreError{err}
	case d.Version < o.version:
		entries, err := Decode(o.data)
		return d, entries, err
	case d.Version == 0:
		return d, nil, nil
	}
	entries, err := Decode(d.Data)
	if err != nil {
		return d, nil, fmt.Errorf("%w (%w)", ErrUnread, err)
	}
	return d, entries, nil
}

// pause waits for d, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Count returns how many bans and overrides are in force.
func (o *Overlay) Count() (bans, overrides int) {
	s := o.set.Load()
	if s == nil {
		return 0, 0
	}
	now := o.now()
	for i := range s.entries {
		switch e := &s.entries[i]; {
		case e.over(now):
		case e.Kind == Ban:
			bans++
		default:
			overrides++
		}
	}
	return bans, overrides
}

// Entries returns what is in force, the oldest first.
func (o *Overlay) Entries() []Entry {
	s := o.set.Load()
	if s == nil {
		return nil
	}
	now := o.now()
	return slices.DeleteFunc(slices.Clone(s.entries), func(e Entry) bool { return e.over(now) })
}

// Of returns what is in force for a key of a limit.
func (o *Overlay) Of(l *weir.Limit, key string) []Entry {
	s := o.set.Load()
	if s == nil {
		return nil
	}
	m := s.marks[counter{l.Scope, key}]
	if m == nil {
		return nil
	}
	now := o.now()
	var out []Entry
	for _, e := range []*Entry{m.ban, m.override} {
		if e != nil && !e.over(now) {
			out = append(out, *e)
		}
	}
	return out
}

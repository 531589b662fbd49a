package overlay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/limits"
)

// Modes are the modes that operators gave to limits. Safe for concurrent use.
type Modes struct {
	entries  *entries
	audit    *Audit
	variants *variants
}

// Limits returns the limits whose mode can be changed.
func (m *Modes) Limits() []*limits.Limit { return m.variants.limits.list() }

// Set gives limits another mode for d, or until it is taken back if d is zero,
// all or none of them. What they have counted stays, and goes on.
func (m *Modes) Set(ctx context.Context, of []*limits.Limit, s Setting, d time.Duration, who Author) error {
	if d < 0 || d > weir.MaxPeriod {
		return fmt.Errorf("overlay: a mode for %s must be for at most ten years", d)
	}
	if err := s.checkFields(); err != nil {
		return &ModeError{err}
	}
	var distinct []*limits.Limit // tiers can have limits of one name
	was := make(map[limitID]*Entry, len(of))
	for _, p := range of {
		if s.Mode != Off {
			if _, err := m.variants.inMode(p.Limit, s); err != nil {
				return &ModeError{err}
			}
		}
		if _, ok := was[idOf(p)]; !ok {
			was[idOf(p)] = nil
			distinct = append(distinct, p)
		}
	}
	var after Entry
	old, err := m.entries.replace(ctx, func(e Entry) bool {
		_, ok := was[e.limitID()]
		return ok && e.Kind == KindMode
	}, func(now int64) []Entry {
		after = Entry{Kind: KindMode, Mode: s.Mode, Percent: s.Percent, Made: now, By: who.By, Reason: strings.Clone(who.Reason)}
		if d > 0 {
			after.Until = now + micros.Of(d)
		}
		all := make([]Entry, len(distinct))
		for i, p := range distinct {
			all[i] = after
			all[i].Domain, all[i].Rule, all[i].Limit, all[i].Scope = strings.Clone(p.Rule.Domain), strings.Clone(p.RuleName()), p.Limit.Name, p.Scope
		}
		return all
	})
	if err != nil {
		return err
	}
	for i := range old {
		was[old[i].limitID()] = &old[i]
	}
	var list []Change
	for _, p := range of {
		list = mergeChange(list, Change{At: after.Made, By: who.By, Reason: who.Reason, Action: kinds[KindMode].do, Subject: Subject{Domain: p.Rule.Domain, Rule: p.RuleName(), Limit: p.Limit.Name},
			Before: describeBefore(was[idOf(p)], p), After: after.describe()})
	}
	for i := range list {
		c := &list[i]
		c.YAML = modeSnippet(s, after.endTime(), []string{limitWords(c.Domain, c.Rule, c.Limit)})
	}
	m.audit.NoteChanges(ctx, kinds[KindMode].done, list...)
	return nil
}

// mergeChange appends a change of a mode to list, or adds its limit to the last one
// that is the same otherwise.
func mergeChange(list []Change, c Change) []Change {
	if n := len(list); n > 0 {
		l := &list[n-1]
		if l.Domain == c.Domain && l.Rule == c.Rule && l.Before == c.Before && l.After == c.After {
			if l.last != c.Limit { // else written as one limit
				l.Limit += ", " + c.Limit
			}
			l.last = c.Limit
			return list
		}
	}
	c.last = c.Limit
	return append(list, c)
}

// describeBefore says in words how a limit stood in a mode, nil for none.
func describeBefore(s *Entry, p *limits.Limit) string {
	if s != nil {
		return s.describe()
	}
	return SettingOf(p.Limit).String() + " by the rules"
}

// Clear takes modes back that operators gave, and returns how many: those that
// of chooses. The limits have the mode of the rules again.
func (m *Modes) Clear(ctx context.Context, of func(*Entry) bool, who Author) (int, error) {
	old, err := m.entries.replace(ctx, func(e Entry) bool { return e.Kind == KindMode && of(&e) }, nil)
	if err != nil {
		return 0, err
	}
	refs := m.variants.limits.indexByID()
	var list []Change
	for _, s := range old {
		c := Change{By: who.By, Reason: who.Reason, Action: kinds[KindMode].do, Subject: s.Subject, Before: s.describe(), After: "no such limit in the rules"}
		if p, ok := refs[s.limitID()]; ok {
			c.After = describeBefore(nil, p)
		}
		list = mergeChange(list, c)
	}
	m.audit.NoteChanges(ctx, kinds[KindMode].undone, list...)
	return len(old), nil
}

// ListEntries returns the modes that are in force, also those that wait for a limit
// that the rules do not have, sorted by domain, rule and limit.
func (m *Modes) ListEntries() []Entry {
	all := m.entries.inForce(m.entries.inUse().modes...)
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Limit, b.Limit))
	})
	return all
}

// ViewOfLimit returns the view of the mode in force that an operator gave a limit of the rules, nil
// for none.
func (m *Modes) ViewOfLimit(l *weir.Limit) *ModeView {
	s := m.entries.inUse().byLimit[limitID{l.Scope, l.Name}]
	if s == nil || s.hasEnded(m.entries.board.storeTime()) {
		return nil
	}
	ref := m.variants.limits.findLimit(l)
	v := s.Entry.modeView(ref)
	return &v
}

// Views returns the views of the modes that are in force, one for all limits
// that go by the same words.
func (m *Modes) Views() []ModeView {
	all := slices.CompactFunc(m.ListEntries(), func(a, b Entry) bool {
		return a.Domain == b.Domain && a.Rule == b.Rule && a.Limit == b.Limit
	})
	out := make([]ModeView, len(all))
	if len(all) == 0 {
		return out
	}
	refs := m.variants.limits.indexByID()
	for i := range all {
		out[i] = all[i].modeView(refs[all[i].limitID()])
	}
	return out
}

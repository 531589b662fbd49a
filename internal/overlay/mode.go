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
)

// ModeError: a limit cannot have a mode.
type ModeError struct{ Err error }

func (e *ModeError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *ModeError) Unwrap() error { return e.Err }

// LimitRefs returns the limits whose mode can be changed.
func (o *Overlay) LimitRefs() []LimitRef {
	if o.opt.LimitRefs == nil {
		return nil
	}
	return o.opt.LimitRefs()
}

// refOf returns the place of a limit. Rules that were reloaded have other limits:
// then all places are read again, once.
func (o *Overlay) refOf(l *weir.Limit) (LimitRef, bool) {
	if all := o.index.Load(); all != nil {
		if p, ok := (*all)[l]; ok {
			return p, true
		}
	}
	all := make(map[*weir.Limit]LimitRef)
	for _, p := range o.LimitRefs() {
		all[p.Limit] = p
	}
	o.index.Store(&all)
	p, ok := all[l]
	return p, ok
}

func (p *LimitRef) yaml(s Setting) string {
	if p.YAML == nil {
		return ""
	}
	return p.YAML(s.Mode, s.Percent)
}

// SetMode gives limits another mode for d, or until it is taken back if d is zero,
// all or none of them. What they have counted stays, and goes on.
func (o *Overlay) SetMode(ctx context.Context, refs []LimitRef, s Setting, d time.Duration, who Author) error {
	if d < 0 || d > weir.MaxPeriod {
		return fmt.Errorf("overlay: a mode for %s must be for at most ten years", d)
	}
	if err := s.check(); err != nil {
		return &ModeError{err}
	}
	for _, p := range refs {
		if s.Mode == Off {
			continue
		}
		to, err := in(p.Limit, s)
		if err == nil && o.opt.Check != nil {
			err = o.opt.Check(to)
		}
		if err != nil {
			return &ModeError{err}
		}
	}
	was := make(map[limitID]*Entry, len(refs))
	var made, until int64
	err := o.change(ctx, func(all []Entry, now int64) ([]Entry, bool) {
		clear(was)
		if made = now; d > 0 {
			until = now + micros.Of(d)
		}
		for _, p := range refs {
			was[p.limitID()] = nil
		}
		all = slices.DeleteFunc(all, func(e Entry) bool {
			if _, ok := was[e.limitID()]; !ok || e.Kind != KindMode {
				return false
			}
			found := e
			was[e.limitID()] = &found
			return true
		})
		done := make(map[limitID]bool, len(refs))
		for _, p := range refs {
			if done[p.limitID()] {
				continue // tiers can have limits of one name
			}
			done[p.limitID()] = true
			all = append(all, Entry{Kind: KindMode, Domain: strings.Clone(p.Domain), Rule: strings.Clone(p.Rule), Limit: p.Limit.Name, Scope: p.Limit.Scope,
				Mode: s.Mode, Percent: s.Percent, Until: until, Made: now, By: who.By, Reason: strings.Clone(who.Reason)})
		}
		return all, len(refs) > 0
	})
	if err != nil {
		return err
	}
	after := Entry{Kind: KindMode, Mode: s.Mode, Percent: s.Percent, Until: until}
	var list []Change
	for i := range refs {
		p := &refs[i]
		list = mergeChange(list, Change{At: made, By: who.By, Reason: who.Reason, Action: kinds[KindMode].do, Domain: p.Domain, Rule: p.Rule,
			Limit: p.Limit.Name, Before: describeBefore(was[p.limitID()], p), After: after.describe(), YAML: p.yaml(s)})
	}
	o.noteAll(ctx, kinds[KindMode].done, list)
	return nil
}

func (p *LimitRef) limitID() limitID { return limitID{p.Limit.Scope, p.Limit.Name} }

// mergeChange appends a change of a mode to list, or adds its limit to the last one
// that is the same otherwise.
func mergeChange(list []Change, c Change) []Change {
	if n := len(list); n > 0 {
		l := &list[n-1]
		if l.Domain == c.Domain && l.Rule == c.Rule && l.Before == c.Before && l.After == c.After {
			if l.last != c.Limit { // else written as one limit
				l.Limit, l.YAML = l.Limit+", "+c.Limit, l.YAML+c.YAML
			}
			l.last = c.Limit
			return list
		}
	}
	c.last = c.Limit
	return append(list, c)
}

// describeBefore says in words how a limit stood in a mode, nil for none.
func describeBefore(s *Entry, p *LimitRef) string {
	if s != nil {
		return s.describe()
	}
	return SettingOf(p.Limit).String() + " by the rules"
}

// ClearMode takes modes back that operators gave, and returns how many: those that
// of chooses. The limits have the mode of the rules again.
func (o *Overlay) ClearMode(ctx context.Context, of func(*Entry) bool, who Author) (int, error) {
	var was []Entry
	err := o.change(ctx, func(all []Entry, _ int64) ([]Entry, bool) {
		was = nil
		rest := slices.DeleteFunc(all, func(e Entry) bool {
			if e.Kind != KindMode || !of(&e) {
				return false
			}
			was = append(was, e)
			return true
		})
		return rest, len(was) > 0
	})
	if err != nil {
		return 0, err
	}
	refs := o.LimitRefs()
	byRef := make(map[limitID]*LimitRef, len(refs))
	for i := range refs {
		byRef[refs[i].limitID()] = &refs[i]
	}
	var list []Change
	for _, s := range was {
		c := Change{By: who.By, Reason: who.Reason, Action: kinds[KindMode].do, Domain: s.Domain, Rule: s.Rule, Limit: s.Limit, Before: s.describe(), After: "no such limit in the rules"}
		if p := byRef[s.limitID()]; p != nil {
			c.After, c.YAML = describeBefore(nil, p), p.yaml(SettingOf(p.Limit))
		}
		list = mergeChange(list, c)
	}
	o.noteAll(ctx, kinds[KindMode].undone, list)
	return len(was), nil
}

// Switches returns the modes that are in force, also those that wait for a limit
// that the rules do not have, sorted by domain, rule and limit.
func (o *Overlay) Switches() []Entry {
	s := inUse(o)
	now := o.now()
	var all []Entry
	for _, m := range s.switches {
		if !m.over(now) {
			all = append(all, *m.Entry)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Limit, b.Limit))
	})
	return all
}

// SwitchOf returns the view of the mode in force that an operator gave a limit of the
// rules, nil for none.
func (o *Overlay) SwitchOf(l *weir.Limit) *SwitchView {
	s := inUse(o)
	m := s.switches[limitID{l.Scope, l.Name}]
	if m == nil || m.over(o.now()) {
		return nil
	}
	ref, _ := o.refOf(l)
	v := m.Entry.switchView(ref)
	return &v
}

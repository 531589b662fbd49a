package overlay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// ModeError: a limit cannot have a mode.
type ModeError struct{ Err error }

func (e *ModeError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *ModeError) Unwrap() error { return e.Err }

// Places returns the limits whose mode can be changed.
func (o *Overlay) Places() []Place {
	if o.opt.Places == nil {
		return nil
	}
	return o.opt.Places()
}

func (p *Place) yaml(s Setting) string {
	if p.YAML == nil {
		return ""
	}
	return p.YAML(s.Mode, s.Percent)
}

// SetMode gives limits another mode for d, or until it is taken back if d is zero,
// all or none of them. What they have counted stays, and goes on.
func (o *Overlay) SetMode(ctx context.Context, places []Place, s Setting, d time.Duration, who Author) error {
	if d < 0 || d > weir.MaxPeriod {
		return fmt.Errorf("overlay: a mode for %s must be for at most ten years", d)
	}
	if err := s.check(); err != nil {
		return &ModeError{err}
	}
	for _, p := range places {
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
	var was []*Switch
	var made []Switch
	err := change(ctx, o, &o.more, func(all []item, now int64) ([]item, bool) {
		was, made = nil, nil
		all = slices.Clone(all)
		for _, p := range places {
			sw := Switch{Kind: KindMode, Domain: strings.Clone(p.Domain), Rule: strings.Clone(p.Rule), Limit: p.Limit.Name, Scope: p.Limit.Scope,
				Mode: s.Mode, Percent: s.Percent, Made: now, By: who.By, Reason: strings.Clone(who.Reason)}
			if d > 0 {
				sw.Until = now + weir.Micros(d)
			}
			var old *Switch
			all = slices.DeleteFunc(all, func(it item) bool {
				if it.mode == nil || it.mode.place() != sw.place() {
					return false
				}
				old = it.mode
				return true
			})
			all, was, made = append(all, item{mode: &sw}), append(was, old), append(made, sw)
		}
		return all, len(made) > 0
	})
	if err != nil {
		return err
	}
	for i, p := range places {
		if i > 0 && p.Domain == places[i-1].Domain && p.Rule == places[i-1].Rule && p.Limit.Name == places[i-1].Limit.Name {
			continue // written as one limit
		}
		o.Note(ctx, "mode of a limit changed", Change{At: made[i].Made, By: who.By, Reason: who.Reason, Action: "mode", Domain: p.Domain, Rule: p.Rule,
			Limit: p.Limit.Name, Before: stood(was[i], &p), After: made[i].says(), YAML: p.yaml(s)})
	}
	return nil
}

// stood says in words how a limit stood under a switch, nil for none.
func stood(s *Switch, p *Place) string {
	if s != nil {
		return s.says()
	}
	return SettingOf(p.Limit).String() + " by the rules"
}

// ClearMode takes modes back that operators gave, and returns how many: those that
// of chooses. The limits have the mode of the rules again.
func (o *Overlay) ClearMode(ctx context.Context, of func(*Switch) bool, who Author) (int, error) {
	var was []*Switch
	err := change(ctx, o, &o.more, func(all []item, _ int64) ([]item, bool) {
		was = nil
		rest := slices.DeleteFunc(slices.Clone(all), func(it item) bool {
			if it.mode == nil || !of(it.mode) {
				return false
			}
			was = append(was, it.mode)
			return true
		})
		return rest, len(was) > 0
	})
	if err != nil {
		return 0, err
	}
	places := o.Places()
	for i, s := range was {
		if i > 0 && s.Domain == was[i-1].Domain && s.Rule == was[i-1].Rule && s.Limit == was[i-1].Limit {
			continue // written as one limit
		}
		c := Change{By: who.By, Reason: who.Reason, Action: "mode", Domain: s.Domain, Rule: s.Rule, Limit: s.Limit, Before: s.says(), After: "no such limit in the rules"}
		for _, p := range places {
			if s.place() == (place{p.Limit.Scope, p.Limit.Name}) {
				c.After, c.YAML = stood(nil, &p), p.yaml(SettingOf(p.Limit))
			}
		}
		o.Note(ctx, "mode of a limit taken back", c)
	}
	return len(was), nil
}

// Switches returns the modes that are in force, also those that wait for a limit
// that the rules do not have, sorted by domain, rule and limit.
func (o *Overlay) Switches() []Switch {
	s := o.set.Load()
	if s == nil {
		return nil
	}
	now := o.now()
	var all []Switch
	for _, m := range s.switches {
		if !m.over(now) {
			all = append(all, *m.Switch)
		}
	}
	slices.SortFunc(all, func(a, b Switch) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Limit, b.Limit))
	})
	return all
}

// SwitchOf returns the mode in force that an operator gave a limit, nil for none.
func (o *Overlay) SwitchOf(l *weir.Limit) *Switch {
	s := o.set.Load()
	if s == nil {
		return nil
	}
	m := s.switches[place{l.Scope, l.Name}]
	if m == nil || m.over(o.now()) {
		return nil
	}
	found := *m.Switch
	return &found
}

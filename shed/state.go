package shed

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/period"
	"github.com/weirlimit/weir/internal/spell"
	"github.com/weirlimit/weir/limits"
)

// State is what a shedder does and has done since its start.
type State struct {
	// Off: the kill switch is thrown.
	Off bool `json:"off"`
	// Limiters are the four, in the order in which the package lists them.
	Limiters []LimiterState `json:"limiters"`
	// UnknownUsers and WithoutLease count the requests that met no limit per
	// user, or none on how many run at once, for want of a user or a lease.
	UnknownUsers uint64 `json:"unknown_users"`
	WithoutLease uint64 `json:"without_lease"`
	// Settings are what Set takes, with their present values.
	Settings map[string]string `json:"settings"`
}

// LimiterState is one limiter.
type LimiterState struct {
	Name string `json:"name"`
	// Mode is what it does at present; off while the kill switch is thrown.
	Mode Mode `json:"mode"`
	// Limit as in the options. Empty means that there is none.
	Limit string `json:"limit"`
	// Burst of user_rate, TTL in seconds of user_concurrency, and Reserved
	// units of fleet_share.
	Burst    int64   `json:"burst,omitempty"`
	TTL      float64 `json:"ttl,omitempty"`
	Reserved int64   `json:"headroom,omitempty"`
	// InFlight is how many requests hold a place on this node, ShadowInFlight
	// how many more run that a shadow would have refused. Of in_flight alone.
	InFlight       *int64 `json:"in_flight,omitempty"`
	ShadowInFlight *int64 `json:"shadow_in_flight,omitempty"`
	// Classes are what came of requests: one without a name for the limits per
	// user, which know no classes.
	Classes []ClassState `json:"classes"`
}

// ClassState is what came of the requests of one class under one limiter.
type ClassState struct {
	Class string `json:"class,omitempty"`
	// Threshold is how many requests may be under way before the class is
	// refused. Of in_flight alone.
	Threshold     *int64 `json:"threshold,omitempty"`
	Allowed       uint64 `json:"allowed"`
	Refused       uint64 `json:"refused"`
	ShadowRefused uint64 `json:"shadow_refused"`
}

func classState(class string, l *weir.Limit) ClassState {
	c := l.Counters()
	return ClassState{Class: class, Allowed: c.Load(weir.Allowed), Refused: c.Load(weir.Refused), ShadowRefused: c.Load(weir.ShadowRefused)}
}

// State returns how things stand. Its numbers are read one by one while requests
// go on, so they need not add up.
func (s *Shedder) State() State {
	st := State{Off: s.off.Load(), UnknownUsers: s.unknown.Load(weir.Allowed), WithoutLease: s.leaseless.Load(weir.Allowed)}
	st.Limiters = make([]LimiterState, limiters)
	for i := range st.Limiters {
		st.Limiters[i] = LimiterState{Name: limiterNames[i], Mode: s.mode(i), Classes: []ClassState{}}
	}
	if l := &st.Limiters[userRate]; s.rate != nil {
		l.Limit, l.Burst, l.Classes = s.opt.UserRate.Limit.String(), s.rate.Burst, append(l.Classes, classState("", s.rate))
	}
	if l := &st.Limiters[userConcurrency]; s.concurrency != nil {
		l.Limit, l.TTL = strconv.FormatInt(s.concurrency.Count, 10), s.concurrency.Period.Seconds()
		l.Classes = append(l.Classes, classState("", s.concurrency))
	}
	if l := &st.Limiters[fleetShare]; s.fleet[0] != nil {
		l.Limit, l.Reserved = s.opt.FleetShare.Limit.String(), s.opt.FleetShare.reserved()
		for c, f := range s.fleet {
			l.Classes = append(l.Classes, classState(priorityNames[c], f))
		}
	}
	l, t := &st.Limiters[inFlight], s.node.thresholds.Load()
	used, over := s.node.used.Load(), s.node.over.Load()
	l.InFlight, l.ShadowInFlight = &used, &over
	if t.limit > 0 {
		l.Limit = strconv.FormatInt(t.limit, 10)
		for c, n := range s.node.names {
			cs := classState(priorityNames[c], n)
			cs.Threshold = &t.of[c]
			l.Classes = append(l.Classes, cs)
		}
	}
	d := s.draft()
	st.Settings = d.texts()
	return st
}

// Refs returns every limit whose counters tell what was shed; Rule is the limiter. The list
// does not change.
func (s *Shedder) Refs() []limits.Ref {
	var all []limits.Ref
	add := func(limiter int, some ...*weir.Limit) {
		for _, l := range some {
			if l != nil {
				all = append(all, limits.Ref{Domain: "(" + s.opt.Name + ")", Rule: limiterNames[limiter], Limit: l})
			}
		}
	}
	add(userRate, s.rate)
	add(userConcurrency, s.concurrency)
	add(fleetShare, s.fleet[:]...)
	add(inFlight, s.node.names[:]...)
	return all
}

// Names of what Set takes: the kill switch, the modes of the limiters, the
// in-flight limit and its shares.
const (
	settingOff   = "off"
	settingLimit = "in_flight.limit"
	shareBefore  = "in_flight.shares."
)

var settingNames = func() []string {
	names := append([]string{settingOff}, limiterNames[:]...)
	names = append(names, settingLimit)
	for _, c := range priorityNames {
		names = append(names, shareBefore+c)
	}
	return names
}()

// Settings returns the names that Set takes.
func Settings() []string { return slices.Clone(settingNames) }

// draft is all that can be set, on its way to be checked.
type draft struct {
	off    bool
	modes  [limiters]Mode
	limit  int64
	shares [classes]Share
}

func (s *Shedder) draft() draft {
	t := s.node.thresholds.Load()
	d := draft{off: s.off.Load(), limit: t.limit, shares: t.shares}
	for i := range d.modes {
		d.modes[i] = Mode(s.modes[i].Load())
	}
	return d
}

// texts returns the values of the settings as Set takes them.
func (d *draft) texts() map[string]string {
	all := map[string]string{settingOff: strconv.FormatBool(d.off), settingLimit: strconv.FormatInt(d.limit, 10)}
	for i, m := range d.modes {
		all[limiterNames[i]] = m.String()
	}
	for c, share := range d.shares {
		all[shareBefore+priorityNames[c]] = share.String()
	}
	return all
}

// changeSetting reads one setting into d.
func (d *draft) changeSetting(name, value string) (err error) {
	limiter := slices.Index(limiterNames[:], name)
	switch {
	case name == settingOff:
		if d.off = value == "true"; !d.off && value != "false" {
			err = fmt.Errorf("%q: write true or false", clipText(value))
		}
	case name == settingLimit:
		if d.limit, err = period.Count(clipText(value)); err == nil && d.limit < 1 {
			err = fmt.Errorf("%d must be at least 1; to have none set in_flight to off", d.limit)
		}
	case limiter >= 0:
		d.modes[limiter], err = parseMode(value)
	case slices.Contains(settingNames, name):
		d.shares[slices.Index(priorityNames[:], name[len(shareBefore):])], err = parseShare(value)
	default:
		return fmt.Errorf("unknown setting %q: %s", clipText(name), spell.Cure(name, settingNames))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Set changes settings by their names while requests go on: "off" to true or
// false is the kill switch, a limiter's name to enforce, shadow or off its mode,
// which the kill switch leaves as it is; "in_flight.limit" to a number,
// "in_flight.shares.background" and so on to percentages.
//
// All are changed or, with an error, none is. Requests see the changes one after
// the other. A changed limit or share holds for who enters from then on. Changes
// are forgotten at a restart, and concern this node alone.
func (s *Shedder) Set(settings map[string]string) error {
	s.set.Lock()
	defer s.set.Unlock()
	d := s.draft()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := d.changeSetting(name, settings[name]); err != nil {
			errs = append(errs, err)
		}
	}
	if errs == nil {
		// Only now, so that one fault is not told as several.
		errs = append(errs, s.checkConflicts(&d))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("shed: nothing was changed: %w", err)
	}
	t, err := newThresholds(d.limit, d.shares)
	if err != nil {
		return fmt.Errorf("shed: nothing was changed: %w", err)
	}
	// Off first, on last: nothing refuses in between that should not.
	if d.off {
		s.off.Store(true)
	}
	s.node.thresholds.Store(t)
	for i, m := range d.modes {
		s.modes[i].Store(uint32(m))
	}
	s.off.Store(d.off)
	return nil
}

// checkConflicts reports what in d makes no sense together.
func (s *Shedder) checkConflicts(d *draft) error {
	var errs []error
	for i, has := range s.limited(d.limit) {
		if !has && d.modes[i] != Off {
			errs = append(errs, fmt.Errorf("%s cannot be %s: it has no limit; %s", limiterNames[i], d.modes[i], howToLimit(i)))
		}
	}
	return errors.Join(errs...)
}

func howToLimit(limiter int) string {
	if limiter == inFlight {
		return "set in_flight.limit with it"
	}
	return "give it " + limiterNames[limiter] + ".limit in the configuration"
}

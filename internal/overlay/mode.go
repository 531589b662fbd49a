package overlay

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
)

// Mode is what an operator makes of a limit of the rules.
type Mode string

// Modes of a limit.
const (
	// Enforced: it refuses, for all of its keys or for some percent of them, the
	// same ones always; for the others it is a shadow.
	Enforced Mode = "enforce"
	// Shadow: it counts what it would refuse.
	Shadow Mode = "shadow"
	// Off: it is not asked, and nothing is charged to it. What was charged before
	// can be given back.
	Off Mode = "off"
)

// Setting is a mode and its share.
type Setting struct {
	Mode Mode
	// Percent of the keys that are refused, 1 to 100, with Enforced. Zero
	// otherwise.
	Percent int64
}

// checkFields reports what is wrong with a setting.
func (s Setting) checkFields() error {
	switch s.Mode {
	case Enforced:
		if s.Percent < 1 || s.Percent > 100 {
			return fmt.Errorf("%d percent must be between 1 and 100: to refuse nothing, use shadow", s.Percent)
		}
	case Shadow, Off:
		if s.Percent != 0 {
			return fmt.Errorf("percent is for %s, not for %s", Enforced, s.Mode)
		}
	default:
		return fmt.Errorf("mode %q is none of %s, %s and %s", s.Mode, Enforced, Shadow, Off)
	}
	return nil
}

// String returns the setting in a word: "shadow", "off", "enforce", "10%".
func (s Setting) String() string {
	if s.Mode == Enforced && s.Percent < 100 {
		return strconv.FormatInt(s.Percent, 10) + "%"
	}
	return string(s.Mode)
}

// SettingOf returns the setting that a limit has by the rules.
func SettingOf(l *weir.Limit) Setting {
	switch {
	case l.Shadow:
		return Setting{Mode: Shadow}
	case l.Rollout > 0:
		return Setting{Enforced, l.Rollout}
	}
	return Setting{Enforced, 100}
}

// Setting returns the mode of an entry and its share.
func (e *Entry) Setting() Setting { return Setting{e.Mode, e.Percent} }

// limitID names one limit of the rules, the same on every node. The limits of a
// rule's tiers share their scope, and not their names.
type limitID struct{ scope, name string }

func (e *Entry) limitID() limitID { return limitID{e.Scope, e.Limit} }

func idOf(l *limits.Limit) limitID { return limitID{l.Scope, l.Limit.Name} }

// changeable are the limits of the rules whose mode operators may change.
type changeable struct {
	list func() []*limits.Limit
	// byLimit is the list as it was when a limit was last looked for in vain. Nil
	// before.
	byLimit atomic.Pointer[map[*weir.Limit]*limits.Limit]
}

// findLimit returns the limit of a rule, nil for any other. Rules that were reloaded have other limits: then all
// are read again, once.
func (r *changeable) findLimit(l *weir.Limit) *limits.Limit {
	if known := r.byLimit.Load(); known != nil {
		if p := (*known)[l]; p != nil {
			return p
		}
	}
	known := make(map[*weir.Limit]*limits.Limit)
	for _, p := range r.list() {
		known[p.Limit] = p
	}
	r.byLimit.Store(&known)
	return known[l]
}

// indexByID returns the limits by what names them on every node.
func (r *changeable) indexByID() map[limitID]*limits.Limit {
	all := map[limitID]*limits.Limit{}
	for _, p := range r.list() {
		all[idOf(p)] = p
	}
	return all
}

package overlay

import (
	"fmt"
	"strconv"

	"github.com/weirlimit/weir"
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

// LimitRef is one limit of the rules, and the words that name it.
type LimitRef struct {
	// Domain and Rule are the words of the rules.
	Domain, Rule string
	// Limit that decides there. It must be compiled.
	Limit *weir.Limit
	// Denies: the limit is one of 0, which refuses everything.
	Denies bool
	// Priority is the best that requests have under the limit, 0 the highest.
	Priority int
	// YAML returns what a mode of the limit amounts to in a rules file. Nil means
	// that nothing is said of it.
	YAML func(m Mode, percent int64) string
}

// Setting is a mode and its share.
type Setting struct {
	Mode Mode
	// Percent of the keys that are refused, 1 to 100, with Enforced. Zero
	// otherwise.
	Percent int64
}

// check reports what is wrong with a setting.
func (s Setting) check() error {
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

// switched is a mode in use, and the limits that it makes.
type switched struct {
	*Entry
	made remembered
}

// as returns what the mode makes of l. It allocates the first time.
func (s *switched) as(o *Overlay, l *weir.Limit) *made {
	if m := s.made.find(l); m != nil {
		return m
	}
	m := made{limit: l}
	denies := l.Count == 0
	if p, ok := o.refOf(l); ok {
		m.priority, denies = p.Priority, p.Denies
	}
	if s.Mode != Off {
		to, err := in(l, s.Setting())
		if err == nil && o.opt.Check != nil {
			err = o.opt.Check(to)
		}
		if err != nil {
			o.opt.Logger.Error("mode without effect: it does not fit its limit any more", "domain", s.Domain, "rule", s.Rule, "limit", l.Name,
				"mode", s.Setting().String(), "err", err)
		} else if m.to = to; denies {
			m.denial = denialOf(l)
		}
	}
	return s.made.add(m)
}

// in returns l in another mode, with the same counters and state.
func in(l *weir.Limit, s Setting) (*weir.Limit, error) {
	if l.Count > 0 {
		return l.Enforced(s.Percent)
	}
	// A limit of 0 is counted by the store as one that its requests never fit, as
	// rules do for their shadows.
	v := &weir.Limit{Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: 1, Period: l.Period,
		Mode: weir.Mode{Shadow: s.Mode == Shadow, Rollout: s.Percent}}
	if err := v.Compile(); err != nil {
		return nil, err
	}
	v.Inherit(l)
	return v, nil
}

// denialOf returns the limit of 0 that l is when it is no shadow.
func denialOf(l *weir.Limit) *weir.Limit {
	if l.Count == 0 {
		return l
	}
	v := &weir.Limit{Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: 1, Period: l.Period}
	if err := v.Compile(); err != nil {
		panic(err) // it was compiled with these numbers
	}
	v.Count, v.Burst = 0, 0 // Compile knows no limit of 0; nobody has seen this one yet
	v.Inherit(l)
	return v
}

// toNothing is what a request costs that never fits a limit of 1.
const toNothing = 2

// shift lays the modes over ops[from:n], which the rules matched: what follows
// them stays behind them. It returns the ops and the new end of those of the
// rules.
func (o *Overlay) shift(s *set, dst []weir.Op, from, n int, r *weir.Request) ([]weir.Op, int) {
	var now int64
	for i := from; i < n; i++ {
		op := &dst[i]
		if op.Limit == nil || op.Part != weir.PartLimit {
			continue
		}
		sw := s.switches[limitID{op.Limit.Scope, op.Limit.Name}]
		if sw == nil {
			continue
		}
		if now == 0 {
			now = o.now()
		}
		if sw.over(now) || sw.Mode == Off && r.Verb == weir.Refund {
			continue
		}
		begin, end := partsOf(dst[:n], i)
		begin = max(begin, from)
		var buf [4]weir.Op // a ban, a ceiling, the limit, its pool or lower threshold
		instead := buf[:0]
		if sw.Mode == Off {
			dst = o.refuse(s, dst, i, now, r)
		} else {
			m := sw.as(o, op.Limit)
			if m.to == nil {
				continue
			}
			instead = m.append(instead, op, r)
		}
		dst = replace(dst, begin, end, instead)
		n += len(instead) - (end - begin)
		i = begin + len(instead) - 1
	}
	return dst, n
}

// append appends the ops by which the request of op meets the limit in its mode.
func (m *made) append(dst []weir.Op, op *weir.Op, r *weir.Request) []weir.Op {
	was, cost := r.Priority, op.Cost
	r.Priority = max(was, m.priority)
	if m.denial != nil {
		cost = toNothing
	}
	dst = m.to.Append(dst, op.Key, cost, r)
	r.Priority = was
	if m.denial != nil && dst[0].Role != weir.Shadow {
		// Refused without asking the store.
		dst[0] = weir.Op{Key: op.Key, Limit: m.denial, Role: weir.Deny, Decision: weir.Decision{Limit: m.denial, RetryAfter: weir.Never}}
	}
	for i := range dst {
		dst[i].Verb, dst[i].Descriptor = op.Verb, op.Descriptor
	}
	return dst
}

// replace puts instead in the place of s[begin:end], within the capacity of
// s if that is enough.
func replace(s []weir.Op, begin, end int, instead []weir.Op) []weir.Op {
	by := len(instead) - (end - begin)
	for range by {
		s = append(s, weir.Op{})
	}
	old := len(s) - max(by, 0)
	copy(s[end+by:], s[end:old])
	copy(s[begin:], instead)
	return s[:old+by]
}

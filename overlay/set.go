package overlay

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// A set is a document in use. It is immutable, but for what marks remember.
type set struct {
	entries []Entry
	marks   map[counter]*mark
}

// newSet returns entries as a set, nil for none. What old has made of entries that
// are still there is kept, so that their limits stay the same.
func newSet(entries []Entry, old *set) *set {
	if len(entries) == 0 {
		return nil
	}
	s := &set{entries: entries, marks: make(map[counter]*mark, len(entries))}
	for i := range entries {
		e := &entries[i]
		m := s.marks[e.counter()]
		if m == nil {
			m = &mark{}
			s.marks[e.counter()] = m
		}
		if e.Kind == Ban {
			m.ban = e
		} else {
			m.override = e
		}
	}
	if old == nil {
		return s
	}
	for at, m := range s.marks {
		if was := old.marks[at]; was != nil && m.same(was) {
			m.made.Store(was.made.Load())
		}
	}
	return s
}

// A mark is what there is about one key of one limit.
type mark struct {
	ban, override *Entry
	// made are the limits by which the key is decided: rules are reloaded, and a
	// tier may choose among several limits of one place.
	made atomic.Pointer[[]made]
}

// same reports whether the limits that m makes are those of was.
func (m *mark) same(was *mark) bool {
	if (m.ban == nil) != (was.ban == nil) || (m.override == nil) != (was.override == nil) {
		return false
	}
	a, b := m.override, was.override
	return a == nil || a.Count == b.Count && a.Period == b.Period && a.Burst == b.Burst
}

// made is what a mark makes of one limit of the rules.
type made struct {
	limit *weir.Limit
	// banned is what decisions of a banned key name as their limit, with the
	// counters of limit. Nil without a ban.
	banned *weir.Limit
	// with is limit with the numbers of the override. Nil without one, and if
	// limit cannot have such numbers.
	with *weir.Limit
}

// mostMade bounds what a mark remembers; the oldest is made again.
const mostMade = 4

// of returns what m makes of l. It allocates the first time.
func (m *mark) of(o *Overlay, l *weir.Limit) *made {
	list := m.made.Load()
	if list != nil {
		for i := range *list {
			if v := &(*list)[i]; v.limit == l {
				return v
			}
		}
	}
	v := made{limit: l}
	if m.ban != nil {
		v.banned = bannedFrom(l)
	}
	if m.override != nil {
		with, err := o.variant(l, m.override)
		if err != nil {
			o.opt.Logger.Error("an override does not fit its limit any more and has no effect", "limit", l.Name,
				"entries", m.override.words(), "override", m.override.Rate(), "err", err)
		}
		v.with = with
	}
	next := []made{v}
	if list != nil {
		next = append(next, (*list)[:min(len(*list), mostMade-1)]...)
	}
	m.made.Store(&next)
	return &next[0]
}

const banMark = "\x1fbanned"

// bannedFrom returns the limit that decisions name which l's ban refuses.
func bannedFrom(l *weir.Limit) *weir.Limit {
	b := &weir.Limit{Name: l.Name + " (banned)", Scope: l.Scope + banMark, Algorithm: algorithm.FixedWindow, Count: l.Count, Period: l.Period}
	if err := b.Compile(); err != nil {
		panic(err) // a window takes any numbers that were a limit's
	}
	b.Inherit(l)
	return b
}

func isBan(l *weir.Limit) bool { return strings.HasSuffix(l.Scope, banMark) }

// variant returns l with the numbers of e.
func (o *Overlay) variant(l *weir.Limit, e *Entry) (*weir.Limit, error) {
	v, err := l.Variant(e.Count, time.Duration(e.Period)*time.Microsecond, e.Burst)
	if err == nil && o.opt.Check != nil {
		err = o.opt.Check(v)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

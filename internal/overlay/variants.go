package overlay

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

// variants make of the limits of the rules those that operators want. Safe for concurrent
// use.
type variants struct {
	limits changeable
	check  func(*weir.Limit) error
	logger *slog.Logger
}

// override returns l with the numbers of e.
func (v *variants) override(l *weir.Limit, e *Entry) (*weir.Limit, error) {
	return v.checked(withNumbers(l, e))
}

// inMode returns l in another mode.
func (v *variants) inMode(l *weir.Limit, s Setting) (*weir.Limit, error) {
	return v.checked(withMode(l, s))
}

func (v *variants) checked(l *weir.Limit, err error) (*weir.Limit, error) {
	if err == nil && v.check != nil {
		err = v.check(l)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// madeByMark returns what m makes of l. It allocates the first time.
func (v *variants) madeByMark(m *mark, l *weir.Limit) *made {
	if found := m.made.forLimit(l); found != nil {
		return found
	}
	out := made{limit: l}
	if m.ban != nil {
		out.banned = bannedFrom(l)
	}
	if m.override != nil {
		with, err := v.override(l, m.override)
		if err != nil {
			v.logger.Error("override without effect: it does not fit its limit any more", "limit", l.Name,
				"entries", FormatEntries(m.override.Entries), "override", m.override.Rate(), "err", err)
		}
		out.with = with
	}
	return m.made.remember(out)
}

// madeByMode returns what the mode s makes of l. It allocates the first time.
func (v *variants) madeByMode(s *modeInUse, l *weir.Limit) *made {
	if found := s.made.forLimit(l); found != nil {
		return found
	}
	out := made{limit: l}
	denies := l.Count == 0
	if p := v.limits.findLimit(l); p != nil {
		out.priority, denies = p.Priority, p.Denies
	}
	if s.Mode != Off {
		to, err := v.inMode(l, s.Setting())
		if err != nil {
			v.logger.Error("mode without effect: it does not fit its limit any more", "domain", s.Domain, "rule", s.Rule, "limit", l.Name,
				"mode", s.Setting().String(), "err", err)
		} else if out.to = to; denies {
			out.denial = denialOf(l)
		}
	}
	return s.made.remember(out)
}

// made is what a mark or a mode makes of one limit of the rules.
type made struct {
	limit *weir.Limit
	// banned is what decisions of a banned key name as their limit, with the
	// counters of limit. Nil without a ban.
	banned *weir.Limit
	// with is limit with the numbers of the override. Nil without one, and if
	// limit cannot have such numbers.
	with *weir.Limit
	// to is the limit in its mode. Nil without one, for Off, and if limit cannot
	// have it; priority is then the best of its requests.
	to       *weir.Limit
	priority int
	// denial is the limit of 0 that limit is, nil for any other.
	denial *weir.Limit
}

// remembered are the limits that were made: rules are reloaded, and a tier may
// choose among several limits of one place.
type remembered struct{ list atomic.Pointer[[]made] }

// mostMade bounds what is remembered; the oldest is made again.
const mostMade = 4

// forLimit returns what was made of l, nil if nothing is remembered.
func (r *remembered) forLimit(l *weir.Limit) *made {
	list := r.list.Load()
	if list == nil {
		return nil
	}
	for i := range *list {
		if v := &(*list)[i]; v.limit == l {
			return v
		}
	}
	return nil
}

// remember remembers v before all others.
func (r *remembered) remember(v made) *made {
	next := []made{v}
	if list := r.list.Load(); list != nil {
		next = append(next, (*list)[:min(len(*list), mostMade-1)]...)
	}
	r.list.Store(&next)
	return &next[0]
}

// withNumbers returns l with the numbers of the override e.
func withNumbers(l *weir.Limit, e *Entry) (*weir.Limit, error) {
	return l.Variant(e.Count, micros.Duration(e.Period), e.Burst)
}

// withMode returns l in another mode, with the same counters and state.
func withMode(l *weir.Limit, s Setting) (*weir.Limit, error) {
	if l.Count > 0 {
		return l.Enforced(s.Percent)
	}
	// A limit of 0 is counted by the store as one that its requests never fit, as
	// rules do for their shadows.
	v := l.Clone()
	v.Count, v.Bans, v.Mode = 1, false, weir.Mode{Shadow: s.Mode == Shadow, Rollout: s.Percent}
	return v, v.Compile()
}

// denialOf returns the limit of 0 that l is when it is no shadow.
func denialOf(l *weir.Limit) *weir.Limit {
	if l.Count == 0 {
		return l
	}
	v := l.Clone()
	v.Mode = weir.Mode{}
	return compileZero(v)
}

const banMark = "\x1fbanned"

// DomainBan is the name of what decisions name as their limit which a ban over a domain
// refuses.
const DomainBan = "banned, over the whole domain"

// bannedFrom returns the limit that decisions name which l's ban refuses.
func bannedFrom(l *weir.Limit) *weir.Limit {
	b := banLimit(l.Name+" (banned)", l.Scope, l.Period)
	b.Inherit(l)
	return b
}

// banLimit returns the limit that decisions name which a ban refuses: one of 0, as
// deny lists have it, so that no answer promises what the ban does not admit.
func banLimit(name, scope string, period time.Duration) *weir.Limit {
	return compileZero(&weir.Limit{Name: name, Scope: scope + banMark, Algorithm: algorithm.FixedWindow, Period: period})
}

func isBan(l *weir.Limit) bool { return strings.HasSuffix(l.Scope, banMark) }

// compileZero compiles l as a limit of 0.
func compileZero(l *weir.Limit) *weir.Limit {
	l.Count, l.Burst, l.Bans = 0, 0, true
	if err := l.Compile(); err != nil {
		panic(err) // the algorithm was compiled with this period, and a window takes any
	}
	return l
}

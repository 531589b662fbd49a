package overlay

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/address"
)

// A set is what is in use of the document. It is immutable, but for what marks
// and switches remember.
type set struct {
	// keys are the entries of single keys; marks are by key, switches by limit.
	keys     []*Entry
	marks    map[counter]*mark
	switches map[limitID]*switched
	// clients are those that are banned over their domain, addresses those of them
	// whose value is an address, which has several spellings.
	clients   map[client]*clientBan
	addresses map[addressClient]*clientBan
}

// client is an entry of requests of a domain.
type client struct{ domain, key, value string }

// addressClient is a client whose value is an address or a prefix.
type addressClient struct {
	domain, key string
	value       netip.Prefix
}

// clientBan is the ban of a client, and what decisions name as their limit.
type clientBan struct {
	entry *Entry
	limit *weir.Limit
}

// inUse returns the set in use, an empty one if there are no entries.
func inUse(o *Overlay) *set {
	if s := o.set.Load(); s != nil {
		return s
	}
	return &set{}
}

// newSet returns entries as a set, nil for none. What old has made of those that are
// still there is kept, so that their limits stay the same.
func newSet(entries []Entry, old *set) *set {
	if len(entries) == 0 {
		return nil
	}
	s := &set{marks: make(map[counter]*mark, len(entries)), switches: map[limitID]*switched{}}
	for i := range entries {
		e := &entries[i]
		if !e.isKnown() {
			continue
		}
		if e.Kind == KindMode {
			s.switches[e.limitID()] = &switched{Entry: e}
			continue
		}
		s.keys = append(s.keys, e)
		if e.Kind == BanDomain {
			s.banClient(e, old)
			continue
		}
		m := s.marks[e.counter()]
		if m == nil {
			m = &mark{}
			s.marks[e.counter()] = m
		}
		switch e.Kind {
		case Ban:
			m.ban = e
		case Allow:
			m.allow = e
		default:
			m.override = e
		}
	}
	if old == nil {
		return s
	}
	for at, m := range s.marks {
		if was := old.marks[at]; was != nil && m.same(was) {
			m.made.list.Store(was.made.list.Load())
		}
	}
	for at, m := range s.switches {
		if was := old.switches[at]; was != nil && m.Setting() == was.Setting() {
			m.made.list.Store(was.made.list.Load())
		}
	}
	return s
}

// banClient adds the ban of a client. Its limit is that of old, if there is one.
func (s *set) banClient(e *Entry, old *set) {
	if s.clients == nil {
		s.clients = map[client]*clientBan{}
	}
	at, b := client{e.Domain, e.Entries[0].Key, e.Entries[0].Value}, &clientBan{entry: e}
	if old != nil && old.clients[at] != nil {
		b.limit = old.clients[at].limit
	} else {
		b.limit = banLimit(at.key, at.domain+"/"+at.key, time.Second)
	}
	s.clients[at] = b
	p, ok := address.Parse(at.value)
	if !ok {
		return
	}
	if s.addresses == nil {
		s.addresses = map[addressClient]*clientBan{}
	}
	by := addressClient{at.domain, at.key, p}
	// Of two spellings, the ban that ends last holds.
	if was := s.addresses[by]; was == nil || was.entry.Until < e.Until {
		s.addresses[by] = b
	}
}

// banOf returns the ban over a domain of whoever has an entry, nil for none.
func (s *set) banOf(domain string, e weir.Entry) *clientBan {
	if len(s.addresses) > 0 {
		if p, ok := address.Parse(e.Value); ok {
			return s.addresses[addressClient{domain, e.Key, p}]
		}
	}
	return s.clients[client{domain, e.Key, e.Value}]
}

// A mark is what there is about one key of one limit.
type mark struct {
	ban, override, allow *Entry
	made                 remembered
}

// same reports whether the limits that m makes are those of was.
func (m *mark) same(was *mark) bool {
	if (m.ban == nil) != (was.ban == nil) || (m.override == nil) != (was.override == nil) {
		return false
	}
	a, b := m.override, was.override
	return a == nil || a.Count == b.Count && a.Period == b.Period && a.Burst == b.Burst
}

// made is what a mark or a switch makes of one limit of the rules.
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

// find returns what was made of l, nil if nothing is remembered.
func (r *remembered) find(l *weir.Limit) *made {
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

// add remembers v before all others.
func (r *remembered) add(v made) *made {
	next := []made{v}
	if list := r.list.Load(); list != nil {
		next = append(next, (*list)[:min(len(*list), mostMade-1)]...)
	}
	r.list.Store(&next)
	return &next[0]
}

// of returns what m makes of l. It allocates the first time.
func (m *mark) of(o *Overlay, l *weir.Limit) *made {
	if v := m.made.find(l); v != nil {
		return v
	}
	v := made{limit: l}
	if m.ban != nil {
		v.banned = bannedFrom(l)
	}
	if m.override != nil {
		with, err := o.variant(l, m.override)
		if err != nil {
			o.opt.Logger.Error("override without effect: it does not fit its limit any more", "limit", l.Name,
				"entries", m.override.words(), "override", m.override.Rate(), "err", err)
		}
		v.with = with
	}
	return m.made.add(v)
}

const banMark = "\x1fbanned"

// bannedFrom returns the limit that decisions name which l's ban refuses.
func bannedFrom(l *weir.Limit) *weir.Limit {
	b := banLimit(l.Name, l.Scope, l.Period)
	b.Inherit(l)
	return b
}

// banLimit returns the limit that decisions name which a ban refuses: one of 0, as
// deny lists have it, so that no answer promises what the ban does not admit.
func banLimit(name, scope string, period time.Duration) *weir.Limit {
	b := &weir.Limit{Name: name + " (banned)", Scope: scope + banMark, Algorithm: algorithm.FixedWindow, Count: 1, Period: period, Bans: true}
	if err := b.Compile(); err != nil {
		panic(err) // a window takes any period that was a limit's
	}
	b.Count, b.Burst, b.Envelope = 0, 0, 0 // Compile knows no limit of 0
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

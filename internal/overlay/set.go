package overlay

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/address"
)

// A set is what is in use of the document. It is immutable, but for what marks
// and modes remember.
type set struct {
	// keys are the entries of single keys, which marks find, and modes those of limits, which
	// byLimit finds.
	keys    []*Entry
	modes   []*Entry
	marks   map[counter]*mark
	byLimit map[limitID]*modeInUse
	// clients are those that are banned over their domain; addresses are those of them
	// whose value is an address or a range, by which those in it are banned, as a deny
	// list has it. Their spelling says nothing.
	clients   map[client]*clientBan
	addresses map[addressKey]*address.Table[*clientBan]
}

// client is an entry of requests of a domain.
type client struct{ domain, key, value string }

// addressKey is the key of entries of a domain whose values are addresses.
type addressKey struct{ domain, key string }

// clientBan is the ban of a client, and what decisions name as their limit.
type clientBan struct {
	entry *Entry
	limit *weir.Limit
}

// newSet returns entries as a set, nil for none. What old has made of those that are
// still there is kept, so that their limits stay the same.
func newSet(entries []Entry, old *set) *set {
	if len(entries) == 0 {
		return nil
	}
	if old == nil {
		old = &set{}
	}
	s := &set{marks: make(map[counter]*mark, len(entries)), byLimit: map[limitID]*modeInUse{},
		clients: map[client]*clientBan{}, addresses: map[addressKey]*address.Table[*clientBan]{}}
	for i := range entries {
		e := &entries[i]
		if !e.isKnown() {
			continue
		}
		if e.Kind == KindMode {
			s.modes = append(s.modes, e)
			s.byLimit[e.limitID()] = &modeInUse{Entry: e}
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
			// One may be of this node alone.
			if m.ban == nil || m.ban.Until < e.Until {
				m.ban = e
			}
		case Allow:
			m.allow = e
		default:
			m.override = e
		}
	}
	for at, m := range s.marks {
		if was := old.marks[at]; was != nil && m.sameLimits(was) {
			m.made.list.Store(was.made.list.Load())
		}
	}
	for at, m := range s.byLimit {
		if was := old.byLimit[at]; was != nil && m.Setting() == was.Setting() {
			m.made.list.Store(was.made.list.Load())
		}
	}
	return s
}

// banClient adds the ban of a client. Its limit is that of old, if there is one.
func (s *set) banClient(e *Entry, old *set) {
	at, b := client{e.Domain, e.Entries[0].Key, e.Entries[0].Value}, &clientBan{entry: e}
	if was := old.clients[at]; was != nil {
		b.limit = was.limit
	} else {
		b.limit = banLimit(DomainBan, at.domain+"/"+at.key, time.Second)
	}
	// Of two spellings, and of the ban of this node alone and that of all, the one that
	// ends last holds.
	if was := s.clients[at]; was == nil || was.entry.Until < e.Until {
		s.clients[at] = b
	}
	p, ok := address.Parse(at.value)
	if !ok {
		return
	}
	by := addressKey{at.domain, at.key}
	if s.addresses[by] == nil {
		s.addresses[by] = &address.Table[*clientBan]{}
	}
	if was, ok := s.addresses[by].At(p); !ok || was.entry.Until < e.Until {
		s.addresses[by].Put(p, b)
	}
}

// banOf returns the ban over a domain that refuses whoever has an entry, nil for none.
func (s *set) banOf(domain string, e weir.Entry, now int64) *clientBan {
	if t := s.addresses[addressKey{domain, e.Key}]; t != nil {
		if p, ok := address.Parse(e.Value); ok {
			for b := range t.Holding(p) {
				if !b.entry.hasEnded(now) {
					return b
				}
			}
			return nil
		}
	}
	if b := s.clients[client{domain, e.Key, e.Value}]; b != nil && !b.entry.hasEnded(now) {
		return b
	}
	return nil
}

// A mark is what there is about one key of one limit.
type mark struct {
	ban, override, allow *Entry
	made                 remembered
}

// sameLimits reports whether the limits that m makes are those of was.
func (m *mark) sameLimits(was *mark) bool {
	if (m.ban == nil) != (was.ban == nil) || (m.override == nil) != (was.override == nil) {
		return false
	}
	a, b := m.override, was.override
	return a == nil || a.Count == b.Count && a.Period == b.Period && a.Burst == b.Burst
}

// modeInUse is a mode in use, and the limits that it makes.
type modeInUse struct {
	*Entry
	made remembered
}

package overlay

import (
	"net/netip"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/address"
)

// A set is what is in use of the document. It is immutable, but for what marks
// and switches remember.
type set struct {
	// keys are the entries of single keys, modes those of limits; marks are by key,
	// switches by limit.
	keys     []*Entry
	modes    []*Entry
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

// newSet returns entries as a set, nil for none. What old has made of those that are
// still there is kept, so that their limits stay the same.
func newSet(entries []Entry, old *set) *set {
	if len(entries) == 0 {
		return nil
	}
	if old == nil {
		old = &set{}
	}
	s := &set{marks: make(map[counter]*mark, len(entries)), switches: map[limitID]*switched{},
		clients: map[client]*clientBan{}, addresses: map[addressClient]*clientBan{}}
	for i := range entries {
		e := &entries[i]
		if !e.isKnown() {
			continue
		}
		if e.Kind == KindMode {
			s.modes = append(s.modes, e)
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
	at, b := client{e.Domain, e.Entries[0].Key, e.Entries[0].Value}, &clientBan{entry: e}
	if was := old.clients[at]; was != nil {
		b.limit = was.limit
	} else {
		b.limit = banLimit(at.key, at.domain+"/"+at.key, time.Second)
	}
	s.clients[at] = b
	p, ok := address.Parse(at.value)
	if !ok {
		return
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

// switched is a mode in use, and the limits that it makes.
type switched struct {
	*Entry
	made remembered
}

package identity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// EntryFrom is one entry of a descriptor and where its value comes from.
type EntryFrom struct {
	// Key of the entry. Zero means From as it stands, so that two headers, or two
	// widths of an address, have two keys; for "value:TEXT" it means generic_key,
	// as in Envoy.
	Key string `yaml:"key"`
	// From is the source of the value, see [Sources].
	From string `yaml:"from"`
	// Fold counts spellings of a name as one: case, compatibility characters such
	// as full-width letters, characters that cannot be seen, and white space at the
	// ends do not tell values apart (NFKC_Casefold, trimmed; a param is decoded
	// before). It is for names that the upstream compares so, and for param, header,
	// cookie and query alone. Zero means that a value is counted as it is spelt.
	Fold bool `yaml:"fold"`
}

// UnmarshalText reads an entry that is its source alone.
func (e *EntryFrom) UnmarshalText(text []byte) error {
	*e = EntryFrom{From: string(text)}
	return nil
}

// Descriptor is a descriptor to be made of each request. It is left out where
// one of its entries has no value, as Envoy does.
type Descriptor struct {
	Entries []EntryFrom `yaml:"entries"`
	// Unless names a verified source: a request that has it is not given this
	// descriptor. "user" leaves those who are logged in out of a limit on their
	// common address. Zero means that every request is.
	Unless string `yaml:"unless"`
	// Cost in units. Zero means the request's.
	Cost int64 `yaml:"cost"`
}

// Keys returns the keys of the entries, in order.
func (d *Descriptor) Keys() []string {
	keys := make([]string, len(d.Entries))
	for i, e := range d.Entries {
		keys[i] = cmp.Or(e.Key, defaultKey(e.From))
	}
	return keys
}

// Caps on a plan.
const (
	maxDescriptors = 32
	maxEntries     = 16
)

// Plan makes the descriptors of requests. Safe for concurrent use.
type Plan struct {
	descriptors []planned
	priority    int // of its route
	// follows makes the plans that this one stands for; nil for a plan of its own.
	follows *follower
	// also is a plan by which the request is asked too, nil for none.
	also *Plan
}

// mergePlan returns a plan that asks by p, for requests of a cost, and by q too, for requests of
// another, but once by what is the same. Either may be nil.
func (p *Plan) mergePlan(cost int64, q *Plan, other int64) (*Plan, int64) {
	switch {
	case q == nil:
		return p, cost
	case p == nil:
		return q, other
	}
	both, more := *p, *q
	more.descriptors = nil
	for _, d := range q.descriptors {
		d.cost = cmp.Or(d.cost, other, 1)
		if !slices.ContainsFunc(p.descriptors, func(has planned) bool {
			return cmp.Or(has.cost, cost, 1) == d.cost && has.sameAs(&d)
		}) {
			more.descriptors = append(more.descriptors, d)
		}
	}
	both.priority = max(p.priority, q.priority)
	more.priority = both.priority
	more.also, both.also = p.also, &more
	return &both, cost
}

// sameAs reports whether d and other are of the same entries, and leave out the same.
func (d *planned) sameAs(other *planned) bool {
	return slices.Equal(d.entries, other.entries) && (d.unless == other.unless || d.unless != nil && other.unless != nil && *d.unless == *other.unless)
}

type planned struct {
	entries []plannedEntry
	unless  *source
	cost    int64
	// repeats: see weir.KeyList.
	repeats func([]weir.Entry) bool
}

type plannedEntry struct {
	key    string
	source source
}

// Plan compiles descriptors. No descriptors mean one, of the client's address:
//
//	Descriptor{Entries: []EntryFrom{{From: "remote_address"}}}
func (r *Resolver) Plan(ds []Descriptor) (*Plan, error) {
	p, err := r.compilePlan(ds, nil)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return p, nil
}

func (r *Resolver) compilePlan(ds []Descriptor, route *Route) (*Plan, error) {
	if len(ds) == 0 {
		ds = []Descriptor{{Entries: []EntryFrom{{From: "remote_address"}}}}
	}
	if len(ds) > maxDescriptors {
		return nil, fmt.Errorf("%d descriptors are too many, the most is %d", len(ds), maxDescriptors)
	}
	p := &Plan{}
	if route != nil {
		p.priority = route.Priority
	}
	for i := range ds {
		d, err := r.planned(&ds[i], route)
		if err != nil {
			return nil, fmt.Errorf("descriptor %d: %w", i+1, err)
		}
		p.descriptors = append(p.descriptors, d)
	}
	return p, p.checkHearsay()
}

// checkHearsay reports an unverified claim in a plan that would let go whoever
// sends another one each time: it may only stand beside a limit that a
// stranger cannot get out of.
func (p *Plan) checkHearsay() error {
	hasClient, address := false, false
	for i := range p.descriptors {
		d := &p.descriptors[i]
		always := d.unless == nil
		here := false
		for j := range d.entries {
			switch d.entries[j].source.kind {
			case fromUnverifiedJWT:
				hasClient, always = true, false
			case fromAddress:
				here = true
			case fromMethod, fromPath, fromValue, fromParam:
			default:
				always = false
			}
		}
		address = address || here && always
	}
	if hasClient && !address {
		return errors.New("an unverified claim can be made up: put a descriptor with remote_address alone beside it")
	}
	return nil
}

// Evadable reports whether a stranger, whom no verified source knows, gets round
// every descriptor: each has an entry that he can leave out, or make up anew for
// every request, such as a cookie. Then nobody limits him. A plan of
// [Resolver.RulePlan] is not: it has the client's address.
func (p *Plan) Evadable() bool {
	if p.follows != nil {
		return false
	}
	for i := range p.descriptors {
		if p.descriptors[i].bindsUnauthenticated() {
			return false
		}
	}
	return true
}

// bindsUnauthenticated reports whether a stranger's requests have the descriptor, with values
// that he does not choose, or that say what he asks for.
func (d *planned) bindsUnauthenticated() bool {
	return d.hasOnly(fromAddress, fromClient, fromMethod, fromPath, fromHost, fromValue, fromParam)
}

// isOfPeer reports whether the client's address suffices to make the descriptor.
func (d *planned) isOfPeer() bool { return d.hasOnly(fromAddress, fromClient, fromValue) }

// hasOnly reports whether all entries are of the kinds.
func (d *planned) hasOnly(kinds ...kind) bool {
	for i := range d.entries {
		if !slices.Contains(kinds, d.entries[i].source.kind) {
			return false
		}
	}
	return true
}

func (r *Resolver) planned(d *Descriptor, route *Route) (planned, error) {
	out := planned{cost: d.Cost}
	switch {
	case len(d.Entries) == 0:
		return out, errors.New("no entries: name at least one source")
	case len(d.Entries) > maxEntries:
		return out, fmt.Errorf("%d entries are too many, the most is %d", len(d.Entries), maxEntries)
	case d.Cost < 0 || d.Cost > weir.MaxCost:
		return out, fmt.Errorf("cost must be between 0 and %d, not %d", int64(weir.MaxCost), d.Cost)
	}
	keys := d.Keys()
	for i, e := range d.Entries {
		s, err := r.parseSource(e.From, route)
		if err != nil {
			return out, fmt.Errorf("entry %d: %w", i+1, err)
		}
		if s.fold = e.Fold; s.fold && s.kind != fromParam && s.kind != fromHeader && s.kind != fromCookie && s.kind != fromQuery {
			return out, fmt.Errorf("entry %d: fold is for names that clients write, in param, header, cookie or query: %q is none", i+1, e.From)
		}
		out.entries = append(out.entries, plannedEntry{keys[i], s})
	}
	if d.Unless != "" {
		s, err := r.parseSource(d.Unless, route)
		if err != nil {
			return out, fmt.Errorf("unless: %w", err)
		}
		if !r.verified(&s) {
			return out, fmt.Errorf("unless: anyone can send %q, and would be rid of the limit: name a verified source, such as user", d.Unless)
		}
		out.unless = &s
	}
	return out, nil
}

// defaultKey is the key of an entry that has none of its own.
func defaultKey(from string) string {
	if strings.HasPrefix(from, "value:") {
		return "generic_key"
	}
	return from
}

// Fill appends the descriptors for c's request to req, and sets its priority if
// the plan is that of a route with one. Their values are valid until c is
// released. It returns an *Error, and appends nothing, if the plan
// needs the method, the host or the path and that cannot be read, and for what
// Caller.Check finds. It does not allocate once c has the memory. A plan of [Resolver.RulePlan] looks at req.Domain.
func (p *Plan) Fill(req *weir.Request, c *Caller) error { return p.fillRequest(req, c, false) }

// FillConnection is Fill for a connection of which nothing is known but the peer: of
// the descriptors of a plan of [Resolver.RulePlan] it appends those that need no more.
func (p *Plan) FillConnection(req *weir.Request, c *Caller) error { return p.fillRequest(req, c, true) }

func (p *Plan) fillRequest(req *weir.Request, c *Caller, connection bool) error {
	if err := c.Check(); err != nil {
		return err
	}
	c.plan, c.domain = p, req.Domain
	was, priority := len(req.Descriptors), req.Priority
	for times, most := 1, 1; ; times = most {
		for part := p; part != nil; part = part.also {
			values, err := part.fillOnce(req, c, times, connection)
			if err != nil {
				req.Descriptors, req.Priority = req.Descriptors[:was], priority
				return err
			}
			most = max(most, values)
		}
		if most == times {
			break
		}
		req.Descriptors = req.Descriptors[:was] // and again, each as often as the most
	}
	return nil
}

// fillOnce appends the descriptors of p, without the one that it has also, each for so many values
// as there are times. It returns for how many values the most are.
func (p *Plan) fillOnce(req *weir.Request, c *Caller, times int, connection bool) (most int, err error) {
	connection = connection && p.follows != nil // others are as they were asked for
	p = p.forDomain(req.Domain)
	if p.priority != 0 {
		req.Priority = p.priority
	}
	for i := range p.descriptors {
		d := &p.descriptors[i]
		if connection && !d.isOfPeer() {
			continue
		}
		values, err := d.fillAll(req, c, times)
		if err != nil {
			return most, err
		}
		most = max(most, values)
	}
	return most, nil
}

// isOfUser reports whether the descriptor says who the user is, or his tier.
func (d *planned) isOfUser() bool {
	return slices.ContainsFunc(d.entries, func(e plannedEntry) bool {
		return e.source.kind == fromUser || e.source.kind == fromTier || e.source.kind == fromClient
	})
}

// exempts reports whether s, which is verified, has a value where p is the client. A token
// that is late exempts from nothing.
func (p *party) exempts(c *Caller, s *source) bool {
	switch {
	case p.late:
		return false
	case s.kind == fromUser:
		return p.user != ""
	case s.kind == fromTier:
		return p.tier != ""
	case s.kind == fromJWT && p.by != fromJWT:
		return false
	case s.kind == fromAPIKey && p.by != fromAPIKey:
		return false
	}
	v, err := s.readValue(c)
	return v != "" && err == nil
}

// fillAll is fill for everybody whom the request may be from, and for nobody who is exempt.
func (d *planned) fillAll(req *weir.Request, c *Caller, times int) (values int, err error) {
	ofUser := d.isOfUser()
	if len(c.r.user) == 0 || !ofUser && d.unless == nil || len(c.findParties()) < 2 {
		if d.unless != nil {
			if v, err := d.unless.readValue(c); err != nil || v != "" {
				return 0, err
			}
		}
		return d.fillDescriptors(req, c, times)
	}
	user, tier := c.User(), c.Tier()
	defer func() { c.user, c.tier, c.reading = user, tier, 0 }()
	exempt := func(p party) bool { return d.unless != nil && p.exempts(c, d.unless) }
	if !ofUser { // it is the same for all
		switch {
		case !slices.ContainsFunc(c.parties, func(p party) bool { return !exempt(p) }):
			return 0, nil
		case slices.ContainsFunc(c.parties, exempt):
			c.reading = partialReading
		}
		return d.fillDescriptors(req, c, times)
	}
	for i, p := range c.parties {
		if exempt(p) {
			continue
		}
		c.user, c.tier, c.reading = p.user, p.tier, uint8(i+1)
		n, err := d.fillDescriptors(req, c, times)
		if values = max(values, n); err != nil {
			return 0, err
		}
	}
	return values, nil
}

// fillDescriptors appends the descriptors that one of the plan makes: none where an entry has no
// value. It returns for how many values they are, and appends them again until they are
// for so many as there are times.
func (d *planned) fillDescriptors(req *weir.Request, c *Caller, times int) (values int, err error) {
	from := len(c.entries)
	c.others = c.others[:0]
	values = 1
	reading := c.reading
	var ends [maxEntries]int
	for j := range d.entries {
		e := &d.entries[j]
		v, err := e.source.readValue(c)
		if err != nil {
			return 0, err
		}
		switch e.source.kind {
		case fromHeader, fromCookie, fromQuery:
			at := len(c.others)
			n, err := e.source.appendReadings(c)
			if err != nil {
				return 0, err
			}
			if values *= max(n, 1); values > maxValues {
				return 0, errReadings
			}
			if len(c.others) > at {
				v = c.others[at]
				c.others = slices.Delete(c.others, at, at+1)
			}
		case fromPath, fromParam:
			e.source.appendForms(c, v)
		case fromJWT, fromAPIKey:
			if v == "" && e.source.kind == fromJWT {
				v = c.late[e.source.name]
			}
			if reading == 0 && v != "" && (len(c.late) > 0 || len(c.r.user) > 0 && len(c.findParties()) > 1) {
				reading = partialReading // another reader takes the other credential
			}
		}
		ends[j] = len(c.others)
		if v == "" {
			c.entries = c.entries[:from]
			return 0, nil
		}
		c.entries = append(c.entries, weir.Entry{Key: e.key, Value: v})
	}
	if len(d.entries) == 0 {
		return 0, nil
	}
	was := len(req.Descriptors)
	err = d.appendDescriptors(req, c, from, reading, ends[:])
	made := req.Descriptors[was:]
	for n := values; err == nil && n < times; n += values {
		req.Descriptors = append(req.Descriptors, made...)
	}
	return values, err
}

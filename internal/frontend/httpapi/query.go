package httpapi

import (
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
)

// Bounds on a check.
const (
	maxChecks      = checks.MaxRequests
	maxDescriptors = checks.MaxDescriptors
	maxEntries     = checks.MaxEntries
	maxPriority    = checks.MaxPriority
	maxLease       = checks.MaxLease
	maxRate        = 64
	maxReason      = 1024
)

// shape is which members a check may have in a place, and which it must.
type shape uint16

const (
	mayPeek shape = 1 << iota
	mayLease
	mustLease
	mayHaveChecks
	mayName  // "limit": one of the limits that the descriptors meet
	mayUnits // "units", to give back
	maySeconds
	mayRate   // "rate", "burst" and "seconds" of an override
	mayReason // "reason" of what an operator changes
	mayStrict // "strict": an error where the rules do not have what is asked
	mayDomain // "whole_domain": a ban of all requests with the entry
	mayClient // "client" in place of descriptors
	mustSpend // a check that looks only is an error
)

// member is a name in a check object.
type member struct {
	name string
	when shape // 0: always
}

// members are all members of a check object: the bit of each in seen is its
// place here.
var members = [...]member{
	{"domain", 0}, {"descriptors", 0}, {"cost", 0}, {"priority", 0}, {"peek", mayPeek}, {"lease", mayLease},
	{"checks", mayHaveChecks}, {"limit", mayName}, {"units", mayUnits}, {"seconds", maySeconds | mayRate},
	{"rate", mayRate}, {"burst", mayRate}, {"reason", mayReason}, {"strict", mayStrict},
	{"whole_domain", mayDomain}, {"client", mayClient},
}

const (
	seenDomain = 1 << iota
	seenDescriptors
	seenCost
	seenPriority
	seenPeek
	seenLease
	seenChecks
	seenLimit
	seenUnits
	seenSeconds
	seenRate
	seenBurst
	seenReason
	seenStrict
	seenWholeDomain
	seenClient
)

// known lists the members of the given shape, for whoever misspelt one.
func (s shape) known() string {
	list := ""
	for _, m := range members {
		if m.when == 0 || s&m.when != 0 {
			if list != "" {
				list += ", "
			}
			list += m.name
		}
	}
	return list
}

// query is what a body asked.
type query struct {
	reqs    []*weir.Request
	batch   bool
	limit   string
	units   int64
	seconds int64
	rate    string
	burst   int64
	reason  string
	// wholeDomain: the ban is of all requests of the domain with the entry.
	wholeDomain bool
	// client is a name in events in place of descriptors.
	client string
	// notCovered says what a ban does not refuse.
	notCovered []string
	// warnings say that what is done does not reach whom it seems to.
	warnings []string
	// yaml is what the action amounts to in a rules file.
	yaml string
	// strict are the checks that are; allStrict says that all are.
	strict    []*weir.Request
	allStrict bool
	seen      uint32
}

// checkStrict states an error if a strict check asks what the rules do not have.
func (a *API) checkStrict(c *call) {
	q, r := &c.query, &c.reader
	if r.err != nil {
		return
	}
	for i, req := range q.reqs {
		if !q.allStrict && !slices.Contains(q.strict, req) {
			continue
		}
		why := checks.Unmatched(a.limiter, req)
		if why == "" {
			continue
		}
		r.err = &inputError{why, "#/descriptors"}
		if q.batch {
			r.err.pointer = "#/checks/" + strconv.Itoa(i) + "/descriptors"
		}
		return
	}
}

// mustSpend states an error if the one check in q only looks.
func (q *query) mustSpend(r *reader) {
	if r.err == nil && q.reqs[0].Verb == weir.Peek {
		r.err = &inputError{"must be at least 1: looking holds nothing", "#/cost"}
	}
}

// release gives the requests back.
func (q *query) release(a *API) {
	for _, r := range q.reqs {
		a.limiter.Recycle(r)
	}
	clear(q.reqs)
	clear(q.strict)
	q.reqs, q.strict = q.reqs[:0], q.strict[:0]
}

// readQuery reads a body of the given shape: a check, or with mayHaveChecks
// several. The requests share the body's bytes.
func (a *API) readQuery(c *call, s shape) {
	q, r := &c.query, &c.reader
	*q = query{reqs: q.reqs[:0], strict: q.strict[:0]}
	c.entries = c.entries[:0]
	a.readCheck(c, s)
	r.end()
	if extra := q.seen &^ (seenChecks | seenStrict); r.err == nil && q.batch && extra != 0 {
		r.err = &inputError{"stands either alone or in checks, not beside it", "#/" + members[lowest(extra)].name}
	}
}

func lowest(bits uint32) int {
	i := 0
	for bits&1 == 0 {
		bits >>= 1
		i++
	}
	return i
}

// readCheck reads one check object.
func (a *API) readCheck(c *call, s shape) {
	q, r := &c.query, &c.reader
	req := a.limiter.Acquire()
	req.Priority, req.Facts = a.opt.Priority, checks.Facts(req)
	q.reqs = append(q.reqs, req)
	var seen uint32
	r.object(func(name []byte) {
		i := 0
		for i < len(members) && (members[i].name != string(name) || members[i].when != 0 && s&members[i].when == 0) {
			i++
		}
		if i == len(members) {
			r.unknown(s.known())
			return
		}
		r.once(&seen, uint(i))
		if 1<<i&^(seenDescriptors|seenChecks) != 0 && r.null() {
			seen &^= 1 << i // as if it were not there
			return
		}
		a.readMember(c, req, 1<<i, s)
	})
	switch {
	case r.err != nil:
	case seen&seenChecks != 0:
		// What stood beside checks is an error, so nothing is lost with it.
		q.seen |= seen
		q.reqs = append(q.reqs[:0], q.reqs[1:]...)
		a.limiter.Recycle(req)
		return
	case seen&(seenDescriptors|seenClient) == 0:
		r.failMissing("descriptors")
	case s&mustLease != 0 && seen&seenLease == 0:
		r.failMissing("lease")
	}
	if !q.batch {
		q.seen |= seen
	}
	if req.Domain == "" {
		req.Domain = a.opt.Domain
	}
}

// failMissing states that the object just read lacks a member.
//
// Requires: no error was stated before.
func (r *reader) failMissing(name string) {
	r.fail("is missing")
	r.err.pointer += "/" + name
}

// readMember reads the value of one member of a check.
func (a *API) readMember(c *call, req *weir.Request, member uint32, s shape) {
	q, r := &c.query, &c.reader
	switch member {
	case seenDomain:
		req.Domain = r.str(1, maxDomain)
	case seenDescriptors:
		c.readDescriptors(req)
	case seenCost:
		if req.Cost = r.integer(0, weir.MaxCost); req.Cost == 0 {
			req.Verb = weir.Peek
		}
	case seenPriority:
		req.Priority = int(r.integer(0, maxPriority))
	case seenPeek:
		if r.boolean() {
			req.Verb = weir.Peek
		}
	case seenLease:
		req.Lease = r.str(1, maxLease)
	case seenChecks:
		q.batch = true
		r.array(func(i int) {
			if i == maxChecks {
				r.fail("at most " + strconv.Itoa(maxChecks) + " checks at once")
				return
			}
			a.readCheck(c, mayPeek|mayLease|s&mayStrict)
		})
		if r.err == nil && len(q.reqs) == 1 {
			r.fail("must not be empty")
		}
	case seenLimit:
		q.limit = r.str(1, maxValue)
	case seenUnits:
		q.units = r.integer(1, weir.MaxCost)
	case seenSeconds:
		q.seconds = r.integer(0, int64(weir.MaxPeriod/time.Second))
	case seenRate:
		q.rate = r.str(1, maxRate)
	case seenBurst:
		q.burst = r.integer(1, weir.MaxCost)
	case seenReason:
		q.reason = r.str(0, maxReason)
	case seenWholeDomain:
		q.wholeDomain = r.boolean()
	case seenClient:
		q.client = r.str(1, maxValue)
	case seenStrict:
		strict := r.boolean()
		if s&mayHaveChecks != 0 {
			q.allStrict = strict
		} else if strict {
			q.strict = append(q.strict, req)
		}
	}
}

// readDescriptors reads the descriptors of req.
func (c *call) readDescriptors(req *weir.Request) {
	r := &c.reader
	r.array(func(i int) {
		if i == maxDescriptors {
			r.fail("at most " + strconv.Itoa(maxDescriptors) + " descriptors")
			return
		}
		var d weir.Descriptor
		var seen uint32
		r.object(func(name []byte) {
			switch string(name) {
			case "entries":
				r.once(&seen, 0)
				d.Entries = c.readEntries()
			case "cost":
				if r.once(&seen, 1); !r.null() {
					d.Cost = r.integer(0, weir.MaxCost)
					d.Peek = d.Peek || d.Cost == 0
				}
			case "peek":
				if r.once(&seen, 2); !r.null() {
					d.Peek = r.boolean() || d.Peek
				}
			default:
				r.unknown("entries, cost and peek")
			}
		})
		if r.err == nil && seen&1 == 0 {
			r.failMissing("entries")
		}
		req.Descriptors = append(req.Descriptors, d)
	})
	if r.err == nil && len(req.Descriptors) == 0 {
		r.fail("must not be empty")
	}
}

// readEntries reads entries as an array of {"key":..., "value":...}, or as an
// object whose members are taken in the order in which they are written.
func (c *call) readEntries() []weir.Entry {
	r, from := &c.reader, len(c.entries)
	add := func(e weir.Entry) {
		if len(c.entries)-from == maxEntries {
			r.fail("at most " + strconv.Itoa(maxEntries) + " entries")
		}
		c.entries = append(c.entries, e)
	}
	if r.space() == '{' {
		r.object(func(name []byte) {
			if len(name) == 0 || len(name) > maxKey {
				r.fail("the key must have from 1 to " + strconv.Itoa(maxKey) + " bytes")
			}
			for _, e := range c.entries[from:] {
				if e.Key == string(name) {
					r.fail("is there twice; write entries as an array to repeat a key")
				}
			}
			add(weir.Entry{Key: alias(name), Value: r.str(0, maxValue)})
		})
	} else {
		r.array(func(int) {
			var e weir.Entry
			var seen uint32
			r.object(func(name []byte) {
				switch string(name) {
				case "key":
					r.once(&seen, 0)
					e.Key = r.str(1, maxKey)
				case "value":
					r.once(&seen, 1)
					e.Value = r.str(0, maxValue)
				default:
					r.unknown("key and value")
				}
			})
			if r.err == nil && seen&1 == 0 {
				r.failMissing("key")
			}
			add(e)
		})
	}
	if r.err == nil && len(c.entries) == from {
		r.fail("must not be empty")
	}
	return c.entries[from:len(c.entries):len(c.entries)]
}

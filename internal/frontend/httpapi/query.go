package httpapi

import (
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/once"
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
type shape uint32

const (
	mayPeek shape = 1 << iota
	mayLease
	mustLease
	mayHaveChecks
	mayName  // "limit": one of the limits that the descriptors meet
	mayUnits // "units", to give back
	maySeconds
	mayRate     // "rate", "burst" and "seconds" of an override
	mayReason   // "reason" of what an operator changes
	mayStrict   // "strict": an error where the rules do not have what is asked
	isExplained // "strict" is no error: that the rules do not have it is the answer
	mayDomain   // of a ban: "whole_domain", all requests with the entry; "here", on this node
	mayClient   // "client" in place of descriptors
	mustSpend   // a check that looks only is an error
	mayKey      // an idempotency key, in the header
	mustNotKey  // one is an error: another name makes the call one that can be repeated
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
	{"rate", mayRate}, {"burst", mayRate}, {"reason", mayReason}, {"strict", mayStrict | isExplained},
	{"whole_domain", mayDomain}, {"client", mayClient}, {"here", mayDomain}, {"end", maySeconds | mayRate},
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
	seenHere
	seenEnd
)

// knownMembers lists the members of the given shape, for whoever misspelt one.
func (s shape) knownMembers() string {
	var names []string
	for _, m := range members {
		if m.when == 0 || s&m.when != 0 {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, ", ")
}

// queries reads bodies that are checks. Safe for concurrent use.
type queries struct {
	responder *responder
	limiter   *weir.Limiter
	domain    string // of checks that name none
	priority  int    // of checks that name none
	strict    bool   // checks that do not say
	calls     *once.Calls
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
	// here: the ban is of this node alone.
	here bool
	// typed are the entries as they came where front ends write them in another form,
	// which is then in their place.
	typed []weir.Entry
	// held is what the lease was acquired by, if it says that.
	held *weir.Request
	// client is a name in events in place of descriptors.
	client string
	// notCovered says what a ban does not refuse.
	notCovered []string
	// yaml is the snippet of what the action made.
	yaml string
	// strict are the checks that say they are, lenient those that say they are not; asked
	// is what is said for the others, nil for nothing.
	strict, lenient []*weir.Request
	asked           *bool
	// end takes back what there is.
	end bool
	// key is the idempotency key; isRepeated: nothing was done, as the call was made before.
	key        string
	isRepeated bool
	seen       uint32
}

// answers returns the handler of a path with bodies of a shape, of so many bytes at most.
func (qs *queries) answers(most int, s shape, h handle) http.HandlerFunc {
	return qs.responder.answers(most, func(c *call, r *http.Request) error {
		defer c.query.release(qs.limiter)
		qs.parseBody(c, s)
		if err := c.reader.firstError(); err != nil {
			return err
		}
		if s&(mayKey|mustNotKey) != 0 && len(r.Header[keyHeader]) > 0 {
			if err := c.query.readKey(r, s); err != nil {
				return err
			}
		}
		return h(c, r)
	})
}

// readKey reads the idempotency key of a request whose body was read.
func (q *query) readKey(r *http.Request, s shape) (err error) {
	switch {
	case s&mustNotKey != 0:
		return &inputError{"is for check, reserve and grant; here name the lease, and repeat the call", keyHeader}
	case q.batch:
		return &inputError{"is for one check: ask each by itself", keyHeader}
	}
	q.key, err = readKey(r.Header)
	return err
}

// parseBody reads a body of the given shape: a check, or with mayHaveChecks several. The
// requests share the body's bytes.
func (qs *queries) parseBody(c *call, s shape) {
	q, r := &c.query, &c.reader
	*q = query{reqs: q.reqs[:0], strict: q.strict[:0], lenient: q.lenient[:0]}
	c.entries = c.entries[:0]
	qs.readCheck(c, s)
	r.expectEnd()
	if r.err != nil {
		return
	}
	extra := q.seen &^ (seenChecks | seenStrict)
	switch {
	case q.batch && extra != 0:
		r.err = &inputError{"stands either alone or in checks, not beside it", "#/" + members[bits.TrailingZeros32(extra)].name}
	case s&mustSpend != 0 && q.reqs[0].Verb == weir.Peek:
		r.err = &inputError{"must be at least 1: looking holds nothing", "#/cost"}
	case s&mayStrict != 0:
		r.err = qs.unmatched(q)
	}
}

// unmatched returns what a strict check asks that the rules do not have, nil for nothing.
func (qs *queries) unmatched(q *query) *inputError {
	others := qs.strict
	if q.asked != nil {
		others = *q.asked
	}
	for i, req := range q.reqs {
		if !slices.Contains(q.strict, req) && (!others || slices.Contains(q.lenient, req)) {
			continue
		}
		if why := checks.Unmatched(qs.limiter, req); why != "" {
			pointer := "#/descriptors"
			if q.batch {
				pointer = "#/checks/" + strconv.Itoa(i) + "/descriptors"
			}
			return &inputError{why, pointer}
		}
	}
	return nil
}

// duration is for how long a change holds.
func (q *query) duration() time.Duration { return time.Duration(q.seconds) * time.Second }

// release gives the requests back.
func (q *query) release(l *weir.Limiter) {
	for _, r := range q.reqs {
		l.Recycle(r)
	}
	clear(q.reqs)
	clear(q.strict)
	clear(q.lenient)
	q.reqs, q.strict, q.lenient = q.reqs[:0], q.strict[:0], q.lenient[:0]
}

// readCheck reads one check object.
func (qs *queries) readCheck(c *call, s shape) {
	q, r := &c.query, &c.reader
	req := qs.limiter.Acquire()
	req.Priority, req.Facts = qs.priority, checks.Facts(req)
	q.reqs = append(q.reqs, req)
	var seen, named uint32
	r.readObject(func(name []byte) {
		i := 0
		for i < len(members) && (members[i].name != string(name) || members[i].when != 0 && s&members[i].when == 0) {
			i++
		}
		if i == len(members) {
			r.unknown(s.knownMembers())
			return
		}
		r.refuseRepeat(&named, uint(i))
		if 1<<i&^(seenDescriptors|seenChecks) != 0 && r.readNull() {
			return // as if it were not there
		}
		seen |= 1 << i
		qs.readMember(c, req, 1<<i, s)
	})
	switch {
	case r.err != nil:
	case seen&seenChecks != 0:
		// What stood beside checks is an error, so nothing is lost with it.
		q.seen |= seen
		q.reqs = append(q.reqs[:0], q.reqs[1:]...)
		qs.limiter.Recycle(req)
		return
	case s&mustLease != 0 && seen&seenLease == 0:
		r.failMissing("lease")
	case s&mustLease != 0 && q.held != nil: // it alone says what is released
		req.Domain, req.Cost, req.Verb = q.held.Domain, q.held.Cost, weir.Spend
		req.Descriptors = append(req.Descriptors[:0], q.held.Descriptors...)
	case s&mustLease != 0 && seen&seenDescriptors == 0:
		r.err = &inputError{checks.NoLeaseText, "#/descriptors"}
	case seen&(seenDescriptors|seenClient) == 0:
		r.failMissing("descriptors")
	}
	if !q.batch {
		q.seen |= seen
	}
	if req.Domain == "" {
		req.Domain = qs.domain
	}
}

// readMember reads the value of one member of a check.
func (qs *queries) readMember(c *call, req *weir.Request, member uint32, s shape) {
	q, r := &c.query, &c.reader
	switch member {
	case seenDomain:
		req.Domain = r.readString(1, maxDomain)
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
		req.Lease = r.readString(1, checks.MaxWrittenLease)
		if q.held = checks.ReadLease(req.Lease); q.held != nil {
			req.Lease = q.held.Lease
		} else if len(req.Lease) > maxLease {
			r.failValue("must have at most " + strconv.Itoa(maxLease) + " bytes, has " + strconv.Itoa(len(req.Lease)))
		}
	case seenChecks:
		q.batch = true
		r.readArray(func(i int) {
			if i == maxChecks {
				r.failValue("at most " + strconv.Itoa(maxChecks) + " checks at once")
				return
			}
			qs.readCheck(c, mayPeek|mayLease|s&mayStrict)
		})
		if r.err == nil && len(q.reqs) == 1 {
			r.failValue("must not be empty")
		}
	case seenLimit:
		q.limit = r.readString(1, maxValue)
	case seenUnits:
		q.units = r.integer(1, weir.MaxCost)
	case seenSeconds:
		q.seconds = r.integer(0, int64(weir.MaxPeriod/time.Second))
	case seenRate:
		q.rate = r.readString(1, maxRate)
	case seenBurst:
		q.burst = r.integer(1, weir.MaxCost)
	case seenReason:
		q.reason = r.readString(0, maxReason)
	case seenWholeDomain:
		q.wholeDomain = r.boolean()
	case seenHere:
		q.here = r.boolean()
	case seenClient:
		q.client = r.readString(1, maxValue)
	case seenStrict:
		switch strict := r.boolean(); {
		case s&mayHaveChecks != 0:
			q.asked = new(strict)
		case strict:
			q.strict = append(q.strict, req)
		default:
			q.lenient = append(q.lenient, req)
		}
	case seenEnd:
		q.end = r.boolean()
	}
}

package event

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// Words of what became of a request as a whole, in Rollup.Requests.
const (
	RequestAllowed = "allowed"
	RequestRefused = "refused"
	// RequestFailed: the store could not decide it.
	RequestFailed = "failed"
)

// OtherDomains is the domain of the requests of all domains beyond those that a node
// tells apart.
const OtherDomains = "(other)"

// maxDomains is how many domains are told apart: clients of an API may name any.
const maxDomains = 256

// requestTally counts requests by domain, each once, however many limits it met.
type requestTally struct {
	// last is the domain that was met last: most nodes have one.
	last atomic.Pointer[domainTally]
	// all is replaced when a domain is new, under mu.
	all atomic.Pointer[map[string]*domainTally]
	mu  sync.Mutex
}

// domainTally counts the requests of a domain. Of the counters' outcomes it uses
// Allowed, Refused, and Degraded for those that failed.
type domainTally struct {
	domain   string
	n        *weir.Counters
	reported [3]uint64 // at the last roll-up; only Run's
}

var requestOutcomes = [3]struct {
	outcome weir.Outcome
	word    string
}{{weir.Allowed, RequestAllowed}, {weir.Refused, RequestRefused}, {weir.Degraded, RequestFailed}}

// count counts a request. A look at a limit, or a refund, is none.
func (t *requestTally) count(domain string, verb weir.Verb, d weir.Decision, err error) {
	if verb == weir.Peek || verb == weir.Refund {
		return
	}
	outcome := weir.Allowed
	switch {
	case err != nil:
		outcome = weir.Degraded
	case !d.Allowed():
		outcome = weir.Refused
	}
	of := t.last.Load()
	if of == nil || of.domain != domain {
		of = t.of(domain)
		t.last.Store(of)
	}
	of.n.Add(outcome)
}

// of returns the tally of a domain.
func (t *requestTally) of(domain string) *domainTally {
	if all := t.all.Load(); all != nil {
		if of := (*all)[domain]; of != nil {
			return of
		}
	}
	return t.learn(domain)
}

// learn adds a domain, or returns the tally of those for which there is no room.
func (t *requestTally) learn(domain string) *domainTally {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]*domainTally{}
	if known := t.all.Load(); known != nil {
		if len(*known) >= maxDomains {
			domain = OtherDomains
		}
		if of := (*known)[domain]; of != nil {
			return of
		}
		maps.Copy(all, *known)
	}
	of := &domainTally{domain: strings.Clone(domain), n: weir.NewCounters()}
	all[of.domain] = of
	t.all.Store(&all)
	return of
}

// roll returns the requests of each domain since the last call, by what became of
// them. It is called by one goroutine.
func (t *requestTally) roll() map[string]map[string]uint64 {
	all := t.all.Load()
	if all == nil {
		return nil
	}
	out := map[string]map[string]uint64{}
	for domain, of := range *all {
		for i, o := range requestOutcomes {
			n := of.n.Load(o.outcome)
			if n == of.reported[i] {
				continue
			}
			if out[domain] == nil {
				out[domain] = map[string]uint64{}
			}
			out[domain][o.word] = n - of.reported[i]
			of.reported[i] = n
		}
	}
	return out
}

// totals returns the requests of all domains since the start, by what became of them.
func (t *requestTally) totals() map[string]uint64 {
	out := map[string]uint64{}
	if all := t.all.Load(); all != nil {
		for _, of := range *all {
			for _, o := range requestOutcomes {
				if n := of.n.Load(o.outcome); n > 0 {
					out[o.word] += n
				}
			}
		}
	}
	return out
}

// Requests returns how many requests there were since the start, each counted once
// however many limits it met, by what became of them: RequestAllowed, RequestRefused and
// RequestFailed. Safe for concurrent use.
func (o *Observer) Requests() map[string]uint64 { return o.rollups.requests.totals() }

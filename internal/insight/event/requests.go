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
	reported outcomeCounts // at the last roll-up; only Run's
}

// requestWord returns the word for an outcome of a domainTally. RequestAllowed and
// RequestRefused are the outcomes' own.
func requestWord(o weir.Outcome) string {
	if o == weir.Degraded {
		return RequestFailed
	}
	return o.String()
}

// domains returns the tallies that there are, which nobody may change.
func (t *requestTally) domains() map[string]*domainTally {
	if all := t.all.Load(); all != nil {
		return *all
	}
	return nil
}

// countRequest counts a request. A look at a limit, or a refund, is none.
func (t *requestTally) countRequest(domain string, verb weir.Verb, d weir.Decision, err error) {
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
		of = t.tallyOf(domain)
		t.last.Store(of)
	}
	of.n.Add(outcome)
}

// tallyOf returns the tally of a domain.
func (t *requestTally) tallyOf(domain string) *domainTally {
	if of := t.domains()[domain]; of != nil {
		return of
	}
	return t.addDomain(domain)
}

// addDomain adds a domain, or returns the tally of those for which there is no room.
func (t *requestTally) addDomain(domain string) *domainTally {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.domains()
	if len(known) >= maxDomains {
		domain = OtherDomains
	}
	if of := known[domain]; of != nil {
		return of
	}
	all := make(map[string]*domainTally, len(known)+1)
	maps.Copy(all, known)
	of := &domainTally{domain: strings.Clone(domain), n: weir.NewCounters()}
	all[of.domain] = of
	t.all.Store(&all)
	return of
}

// takeRequests returns the requests of each domain since the last call, by what became of
// them. It is called by one goroutine.
func (t *requestTally) takeRequests() map[string]map[string]uint64 {
	out := map[string]map[string]uint64{}
	for domain, of := range t.domains() {
		if n := of.reported.takeGrowth(of.n, requestWord); len(n) > 0 {
			out[domain] = n
		}
	}
	return out
}

// totalRequests returns the requests of all domains since the start, by what became of them.
func (t *requestTally) totalRequests() map[string]uint64 {
	out := map[string]uint64{}
	for _, of := range t.domains() {
		for word, n := range new(outcomeCounts).takeGrowth(of.n, requestWord) {
			out[word] += n
		}
	}
	return out
}

// Requests returns how many requests there were since the start, each counted once
// however many limits it met, by what became of them: RequestAllowed, RequestRefused and
// RequestFailed. Safe for concurrent use.
func (o *Observer) Requests() map[string]uint64 { return o.rollups.requests.totalRequests() }

package algorithm

import (
	_ "embed"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// Concurrency limits how many units are in use at once. Each Spend takes a
// lease, named by Ask.ID, that ends with its Refund or one Period after it was
// last renewed. Spending again under the same name renews the lease: it is not
// counted twice, and if its cost has changed it is adjusted. A Refund ends the
// whole lease whatever its cost; ending it twice, or too late, does nothing, and the
// Decision refuses: there was none.
//
// Guarantee: at most Count units are in use at any time, if every holder stops
// or renews within Period of having asked. RetryAfter is an upper bound, the
// earliest time at which enough leases will have expired: holders usually end
// theirs sooner. Renewing at an unchanged or lower cost is always allowed, also
// above a count that was lowered meanwhile.
//
// State: 8 bytes and 24 for each lease; a row grows as it is used. Count is at
// most 10,000. Of forced leases beyond 10,000 the units are added to the one
// that expires last.
//
// Clock steps: a lease ends at its instant by the store's clock, so it lives as
// much longer as the clock goes back. Rule changes: leases keep their expiry.
//
// Choose it where what hurts is how many run at once. A lease is needed where
// an answer can get lost: a counter that goes up and down leaks one unit for
// every holder that crashes.
//
// Source: C. Gray and D. Cheriton, "Leases: an efficient fault-tolerant
// mechanism for distributed file cache consistency", SOSP 1989.
var Concurrency weir.Algorithm = concurrency{}

type concurrency struct{}

// maxLeases bounds the work of one decision, which looks at every lease.
const maxLeases = 10_000

// A lease is three cells, after the expiry stamp. Rows of leases are sorted by
// expiry and end at the first without a name.
const (
	leaseID     = iota
	leaseExpiry // microseconds
	leaseUnits
	leaseCells
)

// Name implements weir.Algorithm.
func (concurrency) Name() string { return "concurrency" }

// Traits implements weir.Algorithm.
func (concurrency) Traits() weir.Traits { return weir.Grows | weir.Leases }

// Prepare implements weir.Algorithm.
func (concurrency) Prepare(l *weir.Limit) error {
	if l.Count > maxLeases {
		return fmt.Errorf("count %d is above the %d leases that a key can hold: lower it, or share the load over several keys", l.Count, maxLeases)
	}
	l.Const[windowPeriod] = micros.Of(l.Period)
	// Not by Count: a row must keep its leases when the count is lowered.
	l.Cells, l.Layout = 1+maxLeases*leaseCells, "leases"
	l.Envelope = 0
	return nil
}

// leases is the state of one key as of some instant.
type leases struct {
	cells []int64 // without the stamp
	end   int     // cells in use
	live  int     // where the leases that have not expired begin
	held  int     // where the one that is asked about is, or -1
	inUse int64   // units of all live leases
}

func loadLeases(row []int64, now, id int64) leases {
	s := leases{cells: row[1:], held: -1}
	c := s.cells
	for ; s.end+leaseCells <= len(c) && c[s.end+leaseID] != 0; s.end += leaseCells {
		if c[s.end+leaseExpiry] <= now {
			s.live = s.end + leaseCells
			continue
		}
		s.inUse = addUnits(s.inUse, c[s.end+leaseUnits], weir.MaxCost)
		if c[s.end+leaseID] == id {
			s.held = s.end
		}
	}
	return s
}

// Room implements weir.Grower.
func (concurrency) Room(cells []int64, l *weir.Limit, a weir.Ask) int {
	s := loadLeases(cells, a.Now, a.ID)
	need := s.end
	if s.charges(l, a) && s.held < 0 {
		need = max(need, s.end-s.live+leaseCells)
	}
	return min(1+need, l.Cells)
}

// Step implements weir.Algorithm. A Spend without a name can never pass: stores
// answer it with weir.ErrNoLease.
func (concurrency) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	s := loadLeases(cells, a.Now, a.ID)
	allowed := s.allows(l, a)
	switch {
	case a.Cost == 0:
	case a.Verb == weir.Refund:
		if allowed {
			s.release()
			s.saveStamp(cells)
		}
	case s.charges(l, a):
		s.acquire(a, a.Now+l.Const[windowPeriod])
		s.saveStamp(cells)
	}
	return s.describe(l, a, allowed)
}

// unitsOfOthers returns the units in use by leases other than the one asked about.
func (s *leases) unitsOfOthers() int64 {
	if s.held < 0 {
		return s.inUse
	}
	return s.inUse - s.cells[s.held+leaseUnits]
}

func (s *leases) allows(l *weir.Limit, a weir.Ask) bool {
	switch {
	case a.Cost == 0:
		return true
	case a.Verb == weir.Refund:
		return s.held >= 0
	case a.ID == 0 && a.Verb != weir.Peek:
		return false
	case s.held >= 0 && a.Cost <= s.cells[s.held+leaseUnits]:
		return true
	}
	return a.Cost <= l.Count-s.unitsOfOthers()
}

// charges reports whether the ask takes or renews a lease.
func (s *leases) charges(l *weir.Limit, a weir.Ask) bool {
	return a.Cost > 0 && a.ID != 0 && (a.Verb == weir.Force || a.Verb == weir.Spend && s.allows(l, a))
}

// release forgets the held lease and the expired ones.
func (s *leases) release() {
	c := s.cells
	s.inUse -= c[s.held+leaseUnits]
	copy(c[s.held:], c[s.held+leaseCells:s.end])
	s.end -= leaseCells
	clear(c[s.end : s.end+leaseCells])
	s.held = -1
	s.compact()
}

// compact drops the expired leases from the front.
func (s *leases) compact() {
	if s.live == 0 {
		return
	}
	n := copy(s.cells, s.cells[s.live:s.end])
	clear(s.cells[n:s.end])
	s.end, s.live = n, 0
}

// acquire renews the held lease, or adds one, until expiry.
func (s *leases) acquire(a weir.Ask, expiry int64) {
	if s.held >= 0 {
		expiry = max(expiry, s.cells[s.held+leaseExpiry])
		s.release()
	}
	s.compact()
	c := s.cells
	s.inUse = addUnits(s.inUse, a.Cost, weir.MaxCost)
	if s.end == maxLeases*leaseCells {
		last := c[s.end-leaseCells : s.end]
		last[leaseUnits] = addUnits(last[leaseUnits], a.Cost, weir.MaxCost)
		last[leaseExpiry] = max(last[leaseExpiry], expiry)
		return
	}
	// Nearly always it goes to the end: only a clock that went back or a
	// shorter period brings it further to the front.
	at := s.end
	for at > 0 && c[at-leaseCells+leaseExpiry] > expiry {
		at -= leaseCells
	}
	copy(c[at+leaseCells:s.end+leaseCells], c[at:s.end])
	c[at+leaseID], c[at+leaseExpiry], c[at+leaseUnits] = a.ID, expiry, a.Cost
	s.end += leaseCells
	s.held = at
}

// saveStamp sets the row's stamp.
func (s *leases) saveStamp(row []int64) {
	row[0] = 0
	if s.end > 0 {
		row[0] = s.cells[s.end-leaseCells+leaseExpiry] << weir.FractionBits
	}
}

func (s *leases) describe(l *weir.Limit, a weir.Ask, allowed bool) weir.Decision {
	d := weir.Decision{Limit: l, Remaining: max(l.Count-s.inUse, 0)}
	c := s.cells
	if s.live < s.end {
		d.ResetAfter = micros.Duration(c[s.end-leaseCells+leaseExpiry] - a.Now)
	}
	if allowed {
		return d
	}
	d.RetryAfter = weir.Never
	if a.Verb == weir.Refund || a.Cost > l.Count || a.ID == 0 && a.Verb != weir.Peek {
		return d
	}
	over := a.Cost + s.unitsOfOthers() - l.Count
	for i := s.live; i < s.end; i += leaseCells {
		if i == s.held {
			continue
		}
		d.RetryAfter = micros.Duration(c[i+leaseExpiry] - a.Now)
		if over -= c[i+leaseUnits]; over <= 0 {
			break
		}
	}
	return d
}

//go:embed concurrency.lua
var concurrencyLua string

// Script implements Scripted.
func (concurrency) Script() Script {
	return Script{Name: "concurrency", Text: concurrencyLua, Spans: 1, States: 4, Collection: true}
}

// Consts implements Scripted.
func (concurrency) Consts(dst []int64, l *weir.Limit, _ int64) ([]int64, int64) {
	return append(dst, l.Count, l.Const[windowPeriod], maxLeases), forever
}

// Span implements Scripted.
func (concurrency) Span(dst []int64, _ *weir.Limit, cost int64) []int64 { return oneCost(dst, cost) }

// Describe implements Scripted.
func (concurrency) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	d := weir.Decision{Limit: l, Remaining: max(l.Count-state[0], 0)}
	if last := state[1]; last > a.Now {
		d.ResetAfter = micros.Duration(last - a.Now)
	}
	if !allowed {
		d.RetryAfter = weir.Never
		if opens := state[2]; opens > a.Now {
			d.RetryAfter = micros.Duration(opens - a.Now)
		}
	}
	return d
}

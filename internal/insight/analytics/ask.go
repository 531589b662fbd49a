package analytics

import (
	"cmp"
	"fmt"
	"time"
)

// ask is a question.
type ask struct {
	now time.Time
	// from and to are the range in seconds since the Unix epoch, of whole steps.
	from, to int64
	grain    Grain
	step     int64
	// told is what the answer says beside: see Coverage.Missing.
	missing []string

	domains, rules, limits, algorithms []string
	nodes, regions, outcomes           []string
	keys, tiers, paths, agents         []string
	verdicts                           []string
	mode, by, sort                     string
	top                                int
	edit                               edit
	// stepAsked: the step is not one that was chosen.
	stepAsked bool
}

// edit is what numbers of a limit are to be others. Zero means its own.
type edit struct {
	allowance, periodMS, burst int64
	algorithm                  string
}

// of returns a limit with the numbers of the edit. A burst that is the allowance
// stays so.
func (e *edit) of(l Limit) Limit {
	whole := l.Burst == l.Allowance
	l.Allowance, l.PeriodMS, l.Algorithm = cmp.Or(e.allowance, l.Allowance), cmp.Or(e.periodMS, l.PeriodMS), cmp.Or(e.algorithm, l.Algorithm)
	if whole {
		l.Burst = l.Allowance
	}
	l.Burst = cmp.Or(e.burst, l.Burst)
	return l
}

// steps are what a series may have that no step was asked for.
var steps = [...]int64{60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 2 * 86400, 7 * 86400, 30 * 86400, 90 * 86400, 365 * 86400}

// choose chooses grain and step for a range: the finest grain that is kept of all
// of it, hours beyond a day, days beyond 60.
func (a *ask) choose(from, to, step int64, clients bool, opt *Options) {
	kept := opt.kept(a.now)
	keeps := kept.counts
	coarsest := Day
	if clients {
		keeps, coarsest = kept.clients, Hour
	}
	g := Minute
	switch length := to - from; {
	case length > 60*86400:
		g = coarsest
	case length > 86400:
		g = min(Hour, coarsest)
	}
	for step > 0 && g > Minute && step%g.Seconds() != 0 {
		g-- // what was asked for is finer
	}
	// A coarser one only helps if it is kept longer.
	for g < coarsest && from < keeps[g] && keeps[g+1] <= keeps[g]-(g+1).Seconds() {
		g++
	}
	if from < keeps[g] {
		a.missing = append(a.missing, fmt.Sprintf("what is older than %s is not kept", time.Unix(keeps[g], 0).UTC().Format(time.RFC3339)))
	}
	if step%g.Seconds() != 0 {
		step = ceil(step, g.Seconds())
		a.missing = append(a.missing, fmt.Sprintf("intervals are of %d seconds: finer ones are not kept of the range", step))
	}
	if step == 0 {
		for _, s := range steps {
			if step = s; s%g.Seconds() == 0 && (to-from)/s <= usualPoints {
				break
			}
		}
	}
	a.grain, a.step = g, step
	a.from, a.to = floor(from, step), ceil(to, step)
}

// points returns how many steps the range has.
func (a *ask) points() int { return int((a.to - a.from) / a.step) }

// at returns the beginnings of the steps.
func (a *ask) at() []time.Time {
	out := make([]time.Time, a.points())
	for i := range out {
		out[i] = time.Unix(a.from+int64(i)*a.step, 0).UTC()
	}
	return out
}

// point returns the step that a row belongs to.
func (a *ask) point(at int64) int { return int((at - a.from) / a.step) }

// ofClients reports whether the question is about some clients only, so that it is
// answered by records.
func (a *ask) ofClients() bool {
	return a.keys != nil || a.tiers != nil || a.paths != nil || a.agents != nil
}

// clientGrain is the grain of the rows of clients.
func (a *ask) clientGrain() Grain { return min(a.grain, Hour) }

// wholeRequests reports whether the question is of whole requests: they are kept by
// domain, node and region, and not by what else can be filtered by.
func (a *ask) wholeRequests() bool {
	return !a.ofClients() && a.rules == nil && a.limits == nil && a.algorithms == nil && a.outcomes == nil && a.mode == ""
}

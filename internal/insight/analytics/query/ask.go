package query

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Ask is a question.
type Ask struct {
	Now time.Time
	// From and to are the range in seconds since the Unix epoch, of whole steps.
	From, To int64
	Grain    rows.Grain
	Step     int64
	// told is what the answer says beside: see Coverage.Missing.
	Missing []string

	domains, rules, limits, algorithms []string
	Nodes, Regions, Outcomes           []string
	Keys, tiers, paths, agents         []string
	Verdicts                           []string
	mode, By, Sort                     string
	Top                                int
	Edit                               edit
	// StepAsked: the step is not one that was chosen.
	StepAsked bool
}

// edit is what numbers of a limit are to be others. Zero means its own.
type edit struct {
	allowance, periodMS, burst int64
	algorithm                  string
}

// ApplyTo returns a limit with the numbers of the edit. A burst that is the allowance
// stays so.
func (e *edit) ApplyTo(l rows.Limit) rows.Limit {
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

// ChooseGrain chooses grain and step for a range: the finest grain that is kept of all
// of it, hours beyond a day, days beyond 60.
func (a *Ask) ChooseGrain(from, to, step int64, clients bool, bounds *rows.Bounds) {
	kept := bounds.KeptAt(a.Now)
	keeps := kept.Counts
	coarsest := rows.Day
	if clients {
		keeps, coarsest = kept.Clients, rows.Hour
	}
	g := rows.Minute
	switch length := to - from; {
	case length > 60*86400:
		g = coarsest
	case length > 86400:
		g = min(rows.Hour, coarsest)
	}
	for step > 0 && g > rows.Minute && step%g.Seconds() != 0 {
		g-- // what was asked for is finer
	}
	// A coarser one only helps if it is kept longer.
	for g < coarsest && from < keeps[g] && keeps[g+1] <= keeps[g]-(g+1).Seconds() {
		g++
	}
	if from < keeps[g] {
		a.Missing = append(a.Missing, fmt.Sprintf("what is older than %s is not kept", time.Unix(keeps[g], 0).UTC().Format(time.RFC3339)))
	}
	if step%g.Seconds() != 0 {
		step = rows.CeilTo(step, g.Seconds())
		a.Missing = append(a.Missing, fmt.Sprintf("intervals are of %d seconds: finer ones are not kept of the range", step))
	}
	if step == 0 {
		for _, s := range steps {
			if step = s; s%g.Seconds() == 0 && (to-from)/s <= usualPoints {
				break
			}
		}
	}
	a.Grain, a.Step = g, step
	a.From, a.To = rows.FloorTo(from, step), rows.CeilTo(to, step)
}

// CountSteps returns how many steps the range has.
func (a *Ask) CountSteps() int { return int((a.To - a.From) / a.Step) }

// ListSteps returns the beginnings of the steps.
func (a *Ask) ListSteps() []time.Time {
	out := make([]time.Time, a.CountSteps())
	for i := range out {
		out[i] = time.Unix(a.From+int64(i)*a.Step, 0).UTC()
	}
	return out
}

// FindStep returns the step that a row belongs to.
func (a *Ask) FindStep(at int64) int { return int((at - a.From) / a.Step) }

// IsOfClients reports whether the question is about some clients only, so that it is
// answered by records.
func (a *Ask) IsOfClients() bool {
	return a.Keys != nil || a.tiers != nil || a.paths != nil || a.agents != nil
}

// ClientGrain is the grain of the rows of clients.
func (a *Ask) ClientGrain() rows.Grain { return min(a.Grain, rows.Hour) }

// IsOfRequests reports whether the question is of whole requests: they are kept by
// domain, node and region, and not by what else can be filtered by.
func (a *Ask) IsOfRequests() bool {
	return !a.IsOfClients() && a.rules == nil && a.limits == nil && a.algorithms == nil && a.Outcomes == nil && a.mode == ""
}

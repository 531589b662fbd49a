package traffic

import (
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Case is a client under a rule: what is known of it, and what it is.
type Case struct {
	Scenario string
	Rule     *Rule
	Key      string
	Who      Who
	Evidence *verdict.Evidence
}

// Known says what front ends know and tell.
type Known int

// What front ends know.
const (
	// Everything: who asks for what, and how it is answered, as a gateway does.
	Everything Known = iota
	// NoAnswers: who asks for what, as somebody does whom proxies ask.
	NoAnswers
	// Nothing: the key alone.
	Nothing
)

// Of returns the evidence as it would be if front ends knew no more.
func (k Known) Of(e *verdict.Evidence) *verdict.Evidence {
	less := *e
	if k >= NoAnswers {
		less.Answers = nil
	}
	if k >= Nothing {
		less.Identified = false
		less.Users, less.Agents, less.Paths, less.Addresses = 0, 0, 0, 0
		less.Agent, less.Path = "", ""
	}
	return &less
}

// Table puts records together as a service does that keeps a row for each client,
// limit and minute.
type Table struct {
	rows map[tableKey]*tableRow
}

type tableKey struct {
	rule, key string
	minute    int64
}

type tableRow struct {
	verdict.Row
	users, agents, paths, addresses []string
	seconds                         map[int64]int64
}

// Add takes in a record.
func (t *Table) Add(r *event.Record) {
	if t.rows == nil {
		t.rows = make(map[tableKey]*tableRow)
	}
	at := r.First.Truncate(time.Minute)
	k := tableKey{r.Rule, r.Key, at.UnixMicro()}
	row := t.rows[k]
	if row == nil {
		row = &tableRow{Row: verdict.Row{At: at, Span: time.Minute}, seconds: map[int64]int64{}}
		t.rows[k] = row
	}
	switch r.Outcome {
	case weir.Refused.String():
		row.Refused += r.Count
	case weir.ShadowRefused.String():
		row.Refused += r.Count
		row.Shadowed += r.Count
	default:
		row.Allowed += r.Count
	}
	row.Sampled = row.Sampled || len(r.Arrivals) > 0
	row.Cost += r.Cost
	row.Early += r.Early
	second := r.First.Unix()
	row.seconds[second] += r.Cost
	row.Busiest = max(row.Busiest, row.seconds[second])
	if a := r.About; a != nil {
		row.Identified = true
		row.User, row.Path, row.Address, row.Agent = a.User, a.Path, a.Address, a.Agent
		row.Users = max(row.Users, a.Users, distinct(&row.users, a.User))
		row.Agents = max(row.Agents, a.Agents, distinct(&row.agents, a.Agent))
		row.Paths = max(row.Paths, a.Paths, distinct(&row.paths, a.Path))
		row.Addresses = max(row.Addresses, a.Addresses, distinct(&row.addresses, a.Address))
	}
	if a := r.Answers; a != nil {
		row.Answers.Count += a.Count
		row.Answers.OK += a.OK
		row.Answers.Redirect += a.Redirect
		row.Answers.Denied += a.Denied
	}
}

// distinct counts a value among those that were seen.
func distinct(seen *[]string, value string) int64 {
	if value != "" && !slices.Contains(*seen, value) {
		*seen = append(*seen, value)
	}
	return int64(len(*seen))
}

// Cases returns the clients under the rules of a scenario that something is known
// of, in the order of their keys.
func (t *Table) Cases(s *Scenario) []Case {
	from, to := s.Range()
	return t.within(s, from, to, time.Time{})
}

// During returns the clients as Cases does, as somebody finds them who asks at to about
// the time since from, and does not know what comes after.
func (t *Table) During(s *Scenario, from, to time.Time) []Case { return t.within(s, from, to, to) }

func (t *Table) within(s *Scenario, from, to, now time.Time) []Case {
	type client struct{ rule, key string }
	gathered := map[client]*verdict.Gatherer{}
	began := time.UnixMicro(s.Start).UTC()
	for k, row := range t.rows {
		c := client{k.rule, k.key}
		g := gathered[c]
		if g == nil {
			r := s.ruleOf(k.rule)
			g = verdict.NewGatherer(verdict.Kind(r.Kind), r.Limit.Count, r.Limit.Period, from, to, began)
			g.InProgress(now)
			gathered[c] = g
		}
		g.Add(&row.Row)
	}
	var out []Case
	for c, g := range gathered {
		rule := s.ruleOf(c.rule)
		who, ok := s.Truth(rule.Kind, c.key)
		if !ok {
			continue
		}
		out = append(out, Case{s.Name, rule, c.key, who, g.Evidence()})
	}
	slices.SortFunc(out, func(a, b Case) int {
		if a.Rule != b.Rule {
			return slices.Index(s.Rules, a.Rule) - slices.Index(s.Rules, b.Rule)
		}
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return out
}

func (s *Scenario) ruleOf(name string) *Rule {
	return s.Rules[slices.IndexFunc(s.Rules, func(r *Rule) bool { return r.Name == name })]
}

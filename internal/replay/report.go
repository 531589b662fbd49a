package replay

import (
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// Report is what came of a replay.
type Report struct {
	// Lines is how many lines there were, Bad how many could not be read; Faults
	// are the first of those.
	Lines  int64             `json:"lines"`
	Bad    int64             `json:"invalid_lines"`
	Faults []accesslog.Fault `json:"faults,omitempty"`
	// Backwards is how many lines were more than a second older than one above.
	Backwards int64     `json:"out_of_order,omitempty"`
	Requests  int64     `json:"requests"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	// Clients is how many addresses there were.
	Clients Number   `json:"clients"`
	Rules   Outcome  `json:"rules"`
	Against *Outcome `json:"against,omitempty"`
	// OnlyRules is what Rules refuse and Against do not; OnlyAgainst the reverse.
	OnlyRules   *Difference `json:"only_rules,omitempty"`
	OnlyAgainst *Difference `json:"only_against,omitempty"`
}

// Number is a count that may be estimated, within 2 % in most cases.
type Number struct {
	Count int64 `json:"count"`
	Exact bool  `json:"exact"`
}

func number(d *distinct) (n Number) {
	n.Count, n.Exact = d.countSeen()
	return n
}

// Outcome is what one set of rules makes of the requests.
type Outcome struct {
	Files  []string `json:"files"`
	Domain string   `json:"domain"`
	// Refused, Soft and Delayed are numbers of requests, RefusedClients that of
	// the addresses behind the refused ones. Unlimited requests met no limit.
	Refused        int64  `json:"refused"`
	Soft           int64  `json:"soft"`
	Delayed        int64  `json:"delayed"`
	Unlimited      int64  `json:"unlimited"`
	RefusedClients Number `json:"refused_clients"`
	// Untried are the rules, by the keys that lead to them, that ask for what the
	// lines do not tell; Unended is how many requests met a limit on concurrency,
	// which a log does not tell the end of.
	Untried []string `json:"skipped_rules,omitempty"`
	Unended int64    `json:"without_end,omitempty"`
	Limits  []Limit  `json:"limits"`
	Series  Series   `json:"series"`
}

// Limit is what came of one limit.
type Limit struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
	// Allows is the limit in words: "100/minute token_bucket".
	Allows    string `json:"allows"`
	Algorithm string `json:"algorithm"`
	// Met is how many requests met it. Counts are those that it counted, by outcome:
	// one that another limit refused is not counted. Decisive is how many of the
	// refusals were the request's answer.
	Met      int64            `json:"matched"`
	Counts   map[string]int64 `json:"counts,omitempty"`
	Decisive int64            `json:"decided"`
	// Clients is how many keys it counted, Refused how many of them it refused.
	Clients Number `json:"clients"`
	Refused Number `json:"refused_clients"`
	// Most are the keys that it refused most.
	Most []Client `json:"top_clients,omitempty"`
	// FirstRefused and LastRefused are when it refused.
	FirstRefused *time.Time `json:"first_refused,omitempty"`
	LastRefused  *time.Time `json:"last_refused,omitempty"`
	Series       Series     `json:"series"`
	// Period is the limit's, as rules write it. Demand is nil of a concurrency limit.
	Period string  `json:"period"`
	Demand *Demand `json:"demand,omitempty"`
}

// Client is a key, and how often it was refused: at most Error too many.
type Client struct {
	Key     string `json:"key"`
	Refused int64  `json:"refused"`
	Error   int64  `json:"error,omitempty"`
}

// Difference is what one set of rules refuses and another does not.
type Difference struct {
	Requests int64    `json:"requests"`
	Clients  Number   `json:"clients"`
	Most     []Client `json:"top_clients,omitempty"`
}

// title names a limit for people: its rule, and its name if it has one of its own.
func (l *Limit) title() string {
	if l.Limit == l.Rule {
		return l.Rule
	}
	return l.Rule + " " + l.Limit
}

// Series is what happened in equal spans of time.
type Series struct {
	From    time.Time `json:"from"`
	Seconds int64     `json:"seconds"`
	Allowed []int64   `json:"allowed"`
	Refused []int64   `json:"refused"`
}

// maxReported is how many clients are told of each limit.
const maxReported = 10

// Report returns what came of the logs that were read.
func (r *Replay) Report() *Report {
	out := r.sum
	out.First, out.Last = instant(r.first), instant(r.last)
	out.Clients, out.Rules = number(&r.trial.clients), r.trial.report()
	if r.against != nil {
		before := r.against.report()
		out.Against = &before
		out.OnlyRules, out.OnlyAgainst = r.only[0].report(), r.only[1].report()
	}
	return &out
}

func (d *difference) report() *Difference {
	return &Difference{Requests: d.requests, Clients: number(&d.who), Most: mostRefused(d.most)}
}

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

func (t *trial) report() Outcome {
	out := t.sum
	out.Files, out.Domain = t.Files, t.Domain
	out.RefusedClients, out.Series = number(&t.refusedClients), t.series.report()
	for _, keys := range t.Untold {
		out.Untried = append(out.Untried, strings.Join(keys, "/"))
	}
	for _, one := range t.order {
		if one.Domain == t.Domain || one.Domain == "" && one.met > 0 {
			out.Limits = append(out.Limits, one.report())
		}
	}
	return out
}

func (t *tally) report() Limit {
	out := Limit{
		Rule: t.Rule, Limit: t.Limit.Name, Allows: limits.Summary(t.Limit), Algorithm: t.Limit.Algorithm.Name(),
		Met: t.met, Decisive: t.decisive, Clients: number(&t.clients), Refused: number(&t.refused),
		Most: mostRefused(t.heavy), Series: t.series.report(),
		Period: rules.FormatPeriod(t.Limit.Period), Demand: t.demand.report(),
	}
	for o := weir.Allowed; o < weir.NumOutcomes; o++ {
		if n := t.counts[o]; n > 0 {
			if out.Counts == nil {
				out.Counts = make(map[string]int64)
			}
			out.Counts[o.String()] = n
		}
	}
	if t.first > 0 {
		first, last := instant(t.first), instant(t.last)
		out.FirstRefused, out.LastRefused = &first, &last
	}
	return out
}

// mostRefused returns the keys that were refused most, those alone that certainly were
// more often than any that is left out.
func mostRefused(s *sketch.SpaceSaving[string]) []Client {
	var out []Client
	for _, c := range s.TopCounters(maxReported) {
		if c.Error < c.Count {
			out = append(out, Client{Key: figures.Key(c.Key), Refused: c.Count, Error: c.Error})
		}
	}
	return out
}

func (s *series) report() Series {
	out := Series{From: instant(s.from), Seconds: widths[s.width] / 1e6}
	for _, p := range s.points {
		out.Allowed = append(out.Allowed, p.allowed)
		out.Refused = append(out.Refused, p.refused)
	}
	return out
}

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/rules"
)

type explainCmd struct {
	Entries []string `arg:"" name:"key=value" placeholder:"FILE|KEY=VALUE" help:"Rules files, then the entries of the descriptor, in order; + begins another descriptor."`
	Rules   []string `name:"rules" env:"-" sep:"none" placeholder:"FILE|DIR" help:"Rules to explain; can be given several times."`
	Domain  string   `name:"domain" default:"api" placeholder:"NAME" help:"Domain of the request."`
	Cost    int64    `name:"cost" default:"1" placeholder:"N" help:"Units that the request costs."`
	Lease   string   `name:"lease" placeholder:"NAME" help:"Unit of work, for concurrency limits."`
	Admin   string   `name:"admin" was:"server" env:"-" placeholder:"URL" help:"Explain by the rules that a running node uses, and how its counters stand: its admin address from the same machine, or any with a token."`
	tokenFlags
	JSON bool `name:"json" help:"Print as JSON."`
}

// Help is the long text of `weir explain --help`.
func (*explainCmd) Help() string {
	return `Examples:

  weir explain rules.yaml client_id=123
  weir explain --domain checkout rules/ user=42 path=/pay + remote_address=203.0.113.7
  weir explain --admin http://127.0.0.1:6070 client_id=123

Shows for each descriptor which rule every entry matched and why, and for each
limit what it counts, under which key, and what it guarantees. Nothing is
counted. Exit status: 0 some limit applies, 1 none does, 2 error.`
}

// Run explains the request by the rules files or by a server.
func (c *explainCmd) Run(s streams) error {
	files, entries := cutFiles(c.Entries)
	c.Rules = append(c.Rules, files...)
	ds, err := descriptors(entries)
	if err != nil {
		return err
	}
	if (len(c.Rules) == 0) == (c.Admin == "") {
		return errors.New("give what to explain by: either rules, as in weir explain rules.yaml key=value, or --admin URL")
	}
	if c.Cost < 1 || c.Cost > weir.MaxCost {
		return fmt.Errorf("--cost %d must be between 1 and 2^53", c.Cost)
	}
	if c.Admin != "" {
		return c.live(s, ds)
	}
	set, err := rules.Load(c.Rules, rules.Options{})
	if err != nil {
		return err
	}
	x := set.Explain(&weir.Request{Domain: c.Domain, Descriptors: ds, Cost: c.Cost, Lease: c.Lease})
	if c.JSON {
		err = s.writeJSON(x)
	} else {
		_, err = io.WriteString(s.out, explanation(x, set.Limits()))
	}
	if err == nil && !limits(x) {
		err = errNo
	}
	return err
}

// liveAnswer is the answer of POST /v1/explain.
type liveAnswer struct {
	Decision verdict `json:"decision"`
	Counters []struct {
		limitDecision
		Key string `json:"key"`
	} `json:"counters"`
	Rules struct {
		Limits []string `json:"limits"`
		*rules.Explanation
	} `json:"rules"`
	Overlay []overlay.View       `json:"overlay"`
	Modes   []overlay.SwitchView `json:"modes"`
}

// live explains the request by a running server.
func (c *explainCmd) live(s streams, ds []weir.Descriptor) error {
	token, err := c.token()
	if err != nil {
		return err
	}
	q := newQuestion(c.Domain, ds)
	q.Cost, q.Lease = c.Cost, c.Lease
	srv := remote{url: c.Admin, token: token, timeout: liveTimeout}
	body, err := srv.ask("/v1/explain", q)
	if err != nil {
		return err
	}
	var a liveAnswer
	if err := srv.decode(body, &a, "an explanation"); err != nil {
		return err
	}
	err = s.writeAnswer(body, c.JSON, a.String())
	if err == nil && len(a.Counters) == 0 {
		err = errNo
	}
	return err
}

// liveTimeout is how long an explanation may take.
const liveTimeout = 10 * time.Second

// String writes the answer for a person.
func (a *liveAnswer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "now: %s", &a.Decision)
	for _, l := range a.Rules.Limits {
		fmt.Fprintf(&b, "limit in words: %s\n", l)
	}
	if a.Rules.Explanation != nil {
		b.WriteString(explanation(a.Rules.Explanation, nil))
	}
	if len(a.Counters) > 0 {
		b.WriteString("counters\n")
	}
	for _, n := range a.Counters {
		fmt.Fprintf(&b, "  %s key %q: remaining %d\n", n.Limit, n.Key, n.Remaining)
	}
	for i := range a.Overlay {
		v := &a.Overlay[i]
		fmt.Fprintf(&b, "over the rules: limit %s of key %q\n  %s  in a rules file:\n%s", v.Limit, v.Key, overlayLine(v), indented(v.YAML))
	}
	for i := range a.Modes {
		b.WriteString("over the rules: " + modeLine(&a.Modes[i]))
	}
	return b.String()
}

// limits reports whether the request meets any limit.
func limits(x *rules.Explanation) bool {
	if x.Listed != nil {
		return x.Listed.List == "deny"
	}
	for i := range x.Descriptors {
		if len(x.Descriptors[i].Limits) > 0 {
			return true
		}
	}
	return false
}

// explanation writes x for a person.
// Guarantees are those of known limits.
func explanation(x *rules.Explanation, known []*weir.Limit) string {
	type id struct{ scope, name string }
	byID := make(map[id]*weir.Limit)
	for _, l := range known {
		byID[id{l.Scope, l.Name}] = l
	}
	var b strings.Builder
	if !x.Known {
		fmt.Fprintf(&b, "domain %s: there are no rules for it\n", live.Printable(x.Domain))
		return b.String()
	}
	fmt.Fprintf(&b, "domain %s\n", x.Domain)
	if x.Listed != nil {
		fmt.Fprintf(&b, "  %s=%s is on the %s list of the domain\n", x.Listed.Entry.Key, live.Printable(x.Listed.Entry.Value), x.Listed.List)
	}
	for i := range x.Descriptors {
		d := &x.Descriptors[i]
		fmt.Fprintf(&b, "descriptor %d: %s\n", i+1, d.Outcome)
		for _, l := range d.Levels {
			rule := "-"
			if l.Rule != "" {
				rule = l.Rule
			}
			fmt.Fprintf(&b, "  %s=%s  ->  %s\n    %s\n", live.Printable(l.Entry.Key), live.Printable(l.Entry.Value), rule, l.Why)
		}
		fmt.Fprintf(&b, "  %s", d.Why)
		if d.File != "" {
			fmt.Fprintf(&b, " (%s:%d)", d.File, d.Line)
		}
		b.WriteByte('\n')
		for _, name := range d.Replaced {
			fmt.Fprintf(&b, "  %s does not apply: another limit replaces it\n", name)
		}
		for _, m := range d.Limits {
			fmt.Fprintf(&b, "  limit %s\n", m.Name)
			fmt.Fprintf(&b, "    allows     %s\n", m.Limit)
			fmt.Fprintf(&b, "    counts     %s under the key %q\n", units(m.Cost), m.Key)
			if m.Headroom > 0 {
				fmt.Fprintf(&b, "    keeps      %s for higher priorities\n", units(m.Headroom))
			}
			fmt.Fprintf(&b, "    role       %s\n", roles[m.Role])
			if l := byID[id{m.Scope, m.Name}]; l != nil {
				fmt.Fprintf(&b, "    guarantee  %s\n", promise(l, m.Role))
				if theorem, ok := theorems[l.Algorithm.Name()]; ok {
					fmt.Fprintf(&b, "    theorem    %s\n", theorem)
				}
			}
		}
	}
	return b.String()
}

// promise says what the limit guarantees in a role, with its own numbers.
func promise(l *weir.Limit, role string) string {
	switch role {
	case "shadow":
		return "none: it refuses nothing"
	case "pool":
		return fmt.Sprintf("lends at most %d in any %s; what limits assure is charged to it on top", l.Envelope, rules.FormatPeriod(l.Period))
	}
	if l.Consistency.Mode == params.ConsistencyLocal {
		l = l.From(weir.FromLocal)
	}
	s := l.Guarantee().String()
	return strings.Replace(s, "in any period", "in any "+rules.FormatPeriod(l.Period), 1)
}

// roles says what each role means.
var roles = map[string]string{
	"enforce": "must allow the request",
	"soft":    "marks the request when it would refuse",
	"shadow":  "counts what it would refuse, refuses nothing",
	"own":     "assured share; the pool is asked beyond it",
	"pool":    "shared pool that is asked beyond the assured share",
	"always":  "counts, refuses nothing",
	"ban":     "refuses while the key is banned for its refusals",
	"deny":    "refuses everything",
}

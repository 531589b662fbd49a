package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/remote"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/shed"
)

type takeCmd struct {
	Entries []string      `arg:"" name:"key=value" help:"Entries of the descriptor, in order; + begins another descriptor."`
	HTTP    string        `name:"http" was:"server" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Address of the node's API, its --http."`
	Domain  string        `name:"domain" placeholder:"NAME" help:"Domain to ask; the server's own when left out."`
	Cost    int64         `name:"cost" default:"1" placeholder:"N" help:"Units to spend."`
	Peek    bool          `name:"peek" help:"Look only, spend nothing."`
	Lease   string        `name:"lease" placeholder:"NAME" help:"Unit of work, for concurrency limits."`
	Strict  bool          `name:"strict" help:"Fail also where one of several descriptors is one that no rule is matched by."`
	Allow   bool          `name:"allow-unmatched" help:"Take a request that meets no rule for allowed."`
	Timeout time.Duration `name:"timeout" default:"5s" placeholder:"DURATION" help:"Longest time to wait for the answer."`
	JSON    bool          `name:"json" help:"Print the server's answer as it is."`

	tokenFlags
}

// verdict is the answer of POST /v1/check. Times are in seconds, null for
// never.
type verdict struct {
	Allowed    bool            `json:"allowed"`
	Soft       bool            `json:"soft"`
	Borrowed   bool            `json:"borrowed"`
	Banned     bool            `json:"banned"`
	Delay      *float64        `json:"delay"`
	Limit      *limitInfo      `json:"limit"`
	Remaining  *int64          `json:"remaining"`
	RetryAfter *float64        `json:"retry_after"`
	ResetAfter *float64        `json:"reset_after"`
	Guarantee  guarantee       `json:"guarantee"`
	Limits     []limitDecision `json:"limits"`
}

type limitInfo struct {
	Name      string  `json:"name"`
	Count     int64   `json:"count"`
	Burst     int64   `json:"burst"`
	Period    float64 `json:"period"`
	Algorithm string  `json:"algorithm"`
}

type guarantee struct {
	weir.Guarantee
	AtMost    *int64 `json:"at_most"` // nil: unbounded, as the next
	OverAdmit *int64 `json:"over_admit"`
	Source    string `json:"source"`
}

// limitDecision is what one limit said of a key.
type limitDecision struct {
	Limit      *limitInfo `json:"limit"`
	Key        string     `json:"key"`
	Role       string     `json:"role"`
	Allowed    bool       `json:"allowed"`
	Remaining  int64      `json:"remaining"`
	RetryAfter *float64   `json:"retry_after"`
	ResetAfter *float64   `json:"reset_after"`
}

// Run asks and prints the answer.
func (c *takeCmd) Run(s streams) error {
	if os.Getenv("WEIR_SERVER") != "" {
		return errors.New("the environment variable WEIR_SERVER is now WEIR_HTTP: rename it")
	}
	ds, err := descriptors(c.Entries)
	if err != nil {
		return err
	}
	if c.Strict && c.Allow {
		return errors.New("--strict and --allow-unmatched cannot both be: leave one out")
	}
	if c.Cost < 1 || c.Cost > weir.MaxCost {
		return fmt.Errorf("--cost %d must be between 1 and 2^53; --peek looks without spending", c.Cost)
	}
	q := remote.NewQuestion(c.Domain, ds)
	q.Cost, q.Peek, q.Lease, q.Strict = c.Cost, c.Peek, c.Lease, c.Strict
	token, err := c.readToken()
	if err != nil {
		return err
	}
	srv := remote.Server{URL: c.HTTP, Token: token, Timeout: c.Timeout, Flag: "--http", BehindUpstream: true}
	body, err := srv.Ask("/v1/check", q)
	if err != nil {
		return err
	}
	var v verdict
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%s: the response is not a decision: %w%s", c.HTTP, err, remote.NotTrusted)
	}
	if !v.Allowed && v.Limit == nil { // whatever refuses is named
		return fmt.Errorf("%s: the response is not a decision%s", c.HTTP, remote.NotTrusted)
	}
	switch err = s.writeAnswer(body, c.JSON, v.String()); {
	case err != nil:
	case !v.Allowed:
		err = errNo
	case !v.meetsRule() && !c.Allow:
		err = mustMatch(srv, q)
	}
	return err
}

// meetsRule reports whether a limit of the rules is among those that were asked: load
// shedding limits every request.
func (v *verdict) meetsRule() bool {
	return slices.ContainsFunc(v.Limits, func(l limitDecision) bool { return l.Limit != nil && !shed.IsLimiter(l.Limit.Name) })
}

// mustMatch returns an error if q, which no limit of the rules applied to, meets no
// rule either.
func mustMatch(srv remote.Server, q remote.Question) error {
	q.Strict, q.Peek = true, true
	if _, err := srv.Ask("/v1/check", q); err != nil {
		return fmt.Errorf("no limit applies: %w; give --allow-unmatched if it is meant", err)
	}
	return nil
}

// String writes the answer for a person.
func (v *verdict) String() string {
	var b strings.Builder
	if v.Allowed {
		b.WriteString("allowed")
	} else {
		b.WriteString("refused")
	}
	if v.Soft {
		b.WriteString(", above a soft limit")
	}
	if v.Borrowed {
		b.WriteString(", borrowed from the pool")
	}
	switch {
	case v.Limit == nil:
		return b.String() + ": no limit applies\n"
	case v.Banned && v.RetryAfter == nil:
		return b.String() + ": banned\n"
	case v.Banned:
		return b.String() + ": banned for another " + seconds(v.RetryAfter) + "\n"
	}
	fmt.Fprintf(&b, " by %s\n", v.Limit)
	if v.Remaining != nil {
		fmt.Fprintf(&b, "  remaining    %d\n", *v.Remaining)
	}
	if !v.Allowed {
		fmt.Fprintf(&b, "  retry after  %s\n", seconds(v.RetryAfter))
	}
	if v.Delay != nil && *v.Delay > 0 {
		fmt.Fprintf(&b, "  delay        %s\n", seconds(v.Delay))
	}
	fmt.Fprintf(&b, "  reset after  %s\n", seconds(v.ResetAfter))
	fmt.Fprintf(&b, "  guarantee    %s\n", &v.Guarantee)
	if len(v.Limits) > 1 {
		b.WriteString("  limits\n")
		for _, l := range v.Limits {
			limitDecision := "allows"
			if !l.Allowed {
				limitDecision = "refuses, retry after " + seconds(l.RetryAfter)
			}
			fmt.Fprintf(&b, "    %-8s %s: %s, remaining %d\n", l.Role, l.Limit, limitDecision, l.Remaining)
		}
	}
	return b.String()
}

// String writes a limit in words: "login (10/minute, token_bucket)".
func (l *limitInfo) String() string {
	if l == nil {
		return "no limit"
	}
	if l.Algorithm == "" { // a ban, or a deny list
		return l.Name
	}
	period := time.Duration(l.Period * float64(time.Second))
	if a := algorithm.ByName(l.Algorithm); a != nil && a.Traits()&weir.Leases != 0 {
		return fmt.Sprintf("%s (%s)", l.Name, limits.Summary(&weir.Limit{Algorithm: a, Count: l.Count, Burst: l.Count, Period: period}))
	}
	s := fmt.Sprintf("%s (%d/%s", l.Name, l.Count, rules.FormatPeriod(period))
	if l.Burst != l.Count {
		s += fmt.Sprintf(", burst %d", l.Burst)
	}
	return s + ", " + l.Algorithm + ")"
}

// String says what the decision promises, in the words of weir.Guarantee.
func (g *guarantee) String() string {
	out := g.Guarantee
	for n, number := range map[*int64]*int64{&out.AtMost: g.AtMost, &out.OverAdmit: g.OverAdmit} {
		if *n = weir.Unbounded; number != nil {
			*n = *number
		}
	}
	_ = out.Source.UnmarshalText([]byte(g.Source)) // a newer server may have one more
	return out.String()
}

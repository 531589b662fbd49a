package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/remote"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

type explainCmd struct {
	Entries []string `arg:"" optional:"" name:"key=value" placeholder:"FILE|KEY=VALUE" help:"Rules files, then the entries of the descriptor, in order; + begins another descriptor."`
	Rules   []string `name:"rules" env:"-" sep:"none" placeholder:"FILE|DIR" help:"Rules to explain; can be given several times."`
	Domain  string   `name:"domain" default:"api" placeholder:"NAME" help:"Domain of the request."`
	Cost    int64    `name:"cost" default:"1" placeholder:"N" help:"Units that the request costs."`
	Lease   string   `name:"lease" placeholder:"NAME" help:"Unit of work, for concurrency limits."`
	Admin   string   `name:"admin" was:"server" env:"-" placeholder:"URL" help:"Explain by the rules that a running node uses, and how its counters stand: its admin address from the same machine, or any with a token."`
	tokenFlags

	Config  string   `name:"config" env:"-" placeholder:"FILE" help:"Explain --request as the gateway of this configuration of weir serve would decide it."`
	Request string   `name:"request" env:"-" placeholder:"'METHOD PATH'" help:"Request to explain."`
	Header  []string `name:"header" short:"H" env:"-" sep:"none" placeholder:"'NAME: VALUE'" help:"Header field of the request; can be given several times."`
	From    string   `name:"from" env:"-" default:"127.0.0.1" placeholder:"ADDRESS" help:"Address that the request comes from."`

	JSON    bool `name:"json" help:"Print as JSON."`
	Verbose bool `name:"verbose" short:"v" env:"-" help:"Print in full what each limit guarantees."`
}

// Run explains the request by the rules files or by a server.
func (c *explainCmd) Run(s streams) error {
	files, entries := cutFiles(c.Entries)
	if c.Config == "" && c.Request != "" && len(files) == 1 {
		c.Config, c.Entries = files[0], entries
	}
	if c.Config != "" || c.Request != "" {
		return c.explainRequest(s)
	}
	c.Rules = append(c.Rules, files...)
	ds, err := descriptors(entries)
	if err != nil {
		return err
	}
	if (len(c.Rules) == 0) == (c.Admin == "") {
		return errors.New("give what to explain by: either rules, as in weir explain rules.yaml key=value, a configuration with --config, or --admin URL")
	}
	if c.Cost < 1 || c.Cost > weir.MaxCost {
		return fmt.Errorf("--cost %d must be between 1 and 2^53", c.Cost)
	}
	if c.Admin != "" {
		return c.explainLive(s, ds)
	}
	set, err := rules.Load(c.Rules, rules.Options{})
	if err != nil {
		return err
	}
	x := set.Explain(&weir.Request{Domain: c.Domain, Descriptors: ds, Cost: c.Cost, Lease: c.Lease})
	if err = s.writeReport(x, c.JSON, explanation(x, set.Limits(), c.Verbose)); err == nil && !isLimited(x) {
		err = errNo
	}
	return err
}

// liveAnswer is the answer of POST /v1/explain.
type liveAnswer struct {
	Decision verdict            `json:"decision"`
	Counters []limitDecision    `json:"counters"`
	Rules    limits.Explanation `json:"rules"`
	Overlay  []overlay.View     `json:"overlay"`
	Modes    []overlay.ModeView `json:"modes"`
}

// explainLive explains the request by a running server.
func (c *explainCmd) explainLive(s streams, ds []weir.Descriptor) error {
	token, err := c.readToken()
	if err != nil {
		return err
	}
	q := remote.NewQuestion(c.Domain, ds)
	q.Cost, q.Lease = c.Cost, c.Lease
	srv := remote.Server{URL: c.Admin, Token: token, Timeout: liveTimeout}
	var a liveAnswer
	body, err := srv.Read(http.MethodPost, "/v1/explain", q, &a, "an explanation")
	if err != nil {
		return err
	}
	err = s.writeAnswer(body, c.JSON, a.countedAs(ds)+a.String())
	if err == nil && len(a.Counters) == 0 {
		err = errNo
	}
	return err
}

// liveTimeout is how long an explanation may take.
const liveTimeout = 10 * time.Second

// countedAs says which of the descriptors front ends write in another form.
func (a *liveAnswer) countedAs(asked []weir.Descriptor) (text string) {
	for i, d := range a.Rules.Descriptors[:min(len(asked), len(a.Rules.Descriptors))] {
		if was, is := formatEntries(asked[i].Entries), formatEntries(d.Entries); was != is {
			text += fmt.Sprintf("%s is counted as %s\n", was, is)
		}
	}
	return text
}

// String writes the answer for a person.
func (a *liveAnswer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "now: %s", &a.Decision)
	b.WriteString(explanation(&a.Rules, nil, false))
	if len(a.Counters) > 0 {
		b.WriteString("counters\n")
	}
	for _, n := range a.Counters {
		remaining := fmt.Sprint("remaining ", n.Remaining)
		if n.Limit != nil && n.Limit.Algorithm == "" {
			remaining = "refuses everything"
		}
		fmt.Fprintf(&b, "  %s key %q: %s\n", n.Limit, n.Key, remaining)
	}
	for i := range a.Overlay {
		v := &a.Overlay[i]
		fmt.Fprintf(&b, "over the rules: %s, key %q\n  %s  in a rules file, to start from:\n%s", v.Limit, v.Key, overlayLine(v), indented(v.YAML))
	}
	for i := range a.Modes {
		b.WriteString("over the rules: " + modeLine(&a.Modes[i]))
	}
	return b.String()
}

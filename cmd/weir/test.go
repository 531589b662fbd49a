package main

import (
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/replay/cases"
	"github.com/weirlimit/weir/internal/server"
)

type testCmd struct {
	Files        []string `arg:"" name:"file" placeholder:"FILE" help:"Files of cases, and for http: steps a configuration."`
	Config       string   `name:"config" env:"-" placeholder:"FILE" help:"Configuration of weir serve whose gateway decides http: steps."`
	JSON         bool     `name:"json" help:"Print the results as JSON."`
	OnlyFailures bool     `name:"quiet" help:"Print only what fails."`
}

// Help is the long text of `weir test --help`.
func (*testCmd) Help() string {
	return `A file of cases:

  rules: [rules.yaml]                 # relative to this file
  cases:
    - name: a login every six seconds
      steps:
        - {request: {path: /login, remote_address: 192.0.2.1}, times: 10, expect: allowed}
        - request: {path: /login, remote_address: 192.0.2.1}
          expect: {outcome: refused, retry_after: 6s}
        - {after: 6s, request: {path: /login, remote_address: 192.0.2.1}, expect: allowed}

A step can be a request to the gateway of a configuration, in the place of entries,
as in weir test weir.yaml cases.yaml:

      steps:
        - {http: POST /login, times: 5, expect: allowed}
        - http: {method: POST, path: /login, host: shop.example, from: 203.0.113.9,
            headers: {X-API-Key: k1}}
          takes: 2s                     # and holds its permits as long
          expect: refused

Plays each case on a clock of its own, beginning with nothing spent. No upstream
responds, so nothing is charged by its response; flags and environment variables of
weir serve, bans and overrides are not looked at, nor shed.in_flight. Exit status:
0 all cases hold, 1 some do not, 2 a file cannot be read.`
}

// Run plays the cases.
func (c *testCmd) Run(s streams) error {
	all, err := c.play()
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range all {
		if len(r.Failures) > 0 {
			failed++
		}
	}
	if err := c.writeResults(s, all, failed); err != nil {
		return err
	}
	if failed > 0 {
		return errNo
	}
	return nil
}

// play plays the cases of all files.
func (c *testCmd) play() (all []cases.Result, err error) {
	var files []string
	for _, name := range c.Files {
		switch {
		case !server.IsConfig(name):
			files = append(files, name)
		case c.Config != "":
			return nil, fmt.Errorf("test: %s and %s are both configurations: give one", c.Config, name)
		default:
			c.Config = name
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("test: %s is a configuration: give files of cases too", c.Config)
	}
	var gw cases.Gateway
	if c.Config != "" {
		conf := server.Defaults()
		if err := conf.Load(c.Config); err != nil {
			return nil, err
		}
		t, err := server.OpenTrial(conf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Config, err)
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		gw = t
	}
	for _, name := range files {
		results, err := cases.Run(name, gw)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

func (c *testCmd) writeResults(s streams, all []cases.Result, failed int) error {
	if c.JSON {
		return s.writeJSON(all)
	}
	for _, r := range all {
		switch {
		case len(r.Failures) > 0:
			fmt.Fprintf(s.out, "FAIL  %s\n", r.Name)
			for _, f := range r.Failures {
				fmt.Fprintf(s.out, "      %s:%d: %s\n", r.File, f.Line, f.What)
			}
		case !c.OnlyFailures:
			fmt.Fprintf(s.out, "ok    %s\n", r.Name)
		}
	}
	_, err := fmt.Fprintf(s.out, "%s, %d failed\n", count(len(all), "case"), failed)
	return err
}

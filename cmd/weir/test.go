package main

import (
	"fmt"

	"github.com/weirlimit/weir/internal/replay/cases"
)

type testCmd struct {
	Files        []string `arg:"" name:"file" placeholder:"FILE" help:"Files of cases."`
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

Plays each case on a clock of its own, beginning with nothing spent. Exit status:
0 all cases hold, 1 some do not, 2 a file cannot be read.`
}

// Run plays the cases.
func (c *testCmd) Run(s streams) error {
	var all []cases.Result
	for _, name := range c.Files {
		results, err := cases.Run(name)
		if err != nil {
			return err
		}
		all = append(all, results...)
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
	_, err := fmt.Fprintf(s.out, "%d cases, %d failed\n", len(all), failed)
	return err
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/replay/cases"
)

type testCmd struct {
	Files        []string `arg:"" name:"file" placeholder:"FILE" help:"Files of cases, and for http: steps a configuration."`
	Config       string   `name:"config" env:"-" placeholder:"FILE" help:"Configuration of weir serve whose gateway decides http: steps."`
	JSON         bool     `name:"json" help:"Print the results as JSON."`
	OnlyFailures bool     `name:"quiet" help:"Print only what fails."`
}

// Run plays the cases.
func (c *testCmd) Run(s streams) error {
	all, err := c.playCases()
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range all {
		if len(r.Failures) > 0 {
			failed++
		}
	}
	if err := s.writeReport(all, c.JSON, c.formatResults(all, failed)); err != nil || failed == 0 {
		return err
	}
	return errNo
}

// playCases plays the cases of all files.
func (c *testCmd) playCases() (all []cases.Result, err error) {
	var files []string
	for _, name := range c.Files {
		switch {
		case !config.IsConfig(name):
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
		t, err := openTrial(c.Config)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		gw = t
	}
	for _, name := range files {
		results, err := cases.PlayFile(name, gw)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

// formatResults writes results for a person.
func (c *testCmd) formatResults(all []cases.Result, failed int) string {
	var b strings.Builder
	for _, r := range all {
		switch {
		case len(r.Failures) > 0:
			fmt.Fprintf(&b, "FAIL  %s\n", r.Name)
			for _, f := range r.Failures {
				fmt.Fprintf(&b, "      %s:%d: %s\n", r.File, f.Line, f.What)
			}
		case !c.OnlyFailures:
			fmt.Fprintf(&b, "ok    %s\n", r.Name)
		}
	}
	fmt.Fprintf(&b, "%s, %d failed\n", pluralize(len(all), "case"), failed)
	return b.String()
}

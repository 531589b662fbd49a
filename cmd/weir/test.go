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

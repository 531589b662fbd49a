package main

import (
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/replay"
	"github.com/weirlimit/weir/rules"
)

type replayCmd struct {
	logFiles
	Rules   []string          `name:"rules" env:"-" sep:"none" placeholder:"FILE|DIR" help:"Rules to try, or a configuration of weir serve; can be given several times. None means the first argument."`
	Against []string          `name:"against" env:"-" sep:"none" placeholder:"FILE|DIR" help:"Rules to compare them with, or a configuration; can be given several times."`
	Set     map[string]string `name:"set" env:"-" mapsep:"none" placeholder:"KEY=VALUE" help:"Give an entry the same value in each request: generic_key=api; can be given several times."`
	Domain  string            `name:"domain" env:"-" placeholder:"NAME" help:"Domain of the requests. None means the only one of the rules."`
	Memory  config.Bytes      `name:"memory" env:"-" placeholder:"SIZE" help:"Most memory for the state of each set of rules."`
	JSON    bool              `name:"json" help:"Print as JSON."`
}

// Run replays the logs.
func (c *replayCmd) Run(s streams) (err error) {
	if err := c.cutRules(); err != nil {
		return err
	}
	if value, isThere := c.Set[""]; isThere {
		return fmt.Errorf(`replay: --set "": give a key and its value, such as tenant=acme, not =%s`, value)
	}
	opt := replay.Options{MaxBytes: int64(c.Memory)}
	var end, endAgainst func() error
	if opt.Rules, end, err = c.loadRules(c.Rules, "replay"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if len(c.Against) > 0 {
		if opt.Against, endAgainst, err = c.loadRules(c.Against, "replay: against"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, endAgainst()) }()
	}
	r, err := replay.New(opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := c.eachLog(s, r.Read); err != nil {
		return err
	}
	report := r.Report()
	return s.writeReport(report, c.JSON, report.Text())
}

// loadRules reads rules, or the configuration that the one file is, which are to be tried as
// what. The caller calls end.
func (c *replayCmd) loadRules(files []string, what string) (_ *replay.Tried, end func() error, err error) {
	if len(files) == 1 && config.IsConfig(files[0]) {
		if c.Domain != "" {
			return nil, nil, fmt.Errorf("replay: %s is a configuration, which names its domain: leave out --domain", files[0])
		}
		return tryGateway(files[0], c.Field, c.Set)
	}
	set, err := rules.Load(files, rules.Options{})
	if err != nil {
		return nil, nil, err
	}
	tried, err := replay.TryRules(set, c.Domain, c.Field, c.Set)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	return tried, func() error { return nil }, nil
}

// cutRules takes the first argument for the rules where no flag names them.
func (c *replayCmd) cutRules() error {
	switch {
	case len(c.Rules) > 0:
	case len(c.Logs) == 0 || !looksLikeRules(c.Logs[0]):
		return errors.New("replay: give the rules to try first, as in weir replay rules.yaml access.log, or with --rules FILE|DIR")
	case len(c.Logs) > 1 && looksLikeRules(c.Logs[1]):
		return fmt.Errorf("replay: %s looks like rules, not like a log: name all rules with --rules, and those to compare them with with --against", c.Logs[1])
	default:
		c.Rules, c.Logs = c.Logs[:1], c.Logs[1:]
	}
	return nil
}

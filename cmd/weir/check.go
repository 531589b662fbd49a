package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/check"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

type checkCmd struct {
	Paths  []string `arg:"" optional:"" name:"path" placeholder:"FILE|DIR" help:"Rules files, or directories of them; or one configuration of weir serve."`
	Config string   `name:"config" placeholder:"FILE" help:"Check a configuration, also where the file does not look like one."`
	Format string   `name:"format" env:"-" enum:"text,json,github,sarif" default:"text" help:"How findings are printed: ${enum}. github annotates lines of a pull request, sarif is SARIF 2.1.0."`
	JSON   bool     `name:"json" help:"The same as --format json."`
	Strict bool     `name:"strict" help:"Let warnings fail too."`

	Envoy        bool `name:"envoy" help:"Check a directory for weir ratelimit, in the words of Envoy's service."`
	MergeDomains bool `name:"merge-domain-configs" help:"With --envoy: files may share a domain, as with MERGE_DOMAIN_CONFIG=true."`

	FromLimit string `name:"from-limit" env:"-" placeholder:"WORDS" help:"Check a limit as weir serve --limit takes it, and print the rules file that does the same."`
	API       bool   `name:"api" env:"-" help:"With --from-limit: limit callers of /shouldAllowRequest too, by their clientId."`
	Domain    string `name:"domain" env:"-" default:"api" placeholder:"NAME" help:"With --from-limit: domain of the requests."`
}

// The values of --format.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatGitHub = "github"
	formatSARIF  = "sarif"
)

// checkReport is the answer of --json.
type checkReport struct {
	Valid    bool         `json:"valid"`
	Rules    int          `json:"rules"`
	Files    []string     `json:"files,omitempty"`
	Faults   rules.Errors `json:"faults"`
	Warnings rules.Errors `json:"warnings"`
}

// Run checks the files.
func (c *checkCmd) Run(s streams) error {
	if c.FromLimit != "" {
		return c.writeRules(s)
	}
	switch {
	case c.JSON && c.Format != formatText && c.Format != formatJSON:
		return fmt.Errorf("check: --json and --format %s cannot both be: leave one out", c.Format)
	case c.JSON:
		c.Format = formatJSON
	}
	switch {
	case c.Envoy && (len(c.Paths) != 1 || c.Format != formatText || c.Strict || c.Config != ""):
		return errors.New("check: --envoy takes one directory, and neither --json, --format nor --strict")
	case c.Envoy:
		return checkEnvoy(s, c.Paths[0], c.MergeDomains)
	case c.MergeDomains:
		return errors.New("check: --merge-domain-configs needs --envoy")
	case c.Config != "" && len(c.Paths) > 0:
		return errors.New("check: --config names the rules itself: leave the other files out")
	case c.Config == "" && len(c.Paths) == 0:
		return errors.New("check: give rules files, or a configuration; see weir check --help")
	}
	if err := c.sortPaths(); err != nil {
		return err
	}
	set, errs, err := c.loadAndCheck()
	if err != nil {
		return err
	}
	faults, warnings := errs.Split()
	report := checkReport{Valid: (set != nil || c.Config != "") && len(faults) == 0, Faults: orNone(faults), Warnings: orNone(warnings)}
	if set != nil {
		report.Rules, report.Files = len(set.Rules()), set.Files()
	}
	if err := c.printReport(s, report, errs); err != nil {
		return err
	}
	switch {
	case !report.Valid, c.Strict && len(warnings) > 0:
		return errNo
	}
	return nil
}

// writeRules prints the rules file for a limit in words.
func (c *checkCmd) writeRules(s streams) error {
	if len(c.Paths) > 0 || c.Config != "" || c.Envoy {
		return errors.New("check: --from-limit makes a file and checks none: leave the files out")
	}
	text, err := words.File(c.FromLimit, c.Domain, c.API)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.out, text)
	return err
}

// sortPaths finds the configuration among the paths, all of which must be there.
func (c *checkCmd) sortPaths() error {
	for _, path := range append(c.Paths, c.Config) {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			if pe, ok := errors.AsType[*fs.PathError](err); ok {
				err = pe.Err // the call that failed says nothing to a reader
			}
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, path := range c.Paths {
		switch {
		case !config.IsConfig(path):
		case len(c.Paths) > 1:
			return fmt.Errorf("check: %s is a configuration, which names its rules: leave the other files out", path)
		default:
			c.Config = path
		}
	}
	return nil
}

// loadAndCheck returns the rules, and what is wrong with them.
func (c *checkCmd) loadAndCheck() (*limits.Set, rules.Errors, error) {
	if c.Config != "" {
		set, errs := check.FindFaults(c.Config)
		return set, errs, nil
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		return nil, nil, err
	}
	set, errs := rules.Check(c.Paths, rules.Options{Check: memory.Check, EntryForm: who.EntryForm})
	return set, errs, nil
}

// orNone makes "[]" of no findings in JSON, not "null".
func orNone(es rules.Errors) rules.Errors {
	if es == nil {
		return rules.Errors{}
	}
	return es
}

func (c *checkCmd) printReport(s streams, report checkReport, errs rules.Errors) error {
	line := (*rules.Error).Error
	switch c.Format {
	case formatJSON:
		return s.writeJSON(report)
	case formatSARIF:
		return s.writeJSON(newSARIF(errs))
	case formatGitHub:
		line = githubLine
	}
	for _, e := range errs {
		if _, err := fmt.Fprintln(s.out, line(e)); err != nil {
			return err
		}
	}
	var err error
	if report.Valid {
		_, err = fmt.Fprintf(s.out, "%s in %s: good, %s\n", pluralize(report.Rules, "rule"), pluralize(len(report.Files), "file"), pluralize(len(report.Warnings), "warning"))
	} else {
		_, err = fmt.Fprintf(s.out, "%s, %s\n", pluralize(len(report.Faults), "fault"), pluralize(len(report.Warnings), "warning"))
	}
	return err
}

// Command weir is a rate limiter: it serves decisions, and checks, explains
// and tries the rules that they are made by.
//
// Exit status of every subcommand: 0 for yes, 1 for no (a request refused,
// rules that are not valid), 2 when the question could not be answered.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirlimit/weir/internal/terminal"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/replay/facts"
)

type cli struct {
	Serve     serveCmd     `cmd:"" group:"Run:" help:"Run the rate limiter."`
	Demo      demoCmd      `cmd:"" group:"Run:" help:"Run a gateway with made-up clients, and show them on the dashboard."`
	Analytics analyticsCmd `cmd:"" group:"Run:" help:"Keep what servers tell through a queue, and answer questions."`
	Ratelimit ratelimitCmd `cmd:"" group:"Run:" help:"Run in the place of Envoy's rate limit service, by its variables."`

	Check   checkCmd   `cmd:"" group:"Try limits and rules:" help:"Check rules or a configuration, and report every mistake at once."`
	Explain explainCmd `cmd:"" group:"Try limits and rules:" help:"Show which rules a request meets, and why."`
	Test    testCmd    `cmd:"" group:"Try limits and rules:" help:"Test rules by cases, on a clock of their own."`
	Replay  replayCmd  `cmd:"" group:"Try limits and rules:" help:"Try rules on access logs: who would have been refused."`

	Top   topCmd   `cmd:"" group:"Look at a running server:" help:"Watch limits and clients of a running server, on a terminal."`
	Tail  tailCmd  `cmd:"" group:"Look at a running server:" help:"Print what a running server decides, as it decides it."`
	Take  takeCmd  `cmd:"" group:"Look at a running server:" help:"Ask a running server for one decision."`
	Audit auditCmd `cmd:"" group:"Look at a running server:" help:"Show what operators changed on running servers."`

	Key     keyCmd     `cmd:"" group:"Change a running server:" help:"Inspect, reset, ban or override one key on a running server."`
	Promote promoteCmd `cmd:"" group:"Change a running server:" help:"Give a rule another mode: shadow, a share of its keys, all."`
	Shed    shedCmd    `cmd:"" group:"Change a running server:" help:"Show load shedding of running servers, or change it."`

	Schema     schemaCmd     `cmd:"" help:"Print the JSON Schema of configurations or of rules files."`
	Version    versionCmd    `cmd:"" help:"Say which binary this is."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
}

const description = `Weir decides whether a request may pass: a rate limiter for one process or a
fleet. Start with a limit in front of a server:

  weir serve --limit "100/minute by ip" --upstream http://127.0.0.1:3000
`

func main() {
	s := streams{os.Stdin, os.Stdout, os.Stderr}
	if code, ok := runByName(filepath.Base(os.Args[0]), os.Args[1:], s); ok {
		os.Exit(code)
	}
	os.Exit(runCommand(asRatelimit(os.Args), s))
}

// newParser returns the parser of all subcommands into c.
func newParser(c *cli, s streams) (*kong.Kong, error) {
	k, err := kong.New(c,
		kong.Name("weir"),
		kong.Description(description),
		kong.Writers(s.out, s.err),
		kong.DefaultEnvars("WEIR"),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.ValueFormatter(withDefault),
		kong.Vars{"log_formats": strings.Join(accesslog.FormatNames(), ", "), "log_facts": strings.Join(facts.KnownKeys(), ", ")},
		kong.Bind(s),
	)
	if err != nil {
		return nil, err
	}
	return k, setLongHelp(k.Model)
}

// withDefault says what a flag does and what it is when it is not given. The
// environment variables are named by one rule, which the long help tells.
func withDefault(v *kong.Value) string {
	if !v.HasDefault || v.Default == "" || v.Default == "0s" {
		return v.Help
	}
	return fmt.Sprintf("%s [%s]", v.Help, v.Default)
}

// runCommand runs one command line and returns its exit status.
func runCommand(args []string, s streams) (code int) {
	for _, w := range []*io.Writer{&s.out, &s.err} {
		out, flush := terminal.Wrap(*w)
		defer func() {
			if err := flush(); err != nil && code == 0 {
				code = exitError
			}
		}()
		*w = out
	}
	var c cli
	parser, err := newParser(&c, s)
	if err != nil {
		return statusOf(err, "weir", s)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	// Many try these first.
	switch {
	case len(args) == 1 && args[0] == "--version":
		args = []string{"version"}
	case len(args) == 2 && args[0] == "help" && args[1] == "config":
		return statusOf(printConfigKeys(s.out), "weir", s)
	case args[0] == "help":
		args = append(args[1:len(args):len(args)], "--help")
	}
	ctx, err := parser.Parse(flagsFirst(parser, args))
	if err != nil {
		fmt.Fprintln(s.err, "weir:", explainParseError(err))
		if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context != nil {
			fmt.Fprintf(s.err, "see `%s --help`\n", commandOf(pe.Context))
		}
		return exitError
	}
	return statusOf(ctx.Run(), "weir", s)
}

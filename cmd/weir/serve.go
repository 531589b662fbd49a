package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/server"
)

type serveCmd struct {
	Files       []string `arg:"" optional:"" name:"file" placeholder:"FILE" help:"A rules file, a configuration, or one of each; as --rules and --config."`
	ConfigFile  string   `name:"config" placeholder:"FILE" help:"Configuration file in YAML. Flags and WEIR_* variables win over it."`
	PrintConfig bool     `name:"print-config" help:"Print the resulting configuration, without secrets, and exit."`
	Changed     bool     `name:"changed" env:"-" help:"With --print-config: print only what differs from the defaults."`

	server.Config `embed:""`
}

// Help is the long text of `weir serve --help`.
func (*serveCmd) Help() string {
	return `Examples:

  weir serve --limit "100/minute by ip" --upstream http://127.0.0.1:3000
      forward to a server, at most 100 requests a minute from one address

  weir serve --limit "10/second by client_id burst 20" --limit "1000/hour by client_id"
      answer POST /shouldAllowRequest; both limits must allow

  weir serve --resp 6380
      answer Redis clients: CL.THROTTLE, whose limits come with each call

  weir serve --rules rules.yaml --admin 0.0.0.0:6070 --admin-token-file token
      decide by a rules file, with metrics for other machines

A flag wins over its environment variable (--drain-delay is WEIR_DRAIN_DELAY),
that over the file given with --config, and that over the default in brackets.
More settings are in that file alone: "weir help config" lists all of them.
Durations are written 500ms, 10s, 5m; sizes 64KiB, 512MiB.

Signals: SIGTERM and SIGINT drain (readiness turns 503, requests in flight are
answered), a second one exits at once; SIGHUP reloads rules, API keys and
certificates. Exit status: 0 after a drain, 2 an error, or a second signal.`
}

// Run serves until a signal ends it.
func (c *serveCmd) Run(k *kong.Context, s streams) error {
	isSet, err := c.takeFiles(flagsSet(k))
	if err != nil {
		return err
	}
	conf, err := server.Layer(c.ConfigFile, &c.Config, isSet)
	if err != nil {
		return err
	}
	switch {
	case c.Changed && !c.PrintConfig:
		return errors.New("--changed is for --print-config: give that too")
	case c.PrintConfig:
		return c.print(s, conf)
	}
	server.KeepHeap()
	log := server.NewLogger(s.err, conf.Log)
	warnOfStrayEnv(k, log)
	srv, err := server.New(conf, readBuild(), log)
	if err != nil {
		return err
	}
	run := func(ctx context.Context) error {
		return srv.Run(ctx, func(r server.Ready) {
			if conf.Log.Format != "json" { // what reads both streams as JSON has it in the log
				fmt.Fprint(s.out, r)
			}
		})
	}
	draining := func(sig os.Signal) { log.Info("draining; a second signal exits at once", "signal", sig.String()) }
	return runUntilSignal(run, draining, srv.Reload, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// takeFiles makes the arguments the values of --config and --rules, and returns which flags
// are then given.
func (c *serveCmd) takeFiles(isSet func(string) bool) (func(string) bool, error) {
	rules := ""
	for _, file := range c.Files {
		to, what := &rules, "rules file, or give a directory"
		if server.IsConfig(file) {
			to, what = &c.ConfigFile, "configuration"
		}
		if *to != "" || to == &rules && isSet("rules") {
			return nil, fmt.Errorf("%s: there are two: keep one %s", file, what)
		}
		*to = file
	}
	if rules == "" {
		return isSet, nil
	}
	c.Rules = rules
	return func(flag string) bool { return flag == "rules" || isSet(flag) }, nil
}

// print prints a configuration that a node would start with.
func (c *serveCmd) print(s streams, conf *server.Config) error {
	if err := conf.CheckStart(); err != nil {
		return err
	}
	if c.Changed {
		return server.PrintChanged(s.out, conf)
	}
	return conf.Print(s.out)
}

// flagsSet tells which flags were given, on the command line or in the
// environment.
func flagsSet(k *kong.Context) func(string) bool {
	flags := make(map[string]bool)
	for _, p := range k.Path {
		if p.Flag != nil {
			flags[p.Flag.Name] = true
		}
	}
	for _, f := range k.Flags() {
		for _, env := range f.Tag.Envs {
			if _, ok := os.LookupEnv(env); ok {
				flags[f.Name] = true
			}
		}
	}
	return func(flag string) bool { return flags[flag] }
}

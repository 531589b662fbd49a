package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/check"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
)

type serveCmd struct {
	Files       []string `arg:"" optional:"" name:"file" placeholder:"FILE" help:"A rules file, a configuration, or one of each; as --rules and --config."`
	ConfigFile  string   `name:"config" placeholder:"FILE" help:"Configuration file in YAML. Flags and WEIR_* variables win over it."`
	PrintConfig bool     `name:"print-config" help:"Print the configuration that results, and exit. It leaves secrets out."`
	Changed     bool     `name:"changed" more:"" env:"-" help:"With --print-config: print only what differs from the defaults."`

	config.Config `embed:""`
}

// Run serves until a signal ends it.
func (c *serveCmd) Run(k *kong.Context, s streams) error {
	isSet, err := c.takeFiles(flagsSet(k))
	if err != nil {
		return err
	}
	conf, err := config.Layer(c.ConfigFile, &c.Config, isSet)
	if err != nil {
		return err
	}
	switch {
	case c.Changed && !c.PrintConfig:
		return errors.New("--changed is for --print-config: give that too")
	case c.PrintConfig:
		return c.printConfiguration(s, conf)
	}
	log := node.NewLogger(s.err, conf.Log)
	defer runtime.KeepAlive(limitMemory(log))
	warnOfStrayEnv(k, log)
	srv, err := node.New(conf, readBuild(), log)
	if err != nil {
		return err
	}
	run := func(ctx context.Context) error {
		return srv.Run(ctx, func(r node.Ready) {
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
		if config.IsConfig(file) {
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

// printConfiguration prints a configuration that a node would start with.
func (c *serveCmd) printConfiguration(s streams, conf *config.Config) error {
	if err := check.TryStart(conf); err != nil {
		return err
	}
	if c.Changed {
		return config.PrintChanged(s.out, conf)
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

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/ratelimit"
	"github.com/weirlimit/weir/internal/server"
)

type ratelimitCmd struct{}

// Help is the long text of `weir ratelimit --help`.
func (*ratelimitCmd) Help() string {
	return `Runs in the place of Envoy's rate limit service (envoyproxy/ratelimit), configured
by environment variables alone. The same program under the name ratelimit does the
same. docs/how-to/envoy-ratelimit.md says more. Exit status: 0 after a signal, 2 an
error, or a second signal.

` + settings.Help()
}

// asRatelimit returns the command line that a program of that name means:
// Envoy's service reads no arguments.
func asRatelimit(argv []string) []string {
	name := strings.TrimSuffix(filepath.Base(argv[0]), ".exe")
	if name != "ratelimit" {
		return argv[1:]
	}
	if slices.ContainsFunc(argv[1:], func(a string) bool { return a == "-h" || a == "--help" || a == "-help" }) {
		return []string{"ratelimit", "--help"}
	}
	return []string{"ratelimit"}
}

// Run serves until a signal ends it.
func (*ratelimitCmd) Run(s streams) error {
	conf, err := settings.Parse(os.LookupEnv)
	if err != nil {
		return err
	}
	server.KeepHeap()
	log := ratelimit.NewLogger(s.err, conf)
	node, err := ratelimit.New(ratelimit.Options{Settings: conf, Lookup: os.LookupEnv, Log: log, StatsTo: s.err})
	if err != nil {
		return err
	}
	draining := func(sig os.Signal) { log.Info(fmt.Sprintf("Received signal %v, initiating shutdown", sig)) }
	return runUntilSignal(node.Run, draining, nil, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

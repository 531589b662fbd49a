package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/ratelimit"
)

type ratelimitCmd struct{}

// Help is what the long help ends with: the environment variables.
func (*ratelimitCmd) Help() string { return settings.Help() }

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
	log := ratelimit.NewLogger(s.err, conf)
	defer runtime.KeepAlive(limitMemory(log))
	node, err := ratelimit.New(conf, os.LookupEnv, s.err, log)
	if err != nil {
		return err
	}
	draining := func(sig os.Signal) { log.Info(fmt.Sprintf("Received signal %v, initiating shutdown", sig)) }
	return runUntilSignal(node.Run, draining, nil, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

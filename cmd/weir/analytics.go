package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
)

type analyticsCmd struct {
	config.AnalyticsProcess `embed:""`
}

// Run counts until a signal ends it.
func (c *analyticsCmd) Run(k *kong.Context, s streams) error {
	if err := c.ReadVariables(); err != nil {
		return err
	}
	log := node.NewLogger(s.err, c.Log)
	warnOfStrayEnv(k, log)
	srv, err := node.NewAnalytics(&c.AnalyticsProcess, readBuild(), log)
	if err != nil {
		return err
	}
	run := func(ctx context.Context) error {
		return srv.Run(ctx, func(url string) { fmt.Fprintf(s.out, "analytics  %s/v1/analytics/overview\n", url) })
	}
	draining := func(os.Signal) { log.Info("draining; a second signal exits at once") }
	return runUntilSignal(run, draining, nil, os.Interrupt, syscall.SIGTERM)
}

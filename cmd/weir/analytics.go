package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/server"
)

type analyticsCmd struct {
	server.AnalyticsConfig `embed:""`
}

// Help is the long text of `weir analytics --help`.
func (*analyticsCmd) Help() string {
	return `Examples:

  weir analytics --events amqp://user:password@rabbitmq:5672/weir --analytics sqlite:/var/lib/weir/weir.db
  weir analytics --events kafka://kafka:9092/weir --analytics postgres://weir:password@db/weir --listen :6071 --admin-token-file token

Takes events out of the queue that servers put them into (weir serve --events),
counts each once, and answers questions about them under /v1/analytics/. With
PostgreSQL there can be as many of these as you like on one queue. Flags can be
given in the environment: --events is WEIR_EVENTS.

Signals: SIGTERM and SIGINT end it; what is not counted by then stays with the
queue. Exit status: 0 after a signal, 2 an error, or a second signal.`
}

// Run counts until a signal ends it.
func (c *analyticsCmd) Run(k *kong.Context, s streams) error {
	log := server.NewLogger(s.err, c.Log)
	warnOfStrayEnv(k, log)
	srv, err := server.NewAnalytics(&c.AnalyticsConfig, readBuild(), log)
	if err != nil {
		return err
	}
	run := func(ctx context.Context) error {
		return srv.Run(ctx, func(url string) { fmt.Fprintf(s.out, "analytics  %s/v1/analytics/overview\n", url) })
	}
	draining := func(os.Signal) { log.Info("draining; a second signal exits at once") }
	return runUntilSignal(run, draining, nil, os.Interrupt, syscall.SIGTERM)
}

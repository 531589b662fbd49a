package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weirlimit/weir/internal/demo"
	"github.com/weirlimit/weir/internal/server"
)

type demoCmd struct {
	Port  string        `name:"port" env:"-" placeholder:"PORT" help:"Port of the gateway. Without it a free one."`
	Admin string        `name:"admin" env:"-" placeholder:"PORT" help:"Port of the dashboard. Without it a free one."`
	For   time.Duration `name:"for" env:"-" placeholder:"DURATION" help:"End by itself after so long, such as 30s."`
	Seed  uint64        `name:"seed" env:"-" default:"1" placeholder:"N" help:"Number that the clients' choices follow from."`
}

// Help is the long text of `weir demo --help`.
func (*demoCmd) Help() string {
	return `Examples:

  weir demo
  weir demo --port 8080 --admin 6070
  weir demo --for 30s

Runs a gateway with limits in this process, a small upstream behind it, made-up clients
(people, an office behind one address, a script that does not wait, attackers), and the
dashboard, which shows each client and what it is taken for. It listens on loopback, sends
some 30 requests a second, and needs nothing else. Ctrl-C ends it and removes its files.

Exit status: 0 after Ctrl-C, 2 an error.`
}

// Run runs the demo until a signal ends it.
func (c *demoCmd) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.For < 0 {
		return fmt.Errorf("--for %s is in the past: give a time such as 30s", c.For)
	}
	log := server.NewLogger(s.err, server.Log{Level: "warn", Format: "text"})
	return demo.Run(ctx, demo.Options{Port: c.Port, Admin: c.Admin, For: c.For, Seed: c.Seed, Build: readBuild(), Out: s.out, Log: log})
}

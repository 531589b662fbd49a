package main

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/demo"
	"github.com/weirlimit/weir/internal/node"
)

type demoCmd struct {
	Port  string        `name:"port" env:"-" placeholder:"PORT" help:"Port of the gateway. Without it a free one."`
	Admin string        `name:"admin" env:"-" placeholder:"PORT" help:"Port of the dashboard. Without it a free one."`
	For   time.Duration `name:"for" env:"-" placeholder:"DURATION" help:"End by itself after so long, such as 30s."`
	Seed  uint64        `name:"seed" env:"-" default:"1" placeholder:"N" help:"Number that the clients' choices follow from."`
}

// Run runs the demo until a signal ends it.
func (c *demoCmd) Run(s streams) error {
	ctx, stop := untilSignal()
	defer stop()
	if c.For < 0 {
		return fmt.Errorf("--for %s is in the past: give a time such as 30s", c.For)
	}
	log := node.NewLogger(s.err, config.Log{Level: "warn", Format: "text"})
	return demo.Run(ctx, demo.Options{Port: c.Port, Admin: c.Admin, For: c.For, Seed: c.Seed, Build: readBuild(), Out: s.out, Log: log})
}

package main

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// Options say what fleet is played, and how.
type Options struct {
	// Rules says what the rules are, and Load reads them, as often as they are played.
	Rules string
	Load  func(rules.Options) (*limits.Set, error)
	// Domain of the requests. Empty means the only one of the rules.
	Domain string
	// Entries have the same value in all requests.
	Entries []weir.Entry
	// Without are keys of which no request has an entry.
	Without []string
	// Nodes, Users and Rate are the size of the fleet; Rate is in requests a second.
	Nodes, Users, Rate int64
	// Zipf is the exponent of the popularity of users: the user of rank r sends a share of
	// the requests in proportion to 1/r^Zipf. Zero means that all send as much.
	Zipf float64
	// For is how long is played, in virtual time.
	For time.Duration
	// Requests is about how many are played in each mode at most.
	Requests int64
	// Seed is what all chance follows from.
	Seed uint64
	// StoreLatency is how long a call of the shared store takes, there and back.
	StoreLatency time.Duration
}

// Bounds of what can be asked for.
const (
	MaxNodes    = 1000
	MaxUsers    = 10_000_000_000
	MaxRate     = 1_000_000_000
	MaxZipf     = 3
	MaxFor      = 24 * time.Hour
	MaxRequests = 20_000_000
	MaxLatency  = 10 * time.Second

	maxNodeSeconds = 100_000
)

// check returns what cannot be played.
func (o *Options) check() error {
	for _, x := range []struct {
		flag            string
		is, least, most int64
	}{
		{"--nodes", o.Nodes, 1, MaxNodes}, {"--users", o.Users, 1, MaxUsers}, {"--rate", o.Rate, 1, MaxRate},
		{"--requests", o.Requests, 1000, MaxRequests},
	} {
		if x.is < x.least || x.is > x.most {
			return fmt.Errorf("%s %s must be between %s and %s", x.flag, figures.Thousands(x.is), figures.Thousands(x.least), figures.Thousands(x.most))
		}
	}
	switch {
	case !(o.Zipf >= 0 && o.Zipf <= MaxZipf):
		return fmt.Errorf("--zipf %g must be between 0 (all users send as much) and %d", o.Zipf, MaxZipf)
	case o.For < time.Second || o.For > MaxFor:
		return fmt.Errorf("--for %s must be between 1s and %s", o.For, MaxFor)
	case o.Nodes*int64(o.For/time.Second) > maxNodeSeconds:
		return fmt.Errorf("%s nodes for %s are too much to play: at most %s seconds of all nodes together", figures.Thousands(o.Nodes), o.For, figures.Thousands(maxNodeSeconds))
	case o.StoreLatency < 0 || o.StoreLatency > MaxLatency:
		return fmt.Errorf("--store-latency %s must be between 0 and %s", o.StoreLatency, MaxLatency)
	}
	return nil
}

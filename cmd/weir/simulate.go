package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/internal/simulate"
	"github.com/weirlimit/weir/rules"
)

type simulateCmd struct {
	Files        []string      `arg:"" optional:"" name:"rules" placeholder:"FILE|DIR" help:"Rules, or a configuration that names them."`
	Rules        []string      `name:"rules" env:"-" sep:"none" placeholder:"FILE|DIR" help:"Rules, as the arguments are; can be given several times."`
	Limit        string        `name:"limit" env:"-" placeholder:"WORDS" help:"A limit as weir serve --limit takes it, instead of rules."`
	Domain       string        `name:"domain" env:"-" placeholder:"NAME" help:"Domain of the requests. None means the only one of the rules."`
	Entry        []string      `name:"entry" env:"-" sep:"none" placeholder:"KEY=VALUE" help:"Entry that all requests have; can be given several times."`
	Without      []string      `name:"without" env:"-" sep:"none" placeholder:"KEY" help:"Entry that no request has; can be given several times."`
	Nodes        int64         `name:"nodes" env:"-" default:"3" placeholder:"N" help:"Nodes of the fleet, at most 1,000."`
	Users        amount        `name:"users" env:"-" default:"10k" placeholder:"N" help:"Users, such as 100M."`
	Rate         amount        `name:"rate" env:"-" default:"1k" placeholder:"N" help:"Requests of all users in a second, such as 10M."`
	Zipf         float64       `name:"zipf" env:"-" default:"0.8" placeholder:"S" help:"Popularity: the user of rank r sends requests in proportion to 1/r^S. 0 means that all send as much."`
	For          time.Duration `name:"for" env:"-" default:"1m" placeholder:"DURATION" help:"Virtual time to play."`
	Requests     amount        `name:"requests" env:"-" default:"300k" placeholder:"N" help:"About the most requests to play in each mode; of a larger fleet a slice of its users is played."`
	Seed         uint64        `name:"seed" env:"-" default:"1" placeholder:"N" help:"Number that all chance follows from."`
	Store        string        `name:"store" env:"-" default:"memory" placeholder:"memory" help:"The shared store that is played."`
	StoreLatency time.Duration `name:"store-latency" env:"-" default:"500us" placeholder:"DURATION" help:"Time of a call of the shared store, there and back."`
	JSON         bool          `name:"json" help:"Print as JSON."`
}

// Run plays the fleet.
func (c *simulateCmd) Run(s streams) error {
	ctx, stop := untilSignal()
	defer stop()
	opt := simulate.Options{
		Domain: c.Domain, Without: c.Without, Nodes: c.Nodes, Users: int64(c.Users), Rate: int64(c.Rate), Zipf: c.Zipf, For: c.For,
		Requests: int64(c.Requests), Seed: c.Seed, StoreLatency: c.StoreLatency,
	}
	switch scheme, _, _ := strings.Cut(c.Store, ":"); scheme {
	case "memory":
	case "redis", "rediss", "valkey", "memcached":
		return fmt.Errorf("simulate: --store %s: a play reaches no server: measure its round trip, such as by redis-cli --latency, and give that with --store-latency", scheme)
	default:
		return fmt.Errorf("simulate: --store %q is not known: leave it out, and say with --store-latency how long a call takes", c.Store)
	}
	if len(c.Entry) > 0 {
		d, err := descriptors(c.Entry)
		if err != nil {
			return fmt.Errorf("--entry: %w", err)
		}
		opt.Entries = d[0].Entries
	}
	if err := c.setRules(&opt); err != nil {
		return err
	}
	report, err := simulate.Run(ctx, opt)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("simulate: interrupted")
	case err != nil:
		return err
	}
	return s.writeReport(report, c.JSON, report.Text())
}

// setRules has the rules be read that are named.
func (c *simulateCmd) setRules(opt *simulate.Options) error {
	files := append(c.Files[:len(c.Files):len(c.Files)], c.Rules...)
	switch {
	case c.Limit != "" && len(files) > 0:
		return errors.New("simulate: --limit and rules cannot both be: leave one out")
	case c.Limit != "":
		text, err := server.WriteWords(c.Limit, "api")
		if err != nil {
			return err
		}
		if strings.Contains(text, "key: remote_address\n") {
			opt.Without = append(opt.Without, "client_id") // which clients of the API have instead
		}
		opt.Rules = c.Limit
		opt.Load = func(o rules.Options) (*rules.Set, error) { return rules.Parse("--limit", []byte(text), o) }
		return nil
	case len(files) == 0:
		return errors.New(`simulate: give the rules, as in weir simulate rules.yaml, or a limit, as in weir simulate --limit "100/minute by ip"`)
	case len(files) == 1 && server.IsConfig(files[0]):
		conf, err := loadConfig(files[0])
		if err != nil {
			return err
		}
		if conf.Rules == "" {
			return fmt.Errorf("simulate: %s names no rules: give them, or a limit with --limit", files[0])
		}
		files = []string{conf.Rules}
	}
	opt.Rules = strings.Join(files, ", ")
	opt.Load = func(o rules.Options) (*rules.Set, error) { return rules.Load(files, o) }
	return nil
}

// An amount is a number that may be written in thousands, millions or billions: 10k, 2.5M.
type amount int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *amount) UnmarshalText(text []byte) error {
	word, times := strings.ReplaceAll(strings.ReplaceAll(string(text), "_", ""), ",", ""), 1.0
	for suffix, by := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9} {
		if rest, ok := strings.CutSuffix(word, suffix); ok {
			word, times = rest, by
			break
		}
	}
	n, err := strconv.ParseFloat(word, 64)
	if n *= times; err != nil || !(n >= 0 && n <= 1e15) || n != float64(int64(n)) {
		return fmt.Errorf("%q is not a whole number such as 5000, 10k or 2.5M", text)
	}
	*a = amount(n)
	return nil
}

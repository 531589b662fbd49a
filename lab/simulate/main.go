package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/words"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

type command struct {
	Files        []string      `arg:"" optional:"" name:"rules" placeholder:"FILE|DIR" help:"Rules."`
	Limit        string        `name:"limit" placeholder:"WORDS" help:"A limit as weir serve --limit takes it, instead of rules."`
	Domain       string        `name:"domain" placeholder:"NAME" help:"Domain of the requests. None means the only one of the rules."`
	Entry        []string      `name:"entry" sep:"none" placeholder:"KEY=VALUE" help:"Entry that all requests have; can be given several times."`
	Without      []string      `name:"without" sep:"none" placeholder:"KEY" help:"Entry that no request has; can be given several times."`
	Nodes        int64         `name:"nodes" default:"3" placeholder:"N" help:"Nodes of the fleet, at most 1,000."`
	Users        amount        `name:"users" default:"10k" placeholder:"N" help:"Users, such as 100M."`
	Rate         amount        `name:"rate" default:"1k" placeholder:"N" help:"Requests of all users in a second, such as 10M."`
	Zipf         float64       `name:"zipf" default:"0.8" placeholder:"S" help:"Popularity: the user of rank r sends requests in proportion to 1/r^S. 0 means that all send as much."`
	For          time.Duration `name:"for" default:"1m" placeholder:"DURATION" help:"Virtual time to play."`
	Requests     amount        `name:"requests" default:"300k" placeholder:"N" help:"About the most requests to play in each mode; of a larger fleet a slice of its users is played."`
	Seed         uint64        `name:"seed" default:"1" placeholder:"N" help:"Number that all chance follows from."`
	StoreLatency time.Duration `name:"store-latency" default:"500us" placeholder:"DURATION" help:"Time of a call of the shared store, there and back."`
	JSON         bool          `name:"json" help:"Print as JSON."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run plays the fleet that args describe, and returns the exit status: 2 if it was not played.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var c command
	parser, err := kong.New(&c, kong.Name("simulate"), kong.Description(description), kong.Writers(out, errs))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err == nil {
		err = c.play(ctx, out)
	}
	if err != nil {
		fmt.Fprintln(errs, "simulate:", err)
		return 2
	}
	return 0
}

const description = `Plays a fleet in virtual time before there is one: nodes with these rules and a store that
they share, asked by made-up users. The same requests are decided in each mode of consistency
and by one node alone, which is exact. It says how far each mode is from that, the calls of
the store, and the memory; and, by what decisions cost on this machine, the cores. Of a fleet
that is too large a slice of the users is played. It reaches no server.`

// play plays the fleet.
func (c *command) play(ctx context.Context, out io.Writer) error {
	opt := Options{
		Domain: c.Domain, Without: c.Without, Nodes: c.Nodes, Users: int64(c.Users), Rate: int64(c.Rate), Zipf: c.Zipf, For: c.For,
		Requests: int64(c.Requests), Seed: c.Seed, StoreLatency: c.StoreLatency,
	}
	for _, text := range c.Entry {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("--entry: %q is not an entry: write key=value, such as path=/login", text)
		}
		opt.Entries = append(opt.Entries, weir.Entry{Key: key, Value: value})
	}
	if err := c.setRules(&opt); err != nil {
		return err
	}
	report, err := Run(ctx, opt)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case err != nil:
		return err
	case c.JSON:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	_, err = io.WriteString(out, report.Text())
	return err
}

// setRules has the rules be read that are named.
func (c *command) setRules(opt *Options) error {
	switch {
	case c.Limit != "" && len(c.Files) > 0:
		return errors.New("--limit and rules cannot both be: leave one out")
	case c.Limit != "":
		text, err := words.File(c.Limit, "api", true)
		if err != nil {
			return err
		}
		if strings.Contains(text, "key: remote_address\n") {
			opt.Without = append(opt.Without, "client_id") // which clients of the API have instead
		}
		opt.Rules = c.Limit
		opt.Load = func(o rules.Options) (*limits.Set, error) { return rules.Parse("--limit", []byte(text), o) }
		return nil
	case len(c.Files) == 0:
		return errors.New(`give the rules, as in simulate rules.yaml, or a limit, as in simulate --limit "100/minute by ip"`)
	}
	opt.Rules = strings.Join(c.Files, ", ")
	opt.Load = func(o rules.Options) (*limits.Set, error) { return rules.Load(c.Files, o) }
	return nil
}

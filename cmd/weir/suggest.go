package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weirlimit/weir/internal/insight/live"
	"github.com/weirlimit/weir/internal/replay/accesslog"
	"github.com/weirlimit/weir/internal/replay/facts"
	"github.com/weirlimit/weir/internal/replay/suggest"
	"github.com/weirlimit/weir/rules"
)

type suggestCmd struct {
	logFiles
	By         string            `name:"by" env:"-" default:"remote_address" placeholder:"KEY" help:"What a client is: ${log_facts}, or a key of --field."`
	Where      map[string]string `name:"where" env:"-" mapsep:"none" placeholder:"KEY=VALUE" help:"Count only requests with this value, such as path=/login; can be given several times."`
	Every      []string          `name:"every" env:"-" default:"1s,1m,1h" placeholder:"PERIOD" help:"Periods to find limits for."`
	MaxClients int               `name:"max-clients" env:"-" default:"5000000" placeholder:"N" help:"Most clients; each takes about 64 bytes for each period."`
	JSON       bool              `name:"json" help:"Print as JSON."`
}

// Help is the long text of `weir suggest --help`.
func (*suggestCmd) Help() string {
	return `Examples:

  weir suggest access.log
  weir suggest --by user --every 1m,1d access.log.1.gz access.log
  weir suggest --where path=/login --every 1m access.log

Says how much clients ask for at their busiest, and for each limit how many of
them and of their requests it would catch, in windows aligned to the clock. Where
a few ask for far more than all others it suggests a limit between them. Try it
before it bites: weir replay. Exit status: 0 the logs were read, 2 they were not.`
}

// filter is a value that a request must have.
type filter struct {
	index int
	value string
}

// Run looks for limits.
func (c *suggestCmd) Run(s streams) error {
	read, err := facts.New(c.Field)
	if err != nil {
		return err
	}
	index := func(flag, key string) (int, error) {
		i, ok := read.Index(key)
		if !ok {
			return 0, fmt.Errorf("%s: lines have no %q: use one of %s, or name the JSON member that has it with --field", flag, key, strings.Join(facts.Known(), ", "))
		}
		return i, nil
	}
	by, err := index("--by", c.By)
	if err != nil {
		return err
	}
	var where []filter
	for key, value := range c.Where {
		i, err := index("--where", key)
		if err != nil {
			return err
		}
		where = append(where, filter{i, value})
	}
	censuses, err := c.censuses()
	if err != nil {
		return err
	}
	if err := c.each(s, func(log *accesslog.Reader) error { return census(log, read, by, where, censuses) }); err != nil {
		return err
	}
	var ladders []*suggest.Ladder
	for _, one := range censuses {
		ladders = append(ladders, one.Ladder())
	}
	if c.JSON {
		return s.writeJSON(ladders)
	}
	return c.writeLadders(s.out, ladders)
}

func (c *suggestCmd) censuses() ([]*suggest.Census, error) {
	var out []*suggest.Census
	for _, every := range c.Every {
		period, err := rules.ParsePeriod(every)
		if err != nil {
			return nil, fmt.Errorf("--every: %w", err)
		}
		one, err := suggest.NewCensus(period, c.MaxClients)
		if err != nil {
			return nil, fmt.Errorf("--every, --max-clients: %w", err)
		}
		out = append(out, one)
	}
	return out, nil
}

// census counts the requests of a log that are meant.
func census(log *accesslog.Reader, read *facts.Reader, by int, where []filter, censuses []*suggest.Census) error {
	var l accesslog.Line
next:
	for {
		switch err := log.Next(&l); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		read.Read(&l)
		for _, f := range where {
			if read.Value(f.index) != f.value {
				continue next
			}
		}
		client := read.Value(by)
		if client == "" {
			continue
		}
		for _, one := range censuses {
			if err := one.Add(client, l.Time); err != nil {
				return err
			}
		}
	}
}

func (c *suggestCmd) writeLadders(w io.Writer, ladders []*suggest.Ladder) error {
	var b strings.Builder
	for i, l := range ladders {
		if i == 0 {
			fmt.Fprintf(&b, "%d requests of %d clients, by %s\n", l.Requests, l.Clients, c.By)
			for _, m := range l.Busiest {
				fmt.Fprintf(&b, "  %s  %d\n", live.Printable(m.Key), m.Requests)
			}
		}
		period := rules.FormatPeriod(l.Period)
		fmt.Fprintf(&b, "\nin a busiest %s half of the clients ask for up to %d, 90 %% for %d, 99 %% for %d, 99.9 %% for %d, all for %d\n",
			period, l.Peaks.P50, l.Peaks.P90, l.Peaks.P99, l.Peaks.P999, l.Peaks.Max)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "  limit\tclients caught\t%\trequests refused\t%\t")
		for _, r := range l.Rungs {
			mark := ""
			if r.Limit == l.Suggested {
				mark = "  <-"
			}
			fmt.Fprintf(t, "%d/%s\t%d\t%s\t%d\t%s\t%s\n", r.Limit, period, r.Clients, share(r.Clients, l.Clients), r.Requests, share(r.Requests, l.Requests), mark)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if l.Suggested > 0 {
			fmt.Fprintf(&b, "suggested: %d/%s, for %s\n", l.Suggested, period, l.Why)
		} else {
			fmt.Fprintf(&b, "no suggestion: %s\n", l.Why)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func share(n, all int64) string {
	if all == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f", 100*float64(n)/float64(all))
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
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
	path, _ := read.Index("path")
	all := counted{where: where, by: by}
	if all.censuses, err = c.censuses(); err != nil {
		return err
	}
	if c.mayReadAgain() {
		all.paths, all.path = map[string]int64{}, path
	}
	if err := c.each(s, func(log *accesslog.Reader) error { return census(log, read, []counted{all}) }); err != nil {
		return err
	}
	found := c.suggestions(&all, c.Where)
	more, err := c.ofPaths(s, read, &all)
	if err != nil {
		return err
	}
	found = append(found, more...)
	return s.writeReport(found, c.JSON, c.text(found))
}

// counted is whose requests are counted.
type counted struct {
	where    []filter
	by       int
	censuses []*suggest.Census
	// paths counts requests by path, the value at index path. Nil where it is not asked.
	paths map[string]int64
	path  int
}

// suggestion is what was found of requests with some values.
type suggestion struct {
	*suggest.Ladder
	Where map[string]string `json:"where,omitempty"`
	// YAML is the suggestion as lines of a rules file, empty for none.
	YAML string `json:"yaml,omitempty"`
}

func (c *suggestCmd) suggestions(q *counted, where map[string]string) (out []suggestion) {
	for _, one := range q.censuses {
		x := suggestion{Ladder: one.Ladder(), Where: where}
		if x.Suggested > 0 {
			x.YAML = c.ruleOf(x)
		}
		out = append(out, x)
	}
	return out
}

// ruleOf returns a suggestion as lines of a rules file.
func (c *suggestCmd) ruleOf(x suggestion) string {
	var b strings.Builder
	indent := ""
	for _, key := range slices.Sorted(maps.Keys(x.Where)) {
		fmt.Fprintf(&b, "%s- key: %q\n%[1]s  value: %[3]q\n%[1]s  descriptors:\n", indent, key, x.Where[key])
		indent += "    "
	}
	fmt.Fprintf(&b, "%s- {key: %q, limit: %d/%s}\n", indent, c.By, x.Suggested, rules.FormatPeriod(x.Period))
	return b.String()
}

// Bounds of the search of paths: how many are counted, and how many are looked at.
const maxPaths, busiestPaths = 100_000, 3

// mayReadAgain reports whether paths are to be looked at: nothing of them was asked, and
// the logs are files.
func (c *suggestCmd) mayReadAgain() bool {
	return len(c.Where) == 0 && c.By != "path" && len(c.Logs) > 0 && !slices.Contains(c.Logs, "-")
}

// ofPaths returns the suggestions for the busiest paths.
func (c *suggestCmd) ofPaths(s streams, read *facts.Reader, all *counted) (out []suggestion, err error) {
	paths := slices.SortedFunc(maps.Keys(all.paths), func(a, b string) int {
		return cmp.Or(cmp.Compare(all.paths[b], all.paths[a]), cmp.Compare(a, b))
	})
	if len(paths) < 2 { // one path is all requests
		return nil, nil
	}
	var qs []counted
	for _, path := range paths[:min(len(paths), busiestPaths)] {
		q := counted{where: []filter{{all.path, path}}, by: all.by}
		if q.censuses, err = c.censuses(); err != nil {
			return nil, err
		}
		qs = append(qs, q)
	}
	if err := c.each(s, func(log *accesslog.Reader) error { return census(log, read, qs) }); err != nil {
		return nil, err
	}
	for i := range qs {
		for _, x := range c.suggestions(&qs[i], map[string]string{"path": qs[i].where[0].value}) {
			if x.Suggested > 0 {
				out = append(out, x)
			}
		}
	}
	return out, nil
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
func census(log *accesslog.Reader, read *facts.Reader, qs []counted) error {
	var l accesslog.Line
	for {
		switch err := log.Next(&l); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		read.Read(&l)
		for i := range qs {
			if err := qs[i].add(read, l.Time); err != nil {
				return err
			}
		}
	}
}

// add counts the request that was read, if it is meant.
func (q *counted) add(read *facts.Reader, at int64) error {
	for _, f := range q.where {
		if read.Value(f.index) != f.value {
			return nil
		}
	}
	client := read.Value(q.by)
	if client == "" {
		return nil
	}
	if path := read.Value(q.path); q.paths != nil && path != "" {
		if _, known := q.paths[path]; known {
			q.paths[path]++
		} else if len(q.paths) < maxPaths {
			q.paths[strings.Clone(path)] = 1
		}
	}
	for _, one := range q.censuses {
		if err := one.Add(client, at); err != nil {
			return err
		}
	}
	return nil
}

// text writes suggestions for a person.
func (c *suggestCmd) text(ladders []suggestion) string {
	var b strings.Builder
	for i, l := range ladders {
		if i == 0 {
			fmt.Fprintf(&b, "%s of %s, by %s\n", count(l.Requests, "request"), count(l.Clients, "client"), c.By)
			for _, m := range l.Busiest {
				fmt.Fprintf(&b, "  %s  %d\n", live.Printable(m.Key), m.Requests)
			}
		}
		period, of := rules.FormatPeriod(l.Period), ""
		if path := l.Where["path"]; path != "" && len(c.Where) == 0 {
			of = " of " + live.Printable(path)
		}
		fmt.Fprintf(&b, "\nrequests%s by a client in its busiest %s: 50 %% at most %d, 90 %% %d, 99 %% %d, 99.9 %% %d, all %d\n",
			of, period, l.Peaks.P50, l.Peaks.P90, l.Peaks.P99, l.Peaks.P999, l.Peaks.Max)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "  limit\tclients caught\t%\trequests refused\t%\t")
		for _, r := range l.Rungs {
			mark := ""
			if r.Limit == l.Suggested {
				mark = "  <-"
			}
			fmt.Fprintf(t, "%d/%s\t%d\t%s\t%d\t%s\t%s\n", r.Limit, period, r.Clients, share(r.Clients, l.Clients), r.Requests, share(r.Requests, l.Requests), mark)
		}
		_ = t.Flush() // into memory
		if l.Suggested > 0 {
			fmt.Fprintf(&b, "suggested: %d/%s, for %s; in a rules file:\n%s", l.Suggested, period, l.Why, indented(l.YAML))
		} else {
			fmt.Fprintf(&b, "no suggestion: %s\n", l.Why)
		}
	}
	return b.String()
}

func share(n, all int64) string {
	if all == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f", 100*float64(n)/float64(all))
}

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/remote"
	"github.com/weirlimit/weir/internal/terminal"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/insight/live"
)

type tailCmd struct {
	watched
	Domains  []string `name:"domain" env:"-" sep:"none" placeholder:"NAME" help:"Only of this domain; each of these can be given several times."`
	Rules    []string `name:"rule" env:"-" sep:"none" placeholder:"RULE" help:"Only of this rule."`
	Limits   []string `name:"limit" env:"-" sep:"none" placeholder:"NAME" help:"Only of the limit of this name."`
	Keys     []string `name:"key" env:"-" sep:"none" placeholder:"KEY" help:"Only of this key, as records tell it."`
	Outcomes []string `name:"outcome" env:"-" sep:"none" placeholder:"WORD" help:"Only with this outcome, such as refused."`
	Count    int64    `name:"count" short:"n" env:"-" placeholder:"N" help:"End after so many records."`
	JSON     bool     `name:"json" env:"-" help:"Print records as JSON, one a line."`
}

// Run prints until it is interrupted.
func (c *tailCmd) Run(s streams) error {
	if c.Count < 0 {
		return fmt.Errorf("-n %d cannot be negative", c.Count)
	}
	ctx, stop := untilSignal()
	defer stop()
	filter := &live.Filter{
		Kinds:   []string{live.KindRecord, live.KindLoss},
		Domains: c.Domains, Rules: c.Rules, Limits: c.Limits, Keys: c.Keys, Outcomes: c.Outcomes,
	}
	stream, err := c.openStream(ctx, filter)
	if err != nil {
		return err
	}
	defer stream.Close()
	p := &tailPrinter{out: s.out, notes: s.err, json: c.JSON, colour: !c.JSON && terminal.WantsColour(s.out)}
	if p.colour {
		p.out = terminal.Unwrap(s.out) // colours are commands, and the rest of a line has none
	}
	if !c.JSON {
		zone, _ := time.Now().Zone()
		if _, err := fmt.Fprintf(p.out, "%-8s  %-*s %6s  %-*s  rule  limit  (times in %s)\n", "time", outcomeWidth, "outcome", "count", leastKey, "key", zone); err != nil {
			return err
		}
	}
	for c.Count == 0 || p.records < c.Count {
		m, err := stream.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = p.printMessage(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tailPrinter prints messages.
type tailPrinter struct {
	out, notes   io.Writer
	json, colour bool
	records      int64
	// widest is the width of the column of keys, loss what was told last.
	widest int
	loss   event.Loss
}

func (p *tailPrinter) printMessage(m live.Message) error {
	switch m.Kind {
	case live.KindRecord:
		p.records++
		if p.json {
			_, err := fmt.Fprintf(p.out, "%s\n", m.Data)
			return err
		}
		var r event.Record
		if err := remote.ReadEvent(m, &r, "a record"); err != nil {
			return err
		}
		_, err := io.WriteString(p.out, p.formatRecord(&r)+"\n")
		return err
	case live.KindLoss:
		var l event.Loss
		if err := remote.ReadEvent(m, &l, "a loss"); err != nil {
			return err
		}
		if n := l.Dropped + l.Discarded; n > p.loss.Dropped+p.loss.Discarded {
			fmt.Fprintf(p.notes, "-- records leave out %s since the server started\n", pluralize(int64(n), "decision"))
		}
		p.loss = l
	case live.KindDropped:
		var dropped live.Dropped
		if err := remote.ReadEvent(m, &dropped, "a count of missed events"); err != nil {
			return err
		}
		fmt.Fprintf(p.notes, "-- missed %s: they came faster than they were read\n", pluralize(int64(dropped.Events), "record"))
	}
	return nil
}

const (
	leastKey, mostKey = 16, 40
	outcomeWidth      = len("shadow_refused")
)

// outcomeColours are SGR parameters.
var outcomeColours = map[string]string{"refused": "31", "allowed": "32", "delayed": "33", "soft": "33", "borrowed": "33", "shadow_refused": "35"}

// formatRecord writes a record for a person.
func (p *tailPrinter) formatRecord(r *event.Record) string {
	key := live.Printable(r.Key)
	if r.Merged {
		key = "(many)"
	}
	if n := len([]rune(key)); n > p.widest {
		p.widest = min(max(n, leastKey), mostKey)
	}
	outcome := fmt.Sprintf("%-*s", outcomeWidth, live.Printable(r.Outcome))
	if sgr := outcomeColours[r.Outcome]; p.colour && sgr != "" {
		outcome = "\x1b[" + sgr + "m" + outcome + "\x1b[m"
	}
	path := live.Printable(strings.TrimPrefix(r.Domain+"/"+r.Rule, "/")) + "  " + live.Printable(r.Limit)
	return fmt.Sprintf("%s  %s %6d  %-*s  %s%s", r.Last.Local().Format("15:04:05"), outcome, r.Count, p.widest, key, path, details(r))
}

// details says what else there is to know of a record.
func details(r *event.Record) string {
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format, args...) }
	ms := func(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
	if r.Cost != r.Count {
		printf("cost %d", r.Cost)
	}
	switch {
	case r.Outcome == "allowed":
		printf("left %d", r.Least)
	case r.RetryMS < 0:
		printf("wait for ever")
	case r.RetryMS > 0:
		printf("wait %s", ms(r.RetryMS))
	}
	if r.DelayMS > 0 {
		printf("delay %s", ms(r.DelayMS))
	}
	if r.Early > 0 {
		printf("early %d", r.Early)
	}
	if r.Every > 1 {
		printf("one key of %d", r.Every)
	}
	if r.Degraded {
		printf("degraded, by %s", live.Printable(r.Source))
	}
	if a := r.About; a != nil {
		if a.Method != "" || a.Path != "" {
			printf("%s", live.Printable(strings.TrimSpace(a.Method+" "+a.Host+a.Path)))
		}
		if a.Address != "" {
			printf("from %s", live.Printable(a.Address))
		}
	}
	return b.String()
}

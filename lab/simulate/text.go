package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/internal/insight/live"
)

// wholeShare is from what on a share is not worth a word.
const wholeShare = 0.995

// Text returns the report for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	r.writeHead(&b)
	r.writeModes(&b)
	r.writeWhole(&b)
	r.writeMachine(&b)
	r.writeNotes(&b)
	return b.String()
}

func (r *Report) writeHead(b *strings.Builder) {
	f, p := &r.Fleet, &r.Played
	fmt.Fprintf(b, "%s, %s, %s, %s\n\n", figures.Count(f.Users, "user"), figures.Count(f.Rate, "request")+"/s", figures.Count(f.Nodes, "node"), live.Printable(f.Rules))
	if p.Every == 1 {
		b.WriteString("PLAYED: the whole fleet")
	} else {
		fmt.Fprintf(b, "PLAYED: one user of %s, at its own rate, on all nodes", figures.Thousands(p.Every))
	}
	fmt.Fprintf(b, ", for %s of virtual time, from empty counters\n", seconds(p.Seconds))
	law := "all send as much"
	if f.Zipf > 0 {
		law = fmt.Sprintf("Zipf's law with exponent %g: the busiest played sends %s/s", f.Zipf, short(p.Busiest))
	}
	fmt.Fprintf(b, "  users      %s, of whom %s came; %s\n", figures.Thousands(p.Users), figures.Thousands(p.Touched), law)
	fmt.Fprintf(b, "  requests   %s, each at a node by chance (seed %d)", figures.Thousands(p.Requests), p.Seed)
	if p.Every > 1 && p.Share < wholeShare {
		fmt.Fprintf(b, "; they stand for %s of the fleet's", percent(p.Share))
	}
	fmt.Fprintf(b, "\n  each has   %s\n", live.Printable(p.Entries))
	fmt.Fprintf(b, "  store      answers after %s, and never fails\n", seconds(f.StoreLatency))
}

func (r *Report) writeModes(b *strings.Builder) {
	b.WriteString("\nMEASURED in what was played: the same requests in each mode. exact is one node that gets them all.\n")
	t := newTable(b)
	fmt.Fprintln(t, "  mode\tallowed\trefused\ttoo many\tof one user\ttoo few\ton the node\tstore calls a request\tto return units")
	for i := range r.Modes {
		m := &r.Modes[i]
		fmt.Fprintf(t, "  %s\t%s\t%s\t", m.Mode, figures.Thousands(m.Allowed), percentOf(m.Refused, m.Requests))
		if i == 0 {
			fmt.Fprintln(t, "-\t-\t-\t-\t-\t-")
			continue
		}
		exact := r.Modes[0].Allowed
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.3f\t%.3f\n", off(m.TooMany, exact), figures.Thousands(m.WorstMany), off(m.Missing, exact),
			percentOf(m.OnNode, m.Requests), ratio(m.Calls, m.Requests), ratio(m.Returns, m.Requests))
	}
	_ = t.Flush()
}

func (r *Report) writeWhole(b *strings.Builder) {
	fmt.Fprintf(b, "\nCOMPUTED for the fleet at %s requests/s\n", figures.Thousands(r.Fleet.Rate))
	t := newTable(b)
	fmt.Fprintln(t, "  mode\tstore calls/s\tcalls in flight\tkeys a node holds units of\tin")
	for i := range r.Whole {
		w := &r.Whole[i]
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", w.Mode, short(w.Calls), short(w.InFlight), figures.Thousands(w.HeldKeys), size(float64(w.HeldBytes)))
	}
	_ = t.Flush()
}

func (r *Report) writeMachine(b *strings.Builder) {
	fmt.Fprintf(b, "\nMEASURED on this machine now: processor time, with the store in this process. Cores are COMPUTED for %s/s.\n", figures.Thousands(r.Fleet.Rate))
	t := newTable(b)
	fmt.Fprintln(t, "  mode\ta decision\tdecisions/s of a core\tcores of all nodes")
	m := &r.Machine
	for i := range m.Costs {
		c := &m.Costs[i]
		fmt.Fprintf(t, "  %s\t%.2f µs\t%s\t%s\n", c.Mode, c.Nanoseconds/1000, short(c.PerCore), short(c.Cores))
	}
	_ = t.Flush()
	fmt.Fprintf(b, "  counters   %.1f bytes a user in the embedded store at the end, by %s users; %.1f just after a request\n", m.BytesPerUser, figures.Thousands(m.MeasuredUsers), m.BytesAtOnce)
	fmt.Fprintf(b, "  COMPUTED   %s for the %s users who come within %s; %s for all at once\n",
		size(m.ActiveBytes), short(float64(m.ActiveUsers)), seconds(r.Played.Seconds), size(m.AllBytes))
}

// writeNotes writes what to know before the figures are believed.
func (r *Report) writeNotes(b *strings.Builder) {
	p := &r.Played
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	note("too many, too few: each user's requests allowed beyond those of exact, or missing, added up")
	note("on the node: decided without waiting for the store, which may be told later")
	note("store calls/s: calls a request x the rate; of those that return units a node makes one at a time")
	if p.Every > 1 {
		note("keys a node holds units of, and bytes: those of the slice x %s", figures.Thousands(p.Every))
	}
	if r.Modes[1].Mode != asWritten {
		note("the rules say no consistency: a fleet with a shared store counts leased, where the algorithm can")
	}
	if p.Every > 1 && p.Share < wholeShare {
		note("%s of the fleet's requests are of users too busy to be played: they are computed as if they were as those played", percent(1-p.Share))
	}
	if len(p.Small) > 0 {
		note("%s: fewer than %d units a node, so leased and eventual ask the store for each request that they allow", some(p.Small), leastShare)
	}
	if len(p.Common) > 0 && p.Every > 1 {
		note("%s: users share a counter, which gets one request of %s here: what this limit does to the fleet is not shown", some(p.Common), figures.Thousands(p.Every))
	}
	if len(p.LeftOut) > 0 {
		note("%s: left out, as requests of no duration meet no limit on concurrency", some(p.LeftOut))
	}
	if p.Unlimited > 0 {
		note("%s of the requests met no limit", percentOf(p.Unlimited, p.Requests))
	}
	for i := range r.Modes {
		if m := &r.Modes[i]; m.Degraded > 0 {
			note("%s: %s decisions by on_store_error, as the store was too slow", m.Mode, figures.Thousands(int64(m.Degraded)))
		}
	}
	for i := range r.Whole {
		if w := &r.Whole[i]; w.HeldBytes > heldBytes {
			note("%s: a node holds at most %d MiB (store_local_max_bytes): it would return units early, and make more calls", w.Mode, heldBytes>>20)
		}
	}
	b.WriteString("\nNOTES\n")
	for _, n := range notes {
		fmt.Fprintf(b, "  - %s\n", live.Printable(n))
	}
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 3, ' ', 0) }

// off writes by how many requests a mode is off, and how much that is.
func off(n, of int64) string {
	if n == 0 {
		return "0"
	}
	return figures.Thousands(n) + " (" + percentOf(n, of) + ")"
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond).String()
}

func percentOf(n, of int64) string { return percent(ratio(n, of)) }

func ratio(n, of int64) float64 { return float64(n) / float64(max(of, 1)) }

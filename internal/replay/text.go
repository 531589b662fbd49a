package replay

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/internal/insight/live"
)

// plot is how large a plot on a terminal is, in characters.
const plotWidth, plotHeight = 72, 8

// Text returns the report for a terminal, with plots.
func (r *Report) Text() string {
	var b strings.Builder
	r.writeHead(&b)
	r.Rules.writeText(&b, r)
	if r.Against != nil {
		b.WriteByte('\n')
		r.Against.writeText(&b, r)
		b.WriteByte('\n')
		r.compare(&b)
	}
	return b.String()
}

func (r *Report) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "%s of %s", figures.Count(r.Requests, "request"), r.Clients.StringOf("client"))
	if r.Requests > 0 {
		fmt.Fprintf(b, ", %s to %s", formatTime(r.First), formatTime(r.Last))
	}
	b.WriteByte('\n')
	if r.Bad > 0 {
		fmt.Fprintf(b, "%s of %s lines could not be read and are left out:\n", figures.Thousands(r.Bad), figures.Thousands(r.Lines))
		for _, f := range r.Faults {
			fmt.Fprintf(b, "  line %d: %s\n", f.Line, live.Printable(f.Err))
		}
	}
	if r.Backwards > 0 {
		fmt.Fprintf(b, "%s lines were older than one above them: they are decided at the later time\n", figures.Thousands(r.Backwards))
	}
	b.WriteByte('\n')
}

// name says which rules these are.
func (o Outcome) name() string { return strings.Join(o.Files, ", ") }

func (o *Outcome) writeText(b *strings.Builder, r *Report) {
	fmt.Fprintf(b, "%s (domain %s)\n", o.name(), o.Domain)
	fmt.Fprintf(b, "  refused   %s (%s) of %s (%s)\n",
		figures.Count(o.Refused, "request"), percent(o.Refused, r.Requests), o.RefusedClients.StringOf("client"), percent(o.RefusedClients.Count, r.Clients.Count))
	for _, x := range []struct {
		word string
		n    int64
		what string
	}{
		{"soft", o.Soft, "passed above a soft threshold"},
		{"delayed", o.Delayed, "would have been held back"},
		{"unlimited", o.Unlimited, "met no limit"},
		{"unended", o.Unended, "met a limit on concurrency, which a log cannot try"},
	} {
		if x.n > 0 {
			fmt.Fprintf(b, "  %-9s %s (%s) %s\n", x.word, figures.Count(x.n, "request"), percent(x.n, r.Requests), x.what)
		}
	}
	if len(o.Untried) > 0 {
		fmt.Fprintf(b, "  not tried, for lines do not tell what they ask for: %s\n", strings.Join(o.Untried, ", "))
	}
	b.WriteByte('\n')
	o.writeTable(b)
	o.drawPlots(b)
	o.writeMostRefused(b)
	for i := range o.Limits {
		if l := &o.Limits[i]; l.Demand != nil {
			l.Demand.writeText(b, l.title(), l.Period)
		}
	}
}

func (o *Outcome) writeTable(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "  met\trefused\t%\tdecided\tshadow\tclients\tof them\t  limit")
	for i := range o.Limits {
		l := &o.Limits[i]
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s  %s\n", figures.Thousands(l.Met), figures.Thousands(l.Counts["refused"]),
			percent(l.Counts["refused"], l.Met), figures.Thousands(l.Decisive), figures.Thousands(l.Counts["shadow_refused"]), l.Clients, l.Refused, l.title(), l.Allows)
	}
	_ = t.Flush() // into memory
	b.WriteByte('\n')
}

// drawPlots draws requests and refusals over time, where there are any.
func (o *Outcome) drawPlots(b *strings.Builder) {
	n := len(o.Series.Refused)
	if n < 2 || o.Refused == 0 {
		return
	}
	all, refused := make([]float64, n), make([]float64, n)
	for i := range n {
		refused[i] = float64(o.Series.Refused[i])
		all[i] = refused[i] + float64(o.Series.Allowed[i])
	}
	every := time.Duration(o.Series.Seconds) * time.Second
	fmt.Fprintf(b, "  requests (·) and refusals (▪) in each %s, from %s\n", formatSpan(every), formatTime(o.Series.From))
	b.WriteString(asciigraph.PlotMany([][]float64{all, refused},
		asciigraph.Height(plotHeight), asciigraph.Width(plotWidth), asciigraph.LowerBound(0), asciigraph.Precision(0),
		asciigraph.SeriesChars(asciigraph.CreateCharSet("·"), asciigraph.CreateCharSet("▪"))))
	b.WriteString("\n\n")
}

// writeMostRefused lists who was refused most.
func (o *Outcome) writeMostRefused(b *strings.Builder) {
	for i := range o.Limits {
		l := &o.Limits[i]
		if len(l.Most) > 0 {
			fmt.Fprintf(b, "  refused most by %s\n", l.title())
			clients(b, l.Most)
		}
	}
}

// clients lists clients, one on a line.
func clients(b *strings.Builder, most []Client) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, c := range most {
		fmt.Fprintf(t, "    %s\t%s\n", live.Printable(c.Key), c.Times())
	}
	_ = t.Flush() // into memory
}

// Times says how often a client was refused.
func (c Client) Times() string {
	if c.Error > 0 {
		return fmt.Sprintf("%s to %s", figures.Thousands(c.Refused-c.Error), figures.Thousands(c.Refused))
	}
	return figures.Thousands(c.Refused)
}

func (r *Report) compare(b *strings.Builder) {
	fmt.Fprintf(b, "%s against %s\n", r.Rules.name(), r.Against.name())
	for _, x := range []struct {
		word string
		d    *Difference
	}{{"more", r.OnlyRules}, {"fewer", r.OnlyAgainst}} {
		fmt.Fprintf(b, "  refuses %-5s: %s (%s) of %s\n", x.word, figures.Count(x.d.Requests, "request"), percent(x.d.Requests, r.Requests), x.d.Clients.StringOf("client"))
		clients(b, x.d.Most)
	}
}

// String returns the number for people; one that is estimated begins with ~.
func (n Number) String() string { return n.mark() + figures.Thousands(n.Count) }

// StringOf is String with what it is a number of: "1 client", "~20,000 clients".
func (n Number) StringOf(noun string) string { return n.mark() + figures.Count(n.Count, noun) }

func (n Number) mark() string {
	if n.Exact {
		return ""
	}
	return "~"
}

// percent returns how much n is of all.
func percent(n, all int64) string {
	p := 100 * float64(n) / float64(all)
	switch {
	case n == 0 || all == 0:
		return "0 %"
	case p < 0.01:
		return "<0.01 %"
	case p < 10:
		return fmt.Sprintf("%.2f %%", p)
	}
	return fmt.Sprintf("%.1f %%", p)
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// formatSpan writes a span of time in its largest unit.
func formatSpan(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

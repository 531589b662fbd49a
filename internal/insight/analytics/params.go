package analytics

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/period"
)

// Bounds on what is asked.
const (
	maxQuery  = 8 << 10
	maxValue  = 512
	maxWords  = 50
	maxPoints = 1500
	maxTop    = 1000
	// usualPoints is how many points a series has where no step is asked for.
	usualPoints = 120
)

// paramError says what is wrong with a parameter.
type paramError struct{ name, what string }

func (e *paramError) Error() string { return e.name + ": " + e.what }

// takes says what a path knows of the parameters, and what they are if they are
// left out.
type takes struct {
	// filters are the lists that it knows, by and sort the words that these have, the
	// first for what is left out.
	filters      []string
	by, sort     []string
	top          int // zero: it has none
	step, ranged bool
	// edits: the numbers of a limit can be others.
	edits bool
	// clients: it is made of rows of clients, which are not kept by day.
	clients bool
}

var (
	limitFilters  = []string{"domain", "rule", "limit", "algorithm", "mode"}
	originFilters = append(slices.Clone(limitFilters), "node", "region")
	countFilters  = append(slices.Clone(originFilters), "outcome")
	clientFilters = append(slices.Clone(limitFilters), "key", "tier", "path", "agent")
	allFilters    = append(slices.Clone(countFilters), "key", "tier", "path", "agent")
)

// parse reads the parameters of a question.
func parse(raw string, t takes, now time.Time, opt *Options) (*ask, error) {
	if len(raw) > maxQuery {
		return nil, &paramError{"query", fmt.Sprintf("of %d bytes: at most %d are read", len(raw), maxQuery)}
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &paramError{"query", "cannot be read: " + err.Error()}
	}
	a := &ask{now: now, top: t.top}
	p := &params{values: values, known: map[string]bool{}}
	lists := map[string]*[]string{
		"domain": &a.domains, "rule": &a.rules, "limit": &a.limits, "algorithm": &a.algorithms, "node": &a.nodes, "region": &a.regions, "outcome": &a.outcomes,
		"key": &a.keys, "tier": &a.tiers, "path": &a.paths, "agent": &a.agents, "verdict": &a.verdicts,
	}
	for _, name := range t.filters {
		switch list := lists[name]; {
		case list != nil:
			*list = p.list(name)
		case name == "mode":
			a.mode = p.word(name, []string{"", "shadow", "enforced"})
		}
	}
	for _, w := range []struct {
		name  string
		words []string
		to    *string
	}{{"by", t.by, &a.by}, {"sort", t.sort, &a.sort}} {
		if w.words != nil {
			*w.to = p.word(w.name, w.words)
		}
	}
	if t.top > 0 {
		a.top = p.number("top", t.top, 1, maxTop)
	}
	if t.edits {
		a.edits(p)
	}
	if t.ranged {
		a.span(p, t, opt)
	}
	if p.err == nil {
		p.unknown()
	}
	if p.err != nil {
		return nil, p.err
	}
	return a, nil
}

// params reads values, up to the first that is wrong.
type params struct {
	values url.Values
	known  map[string]bool
	err    error
}

func (p *params) fail(name, format string, args ...any) {
	if p.err == nil {
		p.err = &paramError{name, fmt.Sprintf(format, args...)}
	}
}

// one returns the only value of a parameter, empty if there is none.
func (p *params) one(name string) string {
	p.known[name] = true
	switch v := p.values[name]; len(v) {
	case 0:
		return ""
	case 1:
		if len(v[0]) > maxValue {
			p.fail(name, "has %d bytes: at most %d are read", len(v[0]), maxValue)
		}
		return v[0]
	}
	p.fail(name, "is given more than once")
	return ""
}

// word returns a value that is one of some words, the first if there is none.
func (p *params) word(name string, words []string) string {
	v := p.one(name)
	if v == "" {
		return words[0]
	}
	if !slices.Contains(words, v) {
		p.fail(name, "%.40q is not known: give %s", v, strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), ", "))
	}
	return v
}

func (p *params) number(name string, zero, least, most int) int {
	v := p.one(name)
	if v == "" {
		return zero
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		p.fail(name, "%.40q is not a number from %d to %d", v, least, most)
	}
	return n
}

// list returns the words of a parameter. A word of an empty value is the empty
// word: a rule without a domain.
func (p *params) list(name string) (out []string) {
	p.known[name] = true
	for _, v := range p.values[name] {
		if len(v) > maxValue {
			p.fail(name, "has %d bytes: at most %d are read", len(v), maxValue)
		}
		if name == "key" || name == "path" { // which may have commas
			out = append(out, text(v))
			continue
		}
		for _, w := range strings.Split(v, ",") {
			out = append(out, text(w))
		}
	}
	if len(out) > maxWords {
		p.fail(name, "has %d words: at most %d are read", len(out), maxWords)
	}
	return out
}

// unknown fails for a parameter that the path does not know.
func (p *params) unknown() {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !p.known[name] {
			p.fail(text(name[:min(len(name), 40)]), "is no parameter of this path")
		}
	}
}

// instant reads from or to.
func (p *params) instant(name string, now, zero time.Time) time.Time {
	v := p.one(name)
	switch {
	case v == "":
		return zero
	case v == "now":
		return now
	case v[0] == '-':
		d, err := period.Parse(v[1:])
		if err != nil {
			p.fail(name, "%.40q is not a time: give -90s, -15m, -1h or -7d", v)
		}
		return now.Add(-d)
	}
	if sec, err := strconv.ParseInt(v, 10, 64); err == nil && sec >= 0 && sec < 1<<34 {
		return time.Unix(sec, 0)
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil || t.Unix() < 0 {
		p.fail(name, "%.40q is not a time: give RFC 3339, such as 2026-03-01T12:00:00Z, seconds since 1970, or -1h", v)
	}
	return t
}

// span reads the range and the step, and chooses the grain.
func (a *ask) span(p *params, t takes, opt *Options) {
	to := p.instant("to", a.now, a.now)
	from := p.instant("from", a.now, to.Add(-time.Hour))
	if p.err != nil {
		return
	}
	if !from.Before(to) {
		p.fail("from", "%s is not before to, %s", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
		return
	}
	if to.After(a.now.Add(maxAhead)) {
		to = a.now.Add(maxAhead)
		from = minTime(from, to.Add(-time.Minute))
	}
	step := int64(0)
	if t.step {
		if v := p.one("step"); v != "" {
			d, err := period.Parse(v)
			if step = int64(d.Seconds()); err != nil {
				p.fail("step", "%.40q is not a step: give 1m, 5m, 1h or 1d", v)
				return
			}
			if step < 60 || step%60 != 0 {
				p.fail("step", "%.40q is not a number of whole minutes, which are the finest that are kept", v)
				return
			}
		}
	}
	for _, f := range [...]struct {
		name string
		list []string
	}{{"node", a.nodes}, {"region", a.regions}} {
		if f.list != nil && a.ofClients() {
			p.fail(f.name, "does not go with key, tier, path or agent: clients are not kept by %s", f.name)
			return
		}
	}
	a.stepAsked = step > 0
	a.choose(from.Unix(), ceil(to.UnixMicro(), 1e6)/1e6, step, t.clients || a.ofClients(), opt)
	if points := (a.to - a.from) / a.step; points > maxPoints {
		p.fail("step", "makes %d points of the range: at most %d are answered", points, maxPoints)
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// edits reads the parameters of an edit.
func (a *ask) edits(p *params) {
	count := func(name string, most int64) int64 {
		return int64(p.number(name, 0, 1, int(most)))
	}
	a.edit = edit{allowance: count("new_allowance", weir.MaxCost), periodMS: count("new_period_ms", weir.MaxPeriod.Milliseconds()), burst: count("new_burst", weir.MaxCost)}
	if a.edit.algorithm = p.one("new_algorithm"); a.edit.algorithm == "" {
		return
	}
	if _, err := accuracy.NewReplay(accuracy.Limit{Algorithm: a.edit.algorithm, Allowance: 1, Period: time.Minute}); err != nil {
		p.fail("new_algorithm", "%.40q is none that can be replayed", a.edit.algorithm)
	}
}

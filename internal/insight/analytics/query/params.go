package query

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/period"
)

// Bounds on what is asked.
const (
	maxQuery  = 8 << 10
	maxValue  = 512
	maxWords  = 50
	maxPoints = 1500
	MaxTop    = 1000
	// usualPoints is how many points a series has where no step is asked for.
	usualPoints = 120
)

// ParamError says what is wrong with a parameter.
type ParamError struct{ Name, What string }

// Error implements error.
func (e *ParamError) Error() string { return e.Name + ": " + e.What }

// Takes says what a path knows of the parameters, and what they are if they are
// left out.
type Takes struct {
	// Filters are the lists that it knows, by and sort the words that these have, the
	// first for what is left out.
	Filters      []string
	By, Sort     []string
	Top          int // zero: it has none
	Step, Ranged bool
	// Edits: the numbers of a limit can be others.
	Edits bool
	// Clients: it is made of rows of clients, which are not kept by day.
	Clients bool
}

// What reports filter by: limits, where they were met, what became of decisions, and clients.
var (
	LimitFilters  = []string{"domain", "rule", "limit", "algorithm", "mode"}
	OriginFilters = append(slices.Clone(LimitFilters), "node", "region")
	countFilters  = append(slices.Clone(OriginFilters), "outcome")
	ClientFilters = append(slices.Clone(LimitFilters), "key", "tier", "path", "agent")
	AllFilters    = append(slices.Clone(countFilters), "key", "tier", "path", "agent")
)

// ParseParams reads the parameters of a question.
func ParseParams(raw string, t Takes, now time.Time, bounds *rows.Bounds) (*Ask, error) {
	if len(raw) > maxQuery {
		return nil, &ParamError{"query", fmt.Sprintf("of %d bytes: at most %d are read", len(raw), maxQuery)}
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &ParamError{"query", "cannot be read: " + err.Error()}
	}
	a := &Ask{Now: now, Top: t.Top}
	p := &params{values: values, known: map[string]bool{}}
	lists := map[string]*[]string{
		"domain": &a.domains, "rule": &a.rules, "limit": &a.limits, "algorithm": &a.algorithms, "node": &a.Nodes, "region": &a.Regions, "outcome": &a.Outcomes,
		"key": &a.Keys, "tier": &a.tiers, "path": &a.paths, "agent": &a.agents, "verdict": &a.Verdicts,
	}
	for _, name := range t.Filters {
		switch list := lists[name]; {
		case list != nil:
			*list = p.readList(name)
		case name == "mode":
			a.mode = p.readWord(name, []string{"", "shadow", "enforced"})
		}
	}
	for _, w := range []struct {
		name  string
		words []string
		to    *string
	}{{"by", t.By, &a.By}, {"sort", t.Sort, &a.Sort}} {
		if w.words != nil {
			*w.to = p.readWord(w.name, w.words)
		}
	}
	if t.Top > 0 {
		a.Top = p.readNumber("top", t.Top, 1, MaxTop)
	}
	if t.Edits {
		a.readEdits(p)
	}
	if t.Ranged {
		a.readRange(p, t, bounds)
	}
	if p.err == nil {
		p.failUnknown()
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

func (p *params) failAt(name, format string, args ...any) {
	if p.err == nil {
		p.err = &ParamError{name, fmt.Sprintf(format, args...)}
	}
}

// readOne returns the only value of a parameter, empty if there is none.
func (p *params) readOne(name string) string {
	p.known[name] = true
	switch v := p.values[name]; len(v) {
	case 0:
		return ""
	case 1:
		if len(v[0]) > maxValue {
			p.failAt(name, "has %d bytes: at most %d are read", len(v[0]), maxValue)
		}
		return v[0]
	}
	p.failAt(name, "is given more than once")
	return ""
}

// readWord returns a value that is one of some words, the first if there is none.
func (p *params) readWord(name string, words []string) string {
	v := p.readOne(name)
	if v == "" {
		return words[0]
	}
	if !slices.Contains(words, v) {
		p.failAt(name, "%.40q is not known: give %s", v, strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), ", "))
	}
	return v
}

func (p *params) readNumber(name string, zero, least, most int) int {
	v := p.readOne(name)
	if v == "" {
		return zero
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		p.failAt(name, "%.40q is not a number from %d to %d", v, least, most)
	}
	return n
}

// readList returns the words of a parameter. A word of an empty value is the empty
// word: a rule without a domain.
func (p *params) readList(name string) (out []string) {
	p.known[name] = true
	for _, v := range p.values[name] {
		if len(v) > maxValue {
			p.failAt(name, "has %d bytes: at most %d are read", len(v), maxValue)
		}
		if name == "key" || name == "path" { // which may have commas
			out = append(out, rows.CleanText(v))
			continue
		}
		for _, w := range strings.Split(v, ",") {
			out = append(out, rows.CleanText(w))
		}
	}
	if len(out) > maxWords {
		p.failAt(name, "has %d words: at most %d are read", len(out), maxWords)
	}
	return out
}

// failUnknown fails for a parameter that the path does not know.
func (p *params) failUnknown() {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !p.known[name] {
			p.failAt(rows.CleanText(name[:min(len(name), 40)]), "is no parameter of this path")
		}
	}
}

// readInstant reads from or to.
func (p *params) readInstant(name string, now, zero time.Time) time.Time {
	v := p.readOne(name)
	switch {
	case v == "":
		return zero
	case v == "now":
		return now
	case v[0] == '-':
		d, err := period.Parse(v[1:])
		if err != nil {
			p.failAt(name, "%.40q is not a time: give -90s, -15m, -1h or -7d", v)
		}
		return now.Add(-d)
	}
	if sec, err := strconv.ParseInt(v, 10, 64); err == nil && sec >= 0 && sec < 1<<34 {
		return time.Unix(sec, 0)
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil || t.Unix() < 0 {
		p.failAt(name, "%.40q is not a time: give RFC 3339, such as 2026-03-01T12:00:00Z, seconds since 1970, or -1h", v)
	}
	return t
}

// readRange reads the range and the step, and chooses the grain.
func (a *Ask) readRange(p *params, t Takes, bounds *rows.Bounds) {
	to := p.readInstant("to", a.Now, a.Now)
	from := p.readInstant("from", a.Now, to.Add(-time.Hour))
	if p.err != nil {
		return
	}
	if !from.Before(to) {
		p.failAt("from", "%s is not before to, %s", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
		return
	}
	if to.After(a.Now.Add(rows.MaxAhead)) {
		to = a.Now.Add(rows.MaxAhead)
		if latest := to.Add(-time.Minute); from.After(latest) {
			from = latest
		}
	}
	step := int64(0)
	if t.Step {
		if v := p.readOne("step"); v != "" {
			d, err := period.Parse(v)
			if step = int64(d.Seconds()); err != nil {
				p.failAt("step", "%.40q is not a step: give 1m, 5m, 1h or 1d", v)
				return
			}
			if step < 60 || step%60 != 0 {
				p.failAt("step", "%.40q is not a number of whole minutes, which are the finest that are kept", v)
				return
			}
		}
	}
	for _, f := range [...]struct {
		name string
		list []string
	}{{"node", a.Nodes}, {"region", a.Regions}} {
		if f.list != nil && a.IsOfClients() {
			p.failAt(f.name, "does not go with key, tier, path or agent: clients are not kept by %s", f.name)
			return
		}
	}
	a.StepAsked = step > 0
	a.ChooseGrain(from.Unix(), rows.CeilTo(to.UnixMicro(), 1e6)/1e6, step, t.Clients || a.IsOfClients(), bounds)
	if points := (a.To - a.From) / a.Step; points > maxPoints {
		p.failAt("step", "makes %d points of the range: at most %d are answered", points, maxPoints)
	}
}

// readEdits reads the parameters of an edit.
func (a *Ask) readEdits(p *params) {
	count := func(name string, most int64) int64 {
		return int64(p.readNumber(name, 0, 1, int(most)))
	}
	a.Edit = edit{allowance: count("new_allowance", weir.MaxCost), periodMS: count("new_period_ms", weir.MaxPeriod.Milliseconds()), burst: count("new_burst", weir.MaxCost)}
	if a.Edit.algorithm = p.readOne("new_algorithm"); a.Edit.algorithm == "" {
		return
	}
	if _, err := accuracy.NewReplay(accuracy.Limit{Algorithm: a.Edit.algorithm, Allowance: 1, Period: time.Minute}); err != nil {
		p.failAt("new_algorithm", "%.40q is none that can be replayed", a.Edit.algorithm)
	}
}

// ReadPath reads the words of the path.
func (a *Ask) ReadPath(r *http.Request) error {
	for name, list := range map[string]*[]string{"domain": &a.domains, "rule": &a.rules, "key": &a.Keys} {
		v := r.PathValue(name)
		switch {
		case v == "":
			continue
		case *list != nil:
			return &ParamError{name, "is in the path already"}
		case len(v) > maxValue:
			return &ParamError{name, "has " + strconv.Itoa(len(v)) + " bytes: at most " + strconv.Itoa(maxValue) + " are read"}
		}
		*list = []string{rows.CleanText(v)}
	}
	return nil
}

package cases

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spell"
	"github.com/weirlimit/weir/internal/yamldoc"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

const (
	// MaxFile is the most bytes of a file.
	MaxFile = 4 << 20
	// maxTimes is the most requests of a step.
	maxTimes = 1_000_000
)

// File is a file of cases.
type File struct {
	// Rules are the files of rules, relative to this one. Empty where a configuration
	// names them.
	Rules []string `yaml:"rules"`
	// Domain of the requests. Empty means the only one of the rules.
	Domain string `yaml:"domain"`
	// At is when every case begins. Zero means the beginning of 2026, UTC.
	At    time.Time `yaml:"at"`
	Cases []Case    `yaml:"cases"`

	name string
}

// Case is a story of its own: it begins with nothing spent.
type Case struct {
	Name   string `yaml:"name"`
	Domain string `yaml:"domain"`
	Steps  []Step `yaml:"steps"`

	line int
}

// Step is a number of requests that are all alike.
type Step struct {
	// After is how long after the last request of the step before.
	After period `yaml:"after"`
	// Request is a descriptor, or a list of them.
	Request request `yaml:"request"`
	// HTTP is a request to the gateway of a configuration, in the place of Request.
	HTTP *httpRequest `yaml:"http"`
	// Takes is how long each request of HTTP runs and holds its permits.
	Takes period `yaml:"takes"`
	// Cost in units. Nil means 1; 0 looks and spends nothing.
	Cost     *int64 `yaml:"cost"`
	Priority int    `yaml:"priority"`
	Lease    string `yaml:"lease"`
	// Times is how many requests, Every the time between them. Zero means one, and
	// all at once.
	Times int    `yaml:"times"`
	Every period `yaml:"every"`
	// Expect is what is to come of them. None means that nothing is checked.
	Expect *Expect `yaml:"expect"`

	line int
}

// Expect is what is to come of a step. What is left out is not checked.
type Expect struct {
	// Allowed, Refused and Soft are numbers of requests; soft ones are allowed too.
	Allowed *int64 `yaml:"allowed"`
	Refused *int64 `yaml:"refused"`
	Soft    *int64 `yaml:"soft"`
	// The rest is what the last request is told: the name of the limit that
	// decided, what remained, and for how long to wait.
	Limit      *string `yaml:"limit"`
	Remaining  *int64  `yaml:"remaining"`
	RetryAfter *period `yaml:"retry_after"`
	Delay      *period `yaml:"delay"`

	// all is the one outcome that every request must have: "allowed" or "refused".
	all  string
	line int
}

// Parse reads a file of cases; name is what errors call it.
func Parse(name string, src []byte) (*File, error) {
	if len(src) > MaxFile {
		return nil, fmt.Errorf("%s: %d bytes are more than the %d that a file of cases can have", name, len(src), MaxFile)
	}
	f := &File{name: name}
	doc, fault := yamldoc.Read(src)
	if fault != nil {
		return nil, fmt.Errorf("%s:%d: %s", name, fault.Line, fault)
	}
	if doc == nil {
		return nil, fmt.Errorf("%s: the file is empty: write rules and cases", name)
	}
	if top := doc.Content[0]; findValue(top, "descriptors") != nil && findValue(top, "cases") == nil {
		return nil, fmt.Errorf("%s: these are rules, not cases: name the file in rules: of a file of cases, see weir test --help", name)
	}
	if err := decodeMapping(doc.Content[0], f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := f.checkCases(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) checkCases() error {
	if len(f.Cases) == 0 {
		return fmt.Errorf("%s: there are no cases", f.name)
	}
	if f.At.IsZero() {
		f.At = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if f.At.Year() < 1971 || f.At.Year() > 2200 {
		return fmt.Errorf("%s: at: %s is not between 1971 and 2200", f.name, f.At)
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		if c.Name == "" {
			return fmt.Errorf("%s:%d: the case has no name", f.name, c.line)
		}
		if len(c.Steps) == 0 {
			return fmt.Errorf("%s:%d: case %q has no steps", f.name, c.line, c.Name)
		}
		for j := range c.Steps {
			if err := c.Steps[j].checkFields(); err != nil {
				return fmt.Errorf("%s:%d: %w", f.name, c.Steps[j].line, err)
			}
		}
	}
	return nil
}

func (s *Step) checkFields() error {
	if s.Times == 0 {
		s.Times = 1
	}
	switch {
	case len(s.Request) == 0 && s.HTTP == nil:
		return errors.New("the step has no request: write its entries, such as request: {remote_address: 192.0.2.1}, or http: GET /path")
	case len(s.Request) > 0 && s.HTTP != nil:
		return errors.New("the step has request and http: keep one")
	case s.HTTP != nil && (s.Cost != nil || s.Priority != 0 || s.Lease != ""):
		return errors.New("cost, priority and lease are the route's where the step has http: leave them out")
	case s.HTTP == nil && s.Takes != 0:
		return errors.New("takes is for http: a request that is its entries holds permits by lease")
	case s.Times < 1 || s.Times > maxTimes:
		return fmt.Errorf("times: %d is not between 1 and %d", s.Times, maxTimes)
	case s.Cost != nil && (*s.Cost < 0 || *s.Cost > weir.MaxCost):
		return fmt.Errorf("cost: %d is not between 0 and 2^53", *s.Cost)
	case s.Expect != nil && (s.Expect.Limit != nil || s.Expect.Remaining != nil || s.Expect.RetryAfter != nil || s.Expect.Delay != nil) && s.Expect.all == "" && s.Expect.Allowed == nil && s.Expect.Refused == nil:
		return errors.New("expect: say what comes of the requests too: allowed or refused")
	}
	return nil
}

// checkConfigured reports what the file cannot be played under: a configuration, which has the
// gateway, or none.
func (f *File) checkConfigured(configured bool) error {
	if configured && (len(f.Rules) > 0 || f.Domain != "") {
		return fmt.Errorf("%s: the configuration names rules and domain: leave them out here", f.name)
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		if configured && c.Domain != "" {
			return fmt.Errorf("%s:%d: the configuration names the domain: leave it out here", f.name, c.line)
		}
		for j := range c.Steps {
			switch s := &c.Steps[j]; {
			case configured && s.HTTP == nil:
				return fmt.Errorf("%s:%d: under a configuration the gateway makes the entries: write http: instead of request:, such as http: POST /login", f.name, s.line)
			case !configured && s.HTTP != nil:
				return fmt.Errorf("%s:%d: http: needs the routes of a configuration: give it too, as in weir test --config weir.yaml %s", f.name, s.line, filepath.Base(f.name))
			}
		}
	}
	if !configured && len(f.Rules) == 0 {
		return fmt.Errorf("%s: rules are missing: name the files, relative to this one", f.name)
	}
	return nil
}

// loadRules loads the rules that the file is about.
func (f *File) loadRules(opt rules.Options) (*limits.Set, error) {
	paths := make([]string, len(f.Rules))
	for i, p := range f.Rules {
		if paths[i] = p; !filepath.IsAbs(p) {
			paths[i] = filepath.Join(filepath.Dir(f.name), p)
		}
	}
	return rules.Load(paths, opt)
}

// period is a span of time as rules write it: 90s, 1m30s, 2d.
type period time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *period) UnmarshalYAML(n *yaml.Node) error {
	// A delay or a wait may be none, which no period of a limit is.
	if d, err := time.ParseDuration(n.Value); err == nil && d == 0 {
		*p = 0
		return nil
	}
	d, err := rules.ParsePeriod(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*p = period(d)
	return nil
}

// request is the descriptors of a step.
type request []weir.Descriptor

// UnmarshalYAML implements yaml.Unmarshaler.
func (r *request) UnmarshalYAML(n *yaml.Node) error {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	for _, d := range list {
		if d.Kind != yaml.MappingNode || len(d.Content) == 0 {
			return fmt.Errorf("line %d: a request is its entries, such as {remote_address: 192.0.2.1}, or a list of such", d.Line)
		}
		var out weir.Descriptor
		for i := 0; i < len(d.Content); i += 2 {
			k, v := d.Content[i], d.Content[i+1]
			if k.Kind != yaml.ScalarNode || v.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: an entry is a key and a value", k.Line)
			}
			out.Entries = append(out.Entries, weir.Entry{Key: k.Value, Value: v.Value})
		}
		*r = append(*r, out)
	}
	return nil
}

// The types below have the fields of those above, without their methods.
type (
	caseFields   Case
	stepFields   Step
	expectFields Expect
)

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *Case) UnmarshalYAML(n *yaml.Node) error {
	err := decodeMapping(n, (*caseFields)(c))
	c.line = n.Line
	return err
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Step) UnmarshalYAML(n *yaml.Node) error {
	err := decodeMapping(n, (*stepFields)(s))
	s.line = n.Line
	return err
}

// UnmarshalYAML implements yaml.Unmarshaler: a word for all requests, or numbers
// and what the last is told.
func (e *Expect) UnmarshalYAML(n *yaml.Node) error {
	e.line = n.Line
	if n.Kind == yaml.ScalarNode {
		if n.Value != allowed && n.Value != refused {
			return fmt.Errorf("line %d: expect %q: write allowed, refused, or numbers of them", n.Line, n.Value)
		}
		e.all = n.Value
		return nil
	}
	if o := findValue(n, "outcome"); o != nil {
		if o.Value != allowed && o.Value != refused {
			return fmt.Errorf("line %d: outcome %q: write allowed or refused", o.Line, o.Value)
		}
		e.all = o.Value
	}
	return decodeMapping(n, (*expectFields)(e), "outcome")
}

const allowed, refused = "allowed", "refused"

// findValue returns the value of a key, nil if there is none.
func findValue(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return nil
}

// decodeMapping decodes a mapping strictly: Node.Decode alone passes over keys that mean
// nothing. Those of skip are somebody else's.
func decodeMapping(n *yaml.Node, to any, skip ...string) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: write keys and values here", n.Line)
	}
	rest := *n
	rest.Content = nil
	known := keysOf(to)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case slices.Contains(skip, k.Value):
			continue
		case !slices.Contains(known, k.Value):
			return fmt.Errorf("line %d: unknown key %q%s", k.Line, k.Value, spell.Hint(k.Value, append(known, skip...)))
		}
		rest.Content = append(rest.Content, k, n.Content[i+1])
	}
	return rest.Decode(to)
}

// keysOf returns the YAML keys of the struct that to points to.
func keysOf(to any) []string {
	var keys []string
	for field := range reflect.TypeOf(to).Elem().Fields() {
		if key := field.Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

package cases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/regular"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// Result is what came of a case.
type Result struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
	// Failures say what was otherwise than expected. None means that it passed.
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is a step of which something else came than was expected.
type Failure struct {
	Line int    `json:"line"`
	What string `json:"message"`
}

// Run plays the cases of the file of that name.
func Run(name string) ([]Result, error) {
	src, err := regular.Read(name, MaxFile)
	if err != nil {
		return nil, err
	}
	f, err := Parse(name, src)
	if err != nil {
		return nil, err
	}
	set, err := f.load(rules.Options{})
	if err != nil {
		return nil, err
	}
	return f.Play(set)
}

// Play plays the cases against rules.
func (f *File) Play(set *rules.Set) ([]Result, error) {
	var out []Result
	for i := range f.Cases {
		c := &f.Cases[i]
		r := Result{Name: c.Name, File: f.name, Line: c.line}
		domain, err := set.Domain(cmp.Or(c.Domain, f.Domain))
		if err == nil {
			r.Failures, err = c.play(set, domain, f.At)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: case %q: %w", f.name, c.line, c.Name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// smallest is the memory of a case, which has few keys.
const smallest = memory.MinBytes

func (c *Case) play(set *rules.Set, domain string, at time.Time) (failures []Failure, err error) {
	var now atomic.Int64 // the store looks at it by itself too
	now.Store(at.UnixMicro())
	store := memory.New(memory.Options{MaxBytes: smallest, Now: now.Load})
	defer func() { err = errors.Join(err, store.Close()) }()
	limiter, err := weir.New(store, set, weir.Options{})
	if err != nil {
		return nil, err
	}
	r := new(weir.Request)
	for i := range c.Steps {
		s := &c.Steps[i]
		now.Add(micros.Of(time.Duration(s.After)))
		var got outcome
		for n := range s.Times {
			if n > 0 {
				now.Add(micros.Of(time.Duration(s.Every)))
			}
			s.fill(r, domain)
			d, err := limiter.Decide(context.Background(), r)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", s.line, err)
			}
			got.add(r, d)
		}
		if s.Expect != nil {
			for _, what := range s.Expect.check(&got) {
				failures = append(failures, Failure{s.Expect.line, what})
			}
		}
	}
	return failures, nil
}

// fill makes r the step's request.
func (s *Step) fill(r *weir.Request, domain string) {
	r.Reset()
	r.Domain = domain
	r.Descriptors = append(r.Descriptors, s.Request...)
	r.Priority, r.Lease = s.Priority, s.Lease
	if s.Cost != nil {
		if r.Cost = *s.Cost; r.Cost == 0 {
			r.Verb = weir.Peek
		}
	}
}

// outcome is what came of a step.
type outcome struct {
	allowed, refused, soft int64
	// last is what the last request was told.
	last  weir.Decision
	delay time.Duration
}

func (o *outcome) add(r *weir.Request, d weir.Decision) {
	switch {
	case !d.Allowed():
		o.refused++
	default:
		o.allowed++
		if r.Soft() {
			o.soft++
		}
	}
	o.last, o.delay = d, r.Delay()
}

// check returns what is otherwise than expected.
func (e *Expect) check(got *outcome) (wrong []string) {
	describe := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	switch n := got.allowed + got.refused; {
	case e.all == allowed && got.refused > 0:
		describe("%d of %d refused%s, want all allowed", got.refused, n, got.by())
	case e.all == refused && got.allowed > 0:
		describe("%d of %d allowed, want all refused", got.allowed, n)
	}
	number := func(what string, want *int64, got int64) {
		if want != nil && *want != got {
			describe("%d %s, want %d", got, what, *want)
		}
	}
	number("allowed", e.Allowed, got.allowed)
	number("refused"+got.by(), e.Refused, got.refused)
	number("soft", e.Soft, got.soft)
	name := ""
	if got.last.Limit != nil {
		name = got.last.Limit.Name
	}
	if e.Limit != nil && *e.Limit != name {
		describe("decided by limit %q, want %q", name, *e.Limit)
	}
	number("remaining", e.Remaining, got.last.Remaining)
	span := func(what string, want *period, got time.Duration) {
		if want != nil && time.Duration(*want) != got {
			describe("%s %s, want %s", what, inWords(got), inWords(time.Duration(*want)))
		}
	}
	span("retry after", e.RetryAfter, got.last.RetryAfter)
	span("delay", e.Delay, got.delay)
	return wrong
}

// by names the limit that refused the last request.
func (o *outcome) by() string {
	if o.last.Limit == nil || o.last.Allowed() {
		return ""
	}
	return fmt.Sprintf(" by %q", o.last.Limit.Name)
}

func inWords(d time.Duration) string {
	if d == weir.Never {
		return "never"
	}
	return d.String()
}

package cases

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/regular"
	"github.com/weirlimit/weir/limits"
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

// Gateway makes requests of limits out of those over HTTP, as the gateway of a
// configuration does.
type Gateway interface {
	// Set returns what the requests are decided by.
	Set() *limits.Set
	// Ask fills r, which is empty, with what limits are to decide about h. Where none
	// decides, asked is false; problem is then why h is refused, empty if it is not.
	Ask(r *weir.Request, h *http.Request) (asked bool, problem string)
}

// PlayFile plays the cases of the file of that name, by gw, or where that is nil by the rules
// that the file names. It returns an error if they cannot be played.
func PlayFile(name string, gw Gateway) ([]Result, error) {
	src, err := regular.Read(name, MaxFile)
	if err != nil {
		return nil, err
	}
	f, err := Parse(name, src)
	if err == nil {
		err = f.checkConfigured(gw != nil)
	}
	if err != nil {
		return nil, err
	}
	var set *limits.Set
	if gw != nil {
		set = gw.Set()
	} else if set, err = f.loadRules(rules.Options{}); err != nil {
		return nil, err
	}
	var out []Result
	for i := range f.Cases {
		c := &f.Cases[i]
		r := Result{Name: c.Name, File: f.name, Line: c.line}
		domain := ""
		if gw == nil {
			domain, err = set.Domain(cmp.Or(c.Domain, f.Domain))
		}
		if err == nil {
			r.Failures, err = c.playSteps(gw, set, domain, f.At)
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

// playSteps plays a case by a gateway, or where that is nil by the set alone, of a domain.
func (c *Case) playSteps(gw Gateway, set *limits.Set, domain string, at time.Time) (failures []Failure, err error) {
	var now atomic.Int64 // the store looks at it by itself too
	now.Store(at.UnixMicro())
	store := memory.New(memory.Options{MaxBytes: smallest, Now: now.Load})
	defer func() { err = errors.Join(err, store.Close()) }()
	limiter, err := weir.New(store, set, weir.Options{})
	if err != nil {
		return nil, err
	}
	story := story{limiter: limiter, gw: gw, now: now.Load}
	for i := range c.Steps {
		s := &c.Steps[i]
		now.Add(micros.Of(time.Duration(s.After)))
		var got outcome
		for n := range s.Times {
			if n > 0 {
				now.Add(micros.Of(time.Duration(s.Every)))
			}
			if s.HTTP != nil {
				err = story.decideHTTP(s, &got)
			} else {
				err = story.decideStep(s, domain, &got)
			}
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", s.line, err)
			}
		}
		if s.Expect != nil {
			for _, what := range s.Expect.compareOutcome(&got) {
				failures = append(failures, Failure{s.Expect.line, what})
			}
		}
	}
	return failures, nil
}

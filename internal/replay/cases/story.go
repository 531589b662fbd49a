package cases

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// story is a case that is being played.
type story struct {
	limiter *weir.Limiter
	gw      Gateway
	now     func() int64
	// request is that of a step that is no request of HTTP.
	request weir.Request
	// running are the requests of HTTP that hold permits, asked how many there were.
	running []running
	asked   int
}

// running is a request over HTTP that has not ended: at is when it does, in microseconds.
type running struct {
	request *weir.Request
	at      int64
}

// decideStep decides one request of entries.
func (t *story) decideStep(s *Step, domain string, got *outcome) error {
	r := &t.request
	s.fillRequest(r, domain)
	d, err := t.limiter.Decide(context.Background(), r)
	if err == nil {
		got.addDecision(r, d)
	}
	return err
}

// decideHTTP decides one request over HTTP, after those that have ended by now.
func (t *story) decideHTTP(s *Step, got *outcome) error {
	if err := t.release(); err != nil {
		return err
	}
	r, ctx := new(weir.Request), context.Background()
	asked, problem := t.gw.Ask(r, s.HTTP.read.Clone(ctx))
	if !asked {
		got.addUnasked(problem)
		return nil
	}
	t.asked++
	r.Lease = "request " + strconv.Itoa(t.asked)
	d, err := t.limiter.Decide(ctx, r)
	if err != nil {
		return err
	}
	got.addDecision(r, d)
	if !d.Allowed() || !slices.ContainsFunc(t.limiter.Match(r), holdsPermit) {
		return nil
	}
	t.running = append(t.running, running{r, t.now() + micros.Of(time.Duration(s.Takes)+got.delay)})
	return nil
}

func holdsPermit(o weir.Op) bool { return o.Limit != nil && o.Limit.Traits()&weir.Leases != 0 }

// release ends the requests that have ended by now.
func (t *story) release() error {
	kept := t.running[:0]
	for _, r := range t.running {
		if r.at > t.now() {
			kept = append(kept, r)
		} else if _, err := t.limiter.Release(context.Background(), r.request); err != nil {
			return err
		}
	}
	t.running = kept
	return nil
}

// fillRequest makes r the step's request.
func (s *Step) fillRequest(r *weir.Request, domain string) {
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

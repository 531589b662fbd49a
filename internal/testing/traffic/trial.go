package traffic

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
)

// Trial decides a scenario's requests by its rules: the limiter, on the embedded
// store, on the scenario's own clock. Not safe for concurrent use.
type Trial struct {
	scenario *Scenario
	store    *memory.Store
	limiter  *weir.Limiter
	request  *weir.Request
	now      atomic.Int64 // the store's own goroutine reads it
	asked    *Request
}

// NewTrial returns a trial. The caller closes it. now tells the time; nil means
// that the clock is the scenario's.
func NewTrial(s *Scenario, now func() int64, observers ...weir.Observer) (*Trial, error) {
	t := &Trial{scenario: s, request: new(weir.Request)}
	if now == nil {
		now = t.now.Load
	}
	for _, r := range s.Rules {
		if err := r.Limit.Compile(); err != nil {
			return nil, err
		}
	}
	t.store = memory.New(memory.Options{MaxBytes: 16 << 20, Now: now})
	var err error
	t.limiter, err = weir.New(t.store, t, weir.Options{Observers: observers})
	return t, err
}

// Close frees what the trial keeps.
func (t *Trial) Close() error { return t.store.Close() }

// Match implements weir.Rules.
func (t *Trial) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	for _, rule := range t.scenario.Rules {
		if key := rule.key(t.asked); key != "" {
			dst = rule.Limit.Append(dst, key, t.asked.Cost, r)
		}
	}
	return dst
}

// Decide decides a request. If it passes, observers are told how it ends at once.
func (t *Trial) Decide(q *Request) (Answer, error) {
	t.now.Store(q.At)
	t.asked = q
	r := t.request
	r.Reset()
	r.Facts = facts{q}
	d, err := t.limiter.Decide(context.Background(), r)
	if err != nil {
		return Answer{}, err
	}
	if d.Allowed() && t.limiter.WantsResults() {
		t.limiter.End(r, weir.Result{Code: q.Status, Duration: q.Took})
	}
	return Answer{Allowed: d.Allowed(), RetryAfter: max(d.RetryAfter, 0)}, nil
}

// Ops returns what each limit said of the last request.
func (t *Trial) Ops() []weir.Op { return t.request.Ops() }

// facts are those of a request.
type facts struct{ q *Request }

// Address implements weir.Facts.
func (f facts) Address() netip.Addr {
	a, err := netip.ParseAddr(f.q.Address)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

// Method implements weir.Facts.
func (f facts) Method() string { return "GET" }

// Host implements weir.Facts.
func (f facts) Host() string { return "api.example" }

// Path implements weir.Facts.
func (f facts) Path() string { return f.q.Path }

// User implements weir.Facts.
func (f facts) User() string { return f.q.User }

// Tier implements weir.Facts.
func (f facts) Tier() string { return f.q.Tier }

// Agent implements weir.Facts.
func (f facts) Agent() string { return f.q.Agent }

var _ weir.Facts = facts{}

// Place returns the words that records have for a rule.
func (s *Scenario) rule(l *weir.Limit) *Rule {
	i := slices.IndexFunc(s.Rules, func(r *Rule) bool { return r.Limit.Counters() == l.Counters() })
	if i < 0 {
		return nil
	}
	return s.Rules[i]
}

// Range returns from when to when clients are judged.
func (s *Scenario) Range() (from, to time.Time) {
	return time.UnixMicro(s.From).UTC(), time.UnixMicro(s.End).UTC()
}

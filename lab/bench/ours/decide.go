package ours

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// domain of the requests that Decide is measured with.
const domain = "bench"

// Case is a set of rules that Limiter.Decide is measured under. Requests have
// two entries, tenant and user.
type Case struct {
	Name string
	// limits are the rates that every request meets, as in a rules file;
	// wide is a bucket that no measurement exhausts, strict a strict window as wide.
	limits []string
	// Refuses: a key's second request and all that follow are refused by one
	// limit, and charged to none.
	Refuses bool
	// Aim is the most processor time of a decision on a hot key, in
	// nanoseconds. Zero means none is set.
	Aim float64
}

// Cases lists what Decide is measured under.
var Cases = []Case{
	{Name: "one rule", limits: []string{"wide"}, Aim: 100},
	{Name: "one rule, sliding_window", limits: []string{"strict"}},
	{Name: "two rules, all or nothing", limits: []string{"wide", "wide"}, Aim: 150},
	{Name: "two rules, refused by one", limits: []string{"wide", "once"}, Refuses: true},
}

// Limits returns the rules of c without a choice. every and burst are of
// the wide limit.
func (c Case) Limits(every time.Duration, burst int64) weir.Limits {
	var all weir.Limits
	for i, name := range c.limits {
		l := &weir.Limit{Scope: fmt.Sprint(name, i), Algorithm: algorithm.TokenBucket, Count: 1, Period: every, Burst: burst}
		switch name {
		case "once":
			l.Period, l.Burst = 24*time.Hour, 1
		case "strict":
			*l = weir.Limit{Scope: l.Scope, Algorithm: algorithm.SlidingWindow, Count: burst, Period: time.Hour}
		}
		all = append(all, l)
	}
	return all
}

// Set returns the rules of c as compiled from a rules file, in which they apply
// to every user of every tenant. every and burst are of the wide limit.
func (c Case) Set(every time.Duration, burst int64) (*limits.Set, error) {
	text := "domain: " + domain + "\ndescriptors:\n  - key: tenant\n    descriptors:\n      - key: user\n        limits:\n"
	for i, name := range c.limits {
		how := fmt.Sprintf("limit: 1/%s, burst: %d, algorithm: token_bucket", rules.FormatPeriod(every), burst)
		switch name {
		case "once":
			how = "limit: 1/day, burst: 1, algorithm: token_bucket"
		case "strict":
			how = fmt.Sprintf("limit: %d/hour, algorithm: sliding_window", burst)
		}
		text += fmt.Sprintf("          - {name: %s%d, %s}\n", name, i, how)
	}
	return rules.Parse(c.Name, []byte(text), rules.Options{})
}

// Ask asks l with requests of two entries of which key is the second's value,
// and reports whether the answer is as expected. For one goroutine.
func (c Case) Ask(l *weir.Limiter) func(key string) bool {
	ctx := context.Background()
	entries := make([]weir.Entry, 2)
	return func(key string) bool {
		r := l.Acquire()
		r.Domain = domain
		entries[0] = weir.Entry{Key: "tenant", Value: "acme"}
		entries[1] = weir.Entry{Key: "user", Value: key}
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: entries})
		d, err := l.Decide(ctx, r)
		l.Recycle(r)
		return err == nil && passes(d) != c.Refuses
	}
}

// Exhaust spends the only unit of a key where c refuses the others.
func (c Case) Exhaust(l *weir.Limiter, key string) error {
	if !c.Refuses {
		return nil
	}
	// The first request passes, which is not what Ask expects.
	if c.Ask(l)(key) {
		return fmt.Errorf("%s: the first request of key %s was refused", c.Name, key)
	}
	return nil
}

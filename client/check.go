package client

import (
	"encoding/binary"
	"time"

	"github.com/weirlimit/weir"
)

// Check is a question: may this pass?
type Check struct {
	// Domain names the set of rules. Zero means Options.Domain.
	Domain string
	// Descriptors are what limits are matched against; all that match must allow.
	// Required. Of each, Entries, Cost and Peek are asked; Override is not.
	Descriptors []weir.Descriptor
	// Cost in units, to weir.MaxCost. Zero means 1.
	Cost int64
	// Priority for limits that keep units for higher ones, 1 and up; the higher
	// the number the lower the priority. Zero means the service's default.
	Priority int
	// Lease names the unit of work for concurrency limits. Zero means that there
	// is none, but for Acquire, which makes one up.
	Lease string
	// IdempotencyKey names the call, by 1 to 256 characters of ASCII: Check and Reserve
	// charge it once within an hour, however often they are called with the same check. It
	// is not for CheckAll, nor for Acquire. Zero means that each call is charged.
	IdempotencyKey string
}

// Of returns a check of one descriptor.
func Of(domain string, entries ...weir.Entry) Check {
	return Check{Domain: domain, Descriptors: []weir.Descriptor{{Entries: entries}}}
}

// cost returns what the check costs beside what its descriptors say.
func (c *Check) cost() int64 { return max(c.Cost, 1) }

// identity returns what a refusal of c holds for, but the cost: equal for two
// checks if and only if they differ in that alone.
func (c *Check) identity() string {
	b := make([]byte, 0, 128)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(c.Domain)
	b = binary.AppendVarint(b, int64(c.Priority))
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		b = binary.AppendUvarint(b, uint64(len(d.Entries)))
		b = binary.AppendVarint(b, d.Cost)
		if d.Peek {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
		for _, e := range d.Entries {
			text(e.Key)
			text(e.Value)
		}
	}
	return string(b)
}

// Source says who decided.
type Source uint8

// The sources of a [Decision].
const (
	// Service: the service did.
	Service Source = iota
	// Remembered: the service did, earlier, and what it said still holds.
	Remembered
	// Local: Options.Local did, because the service did not.
	Local
	// Policy: nobody did, and Options.Fallback says what then.
	Policy
)

var sources = [...]string{Service: "service", Remembered: "remembered", Local: "local", Policy: "policy"}

// String returns a word for s.
func (s Source) String() string {
	if int(s) < len(sources) {
		return sources[s]
	}
	return "unknown"
}

// Decision is an answer.
type Decision struct {
	// Allowed: the request may pass, after Delay.
	Allowed bool
	// Delay is how long an allowed request is to wait before it proceeds, and 0
	// for most.
	Delay time.Duration
	// RetryAfter is the least wait after which the same request may pass: 0 if it
	// is allowed, weir.Never (negative) if waiting does not help.
	RetryAfter time.Duration
	// Limit is the limit that speaks, the tightest. Nil if none applies.
	Limit *Limit
	// Remaining units under it. Negative if that is not known.
	Remaining int64
	// ResetAfter is the time until nothing is spent under it.
	ResetAfter time.Duration
	// Soft and Borrowed: allowed above a soft limit, from a shared pool.
	Soft, Borrowed bool
	// Repeated: the check was charged before, under its IdempotencyKey, and now nothing.
	Repeated bool
	// Limits are all limits that apply, where the service tells them.
	Limits []Outcome

	// Source says who decided.
	Source Source
	// Degraded: this is not what the limits say, or may not be, because the
	// service or its store did not answer.
	Degraded bool
	// Cause is why the service did not decide, where it did not and should have.
	Cause error
}

// Limit describes a limit.
type Limit struct {
	Name      string
	Count     int64
	Burst     int64
	Period    time.Duration
	Algorithm string
}

// Outcome is what one limit said of a request.
type Outcome struct {
	Limit *Limit
	// Role is what that means for the request: enforce, soft, shadow, own, pool,
	// always, ban or deny.
	Role       string
	Cost       int64
	Allowed    bool
	Charged    bool
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// steady reports whether the refusal d stands until RetryAfter: whatever others
// do meanwhile they can only make it longer. That a place under a concurrency
// limit becomes free cannot be foreseen, nor that a pool fills.
func (d *Decision) steady() bool {
	if d.Allowed || d.Degraded || d.RetryAfter == 0 || len(d.Limits) == 0 {
		return false // without the limits it cannot be known
	}
	for i := range d.Limits {
		o := &d.Limits[i]
		if o.Allowed {
			continue
		}
		if o.Role == "own" || o.Role == "pool" || o.Limit != nil && o.Limit.Algorithm == "concurrency" {
			return false
		}
	}
	return true
}

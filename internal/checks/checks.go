// Package checks holds what the front ends share that are asked about limits in
// words of their own: how much may be asked at once, and how several requests
// are decided as one question.
package checks

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
)

// Bounds on what is asked. Lengths are in bytes.
const (
	MaxDomain      = 256
	MaxKey         = 256
	MaxValue       = 1024
	MaxLease       = 256
	MaxDescriptors = 64
	MaxEntries     = 32 // of a descriptor
	MaxPriority    = 1000
	MaxRequests    = 1000 // at once
)

// roles are the words for what a limit's answer means for the request.
var roles = [...]string{
	weir.Enforce: "enforce", weir.Soft: "soft", weir.Shadow: "shadow", weir.Own: "own",
	weir.Pool: "pool", weir.Always: "always", weir.Ban: "ban", weir.Deny: "deny",
}

// Role returns the word for what a limit's answer means for the request.
func Role(r weir.Role) string { return roles[r] }

// Fault returns why a request that meets ops cannot be decided, weir.ErrCost or
// weir.ErrNoLease; nil if it can.
func Fault(ops []weir.Op) error {
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			continue
		}
		if o.Cost+o.Reserve > weir.MaxCost {
			return weir.ErrCost
		}
		if o.ID == 0 && o.Verb != weir.Peek && o.Limit.Traits()&weir.Leases != 0 {
			return weir.ErrNoLease
		}
	}
	return nil
}

// Decide decides reqs one after the other, and calls each with every answer.
// What could make one fail is looked for in all of them before the first is
// counted. With an error, that of the request at the place returned, nothing is
// charged; undo is why giving back failed what had been, nil if it did not.
func Decide(ctx context.Context, l *weir.Limiter, reqs []*weir.Request, each func(i int, d weir.Decision)) (at int, err, undo error) {
	for i, r := range reqs {
		if err := Fault(l.Match(r)); err != nil {
			return i, err, nil
		}
	}
	for i, r := range reqs {
		d, err := l.Decide(ctx, r)
		if err != nil {
			return i, err, giveBack(ctx, l, reqs[:i])
		}
		each(i, d)
	}
	return 0, nil, nil
}

// undoTimeout bounds the calls to the store that put a failure right.
const undoTimeout = 5 * time.Second

// giveBack gives back what reqs were charged.
func giveBack(ctx context.Context, l *weir.Limiter, reqs []*weir.Request) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer stop()
	var errs []error
	for _, r := range reqs {
		errs = append(errs, l.Cancel(ctx, r))
	}
	return errors.Join(errs...)
}

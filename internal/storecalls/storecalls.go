// Package storecalls tells whoever measures and follows the calls of a store of them, and why
// those fail that do.
package storecalls

import (
	"context"
	"time"
)

// Why a call failed, or a decision was made without the store.
const (
	Timeout     = "timeout"      // no answer in time; the call may have been executed
	Busy        = "busy"         // too many calls waited; this one was not made
	Unreachable = "unreachable"  // no server was reachable
	Refused     = "server_error" // the server answered with an error, such as when its memory is full
	Canceled    = "canceled"     // by the caller
	Open        = "breaker_open" // no call was made
	Other       = "other"
)

// Failures are all of them.
var Failures = [...]string{Timeout, Busy, Unreachable, Refused, Canceled, Open, Other}

// A Watcher is told of calls. Safe for concurrent use.
type Watcher interface {
	// Begin is called before a call is sent that decides so many limits. It returns the context
	// to make it in, and what is to be told the failure when it ends; nil: nobody.
	Begin(ctx context.Context, limits int) (context.Context, func(failure string))
	// End is called when a call has ended, with its failure, empty for none, and with what else
	// Begin has returned.
	End(took time.Duration, failure string, report func(failure string))
	// Fail is called for each decision that is made without the store, and for each call
	// without an answer that no decision waits for.
	Fail(failure string)
}

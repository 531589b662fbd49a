// Package admit is the life of one request between a front end and its limits: it is
// decided, waits for its delay, holds its permits while it runs, and in the end its
// charge is adjusted and its permits are released.
//
//	Begin -> Decide -> Wait -> Pass ... the request runs ... Adjust -> Release -> End
//	                      \-> Cancel -> End
//
// A front end that is not told when a request ends stops after Wait. An outgoing
// request takes Await in place of Decide and Wait, which asks again until it may be sent.
package admit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/cooldown"
	"github.com/weirlimit/weir/internal/faults"
)

// Options configures a [Gate].
type Options struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain that is asked. Zero means Fallback.
	Domain string
	// Fallback is the domain that is asked where none is named: an error if the rules
	// say which domains they have and it is none of them. Zero means that the front end
	// names the domain of each request.
	Fallback string
	// MaxDelay is the longest that a request waits. Negative means that none waits. Zero
	// means ten seconds.
	MaxDelay time.Duration
	// WithinDeadline: a deadline comes from the caller, who hears nothing after it. A
	// request that would wait beyond it is refused.
	WithinDeadline bool
	// MaxWaiting is how many requests wait at a time, at least 0. Zero means 1024.
	MaxWaiting int
	// MaxPause is the longest that a key is left alone because a response asked for it.
	// Negative means not at all. Zero means an hour.
	MaxPause time.Duration
	// Log gets errors of the store, at most one a second. Nil means none.
	Log *slog.Logger
}

// Gate is what the requests of one front end have in common. Safe for concurrent use.
type Gate struct {
	Limiter *weir.Limiter
	Faults  *faults.Log
	// Domain is the domain that is asked, empty where each request names its own.
	Domain string

	room               Room
	maxDelay, maxPause time.Duration
	withinDeadline     bool
	paused             cooldown.Set // keys of outgoing requests
}

// New returns a gate. It returns an error when the limiter is missing, an option is out
// of range, or the rules do not have the domain of Fallback.
func New(opt Options) (*Gate, error) {
	switch {
	case opt.Limiter == nil:
		return nil, errors.New("no limiter: set Options.Limiter")
	case opt.MaxWaiting < 0:
		return nil, errors.New("max waiting must not be negative")
	}
	if opt.Domain == "" && opt.Fallback != "" {
		if err := checkDomain(opt.Limiter, opt.Fallback); err != nil {
			return nil, err
		}
	}
	return &Gate{
		Limiter: opt.Limiter, Faults: faults.New(opt.Log), Domain: cmp.Or(opt.Domain, opt.Fallback),
		room: NewRoom(opt.MaxWaiting), maxDelay: cmp.Or(opt.MaxDelay, defaultDelay), maxPause: cmp.Or(opt.MaxPause, time.Hour),
		withinDeadline: opt.WithinDeadline,
	}, nil
}

// defaultDelay is the longest that a request waits unless an option says otherwise.
const defaultDelay = 10 * time.Second

// checkDomain returns an error if the rules of l say which domains they have and domain
// is none of them: no request would be limited.
func checkDomain(l *weir.Limiter, domain string) error {
	const most = 8
	if r, ok := l.Rules().(interface{ Domains() []string }); ok {
		if all := r.Domains(); len(all) > 0 && !slices.Contains(all, domain) {
			return fmt.Errorf("the rules have no domain %q, which is asked unless Options.Domain names another: set it to one of theirs (%s)",
				domain, strings.Join(all[:min(len(all), most)], ", "))
		}
	}
	return nil
}

// DecidedAt returns the store's time of a decision, in microseconds since the Unix
// epoch; this node's where no store was asked.
func DecidedAt(ops []weir.Op) int64 {
	if len(ops) > 0 && ops[0].Now != 0 {
		return ops[0].Now
	}
	return time.Now().UnixMicro()
}

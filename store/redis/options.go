package redis

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"time"
)

// Options configures a [Store]. What the URL says comes first.
type Options struct {
	// Prefix begins the name of every key. Stores of the same prefix on the same
	// servers share their counters. Zero means "weir".
	Prefix string
	// Timeout is the longest that a decision waits for servers; less if the caller's
	// context ends sooner. A request whose keys are on several servers may wait as long
	// again to give back. Zero means 20 ms.
	Timeout time.Duration
	// InFlight is how many calls may wait for one server; more get ErrBusy at once.
	// Zero means 1024, and that package shared chooses.
	InFlight int
	// TLS says how to speak TLS. Zero means as the URL says.
	TLS *tls.Config
	// Logger is told of what is wrong with the servers' settings, and of servers of
	// a ring that are lost and found. Zero means nobody is told.
	Logger *slog.Logger
	// OnLoss is what becomes of the keys of a lost server of a ring. Zero means
	// OnLossMove.
	OnLoss OnLoss
	// Late opens a store whose servers, or some of a ring, cannot be reached: they are tried
	// every second, and count as lost until they are reached, see [Store.NotReached]. One that
	// is reached and cannot be used is an error at Open, and is logged later. Zero means that
	// each must be reached.
	Late bool
}

// OnLoss is what becomes of the keys of a lost server of a ring.
type OnLoss uint8

const (
	// OnLossMove: the others take them over, as if never seen.
	OnLossMove OnLoss = iota
	// OnLossWait: they get errors until it is back, so the failure policy decides.
	OnLossWait
)

// Defaults of Options.
const (
	defaultPrefix   = "weir"
	defaultTimeout  = 20 * time.Millisecond
	defaultInFlight = 1024
)

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// callTimeout is how long a server may take before what it was sent is given up.
func (o Options) callTimeout() time.Duration { return max(timeout, o.Timeout) }

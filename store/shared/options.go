package shared

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
)

// Options configures a [Store].
type Options struct {
	// Local keeps what this node counts alone: limits of local consistency, and
	// its share of the others while the shared store does not answer. Required; a memory
	// store is made for it. It is its owner's to close, after the Store.
	Local weir.Store
	// Mode is how limits are counted that do not say. Zero means leased where the
	// algorithm allows it, else strict.
	Mode params.ConsistencyMode
	// Timeout is the longest that a decision waits for the shared store. A caller
	// whose context ends before gets the context's error, and no decision. Zero means
	// 20 milliseconds.
	Timeout time.Duration
	// MaxInFlight is the most calls of the shared store at a time, but of one of store/redis,
	// which sends them in batches. Zero means 512.
	MaxInFlight int
	// MaxBytes bounds the memory for fetched units, remembered refusals and debts, at
	// least MinBytes. Zero means 64 MiB.
	MaxBytes int64
	// RefusalLife is the longest that a refusal is remembered: how late a reset or a
	// refund on another node is seen at worst. Negative means that none is. Zero means a
	// second.
	RefusalLife time.Duration
	// ProbeEvery is how often a store is probed whose circuit breaker is open. Zero means
	// 250 milliseconds.
	ProbeEvery time.Duration
	// Nodes is how many nodes there are at least. Zero means as many as have registered.
	Nodes int
	// NodeTTL is how long a node that no longer renews its registration is counted, at
	// least a second. Zero means ten seconds.
	NodeTTL time.Duration
	// Now returns the node's monotonic time in microseconds, for tests and replays. Nil
	// means the process's own.
	Now func() int64
	// Logger gets a line when the circuit breaker opens and when it closes. Nil means
	// none.
	Logger *slog.Logger
}

// MinBytes is the least memory that a store works with.
const MinBytes = 1 << 20

func (o *Options) fillDefaults() error {
	if o.Local == nil {
		return errors.New("shared: no local store: set Options.Local to a memory store")
	}
	o.Timeout = cmp.Or(o.Timeout, 20*time.Millisecond)
	o.RefusalLife = cmp.Or(o.RefusalLife, time.Second)
	o.ProbeEvery = cmp.Or(o.ProbeEvery, 250*time.Millisecond)
	o.NodeTTL = cmp.Or(o.NodeTTL, 10*time.Second)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 512)
	o.MaxBytes = cmp.Or(o.MaxBytes, 64<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	switch {
	case o.Timeout < 0 || o.ProbeEvery < 0 || o.MaxInFlight < 0 || o.Nodes < 0:
		return fmt.Errorf("shared: timeout %s, probe interval %s, calls in flight %d and nodes %d must not be negative",
			o.Timeout, o.ProbeEvery, o.MaxInFlight, o.Nodes)
	case o.Mode > params.ConsistencyLocal:
		return fmt.Errorf("shared: consistency %s is not known", o.Mode)
	case o.MaxBytes < MinBytes:
		return fmt.Errorf("shared: %d bytes are too few: at least %d", o.MaxBytes, MinBytes)
	case o.NodeTTL < time.Second || o.NodeTTL%time.Microsecond != 0:
		return fmt.Errorf("shared: node ttl %s must be at least a second, in whole microseconds", o.NodeTTL)
	case o.Nodes > maxNodes:
		return fmt.Errorf("shared: %d nodes are too many: at most %d", o.Nodes, maxNodes)
	}
	return nil
}

package envoy

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// Options configures a Service. What the comments name in capitals is the
// variable of envoyproxy/ratelimit for the same.
type Options struct {
	// Counters keeps the counters; the caller closes it. Zero means a
	// counter.Memory.
	Counters counter.Store
	// Stats counts what is decided. Zero means that nobody reads it.
	Stats *stats.Store
	// Modes say how what the rules say is answered.
	Modes Modes
	// NearLimitRatio is the share of a limit from which hits are near it
	// (NEAR_LIMIT_RATIO); for 0, math.SmallestNonzeroFloat32 does. Zero means 0.8.
	NearLimitRatio float32
	// LocalCacheBytes is the size of the cache of keys that are over their limit
	// (LOCAL_CACHE_SIZE_IN_BYTES). Zero means none.
	LocalCacheBytes int64
	// StopIncrementWhenOver looks before it counts, and counts nothing for the
	// other limits of a request that one refuses
	// (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT). It has no effect on Memcached.
	// Zero means that everything is counted.
	StopIncrementWhenOver bool
	// Bodies bounds what large bodies hold together; more than one front end may share
	// it. Zero means a budget of its own, of bodies.Most.
	Bodies *bodies.Budget
	// KeyPrefix begins the name of every counter (CACHE_KEY_PREFIX). Zero means
	// none.
	KeyPrefix string
	// Now tells the time in seconds since the Unix epoch. Zero means the clock of
	// this node.
	Now func() int64
	// Logger is told of requests that cannot be decided, of each kind once a second. Zero means nobody is told.
	Logger *slog.Logger
}

// Modes say how what the rules say is answered.
type Modes struct {
	// Shadow answers OK whatever the limits say (SHADOW_MODE). Zero means that
	// limits are enforced.
	Shadow bool
	// Quota takes every descriptor for one of quota mode (QUOTA_MODE). Zero means
	// those whose rules say so.
	Quota bool
	// DynamicMetadata tells Envoy what was asked and what passed
	// (RESPONSE_DYNAMIC_METADATA). Zero means nothing is told.
	DynamicMetadata bool
	// Headers are the response headers to add. Zero means none.
	Headers Headers
}

// Headers names the headers of a response.
type Headers struct {
	// Enabled: there are headers (LIMIT_RESPONSE_HEADERS_ENABLED). Zero means
	// there are none.
	Enabled bool
	// Limit, Remaining and Reset are their names (LIMIT_LIMIT_HEADER,
	// LIMIT_REMAINING_HEADER, LIMIT_RESET_HEADER), used as they are. Zero means
	// RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.
	Limit, Remaining, Reset string
}

const defaultNearRatio = 0.8

func (o *Options) fillDefaults() {
	if o.Counters == nil {
		o.Counters = counter.NewMemory(counter.MemoryOptions{})
	}
	if o.Stats == nil {
		o.Stats = stats.New(stats.Options{})
	}
	o.Bodies = cmp.Or(o.Bodies, bodies.New(0))
	o.NearLimitRatio = cmp.Or(o.NearLimitRatio, defaultNearRatio)
	o.Modes.Headers.fillDefaults()
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().Unix() }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
}

func (h *Headers) fillDefaults() {
	h.Limit = cmp.Or(h.Limit, "RateLimit-Limit")
	h.Remaining = cmp.Or(h.Remaining, "RateLimit-Remaining")
	h.Reset = cmp.Or(h.Reset, "RateLimit-Reset")
}

package shed

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// Options configures a [Shedder].
type Options struct {
	// Name tells the counters of this fleet from those of others on the same
	// store. Zero means "shed".
	Name string `yaml:"name,omitempty"`
	// Domain is the domain of the requests that the first three limiters are
	// for. Zero means every domain.
	Domain string `yaml:"domain,omitempty"`
	// User lists the keys of the entries that tell whose a request is; of those
	// that it has the first counts, at most 8. Zero means user, api_key, client,
	// remote_address. A request with none of them is nobody's: the limiters per
	// user do not apply to it, the other two do. Sharing one limit among all of
	// these would let any one of them shut out the rest.
	User []string `yaml:"user,omitempty"`
	// Off starts with the kill switch thrown. Zero means that the modes hold.
	Off bool `yaml:"off,omitempty"`

	UserRate        RateOptions        `yaml:"user_rate,omitempty"`
	UserConcurrency ConcurrencyOptions `yaml:"user_concurrency,omitempty"`
	FleetShare      FleetOptions       `yaml:"fleet_share,omitempty"`
	InFlight        InFlightOptions    `yaml:"in_flight,omitempty"`
}

// RateOptions configures how much one user may ask for, a token bucket.
type RateOptions struct {
	// Limit is the rate of one user. Zero means that there is no such limiter.
	Limit Rate `yaml:"limit,omitempty"`
	// Burst is how many units pass at once, 1 to weir.MaxCost. Zero means the
	// count of Limit.
	Burst int64 `yaml:"burst,omitempty"`
	// Mode at the start. Zero means enforce.
	Mode Mode `yaml:"mode,omitempty"`
}

// ConcurrencyOptions configures how many requests one user may have under way.
type ConcurrencyOptions struct {
	// Limit is how many at once, on all nodes together, 1 to 10,000. Zero means
	// that there is no such limiter.
	Limit int64 `yaml:"limit,omitempty"`
	// TTL is how long a request counts whose node has died: front ends renew
	// the others. At least 1s. Zero means 30s.
	TTL time.Duration `yaml:"ttl,omitempty"`
	// Mode at the start. Zero means enforce.
	Mode Mode `yaml:"mode,omitempty"`
}

// FleetOptions configures how much all nodes together take on.
type FleetOptions struct {
	// Limit is the rate of the fleet. Zero means that there is no such limiter.
	Limit Rate `yaml:"limit,omitempty"`
	// Reserve is the share of Limit, below 100 %, that is kept for critical
	// requests. Zero means 20 %.
	Reserve Share `yaml:"headroom,omitempty"`
	// Mode at the start. Zero means enforce.
	Mode Mode `yaml:"mode,omitempty"`
}

// InFlightOptions configures how many requests this node has under way.
type InFlightOptions struct {
	// Limit is how many at once on this node, 1 to 1,048,576. Zero means that
	// there is no such limiter until a limit is set.
	Limit int64 `yaml:"limit,omitempty"`
	// Shares are what each class may fill of Limit. A class is refused while
	// that much is under way, of whatever class.
	Shares Shares `yaml:"shares,omitempty"`
	// RetryAfter is what refused clients are told, in whole seconds, 1s to 1h.
	// Zero means 1s.
	RetryAfter time.Duration `yaml:"retry_after,omitempty"`
	// Mode at the start. Zero means enforce.
	Mode Mode `yaml:"mode,omitempty"`
}

// Shares are percentages of the in-flight limit; none is larger than the one
// above it.
type Shares struct {
	// Critical requests fill. Zero means 100 %.
	Critical Share `yaml:"critical,omitempty"`
	// Default requests fill. Zero means 90 %.
	Default Share `yaml:"default,omitempty"`
	// Sheddable requests fill. Zero means 75 %.
	Sheddable Share `yaml:"sheddable,omitempty"`
	// Background requests fill. Zero means 50 %.
	Background Share `yaml:"background,omitempty"`
}

const (
	maxInFlight = 1 << 20
	maxUserKeys = 8
	maxLeases   = 10_000
	maxText     = 256 // bytes of a name
)

// orDefaults returns o with what is zero filled in.
func (o Options) orDefaults() Options {
	if o.Name == "" {
		o.Name = "shed"
	}
	if len(o.User) == 0 {
		o.User = []string{"user", "api_key", "client", "remote_address"}
	}
	if o.UserConcurrency.TTL == 0 {
		o.UserConcurrency.TTL = 30 * time.Second
	}
	o.FleetShare.Reserve = o.FleetShare.Reserve.orPercent(20)
	if o.InFlight.RetryAfter == 0 {
		o.InFlight.RetryAfter = time.Second
	}
	return o
}

// checkValues reports everything that is wrong with o, which has its defaults.
func (o *Options) checkValues() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(o.Name) > maxText || strings.ContainsFunc(o.Name, func(c rune) bool { return c < ' ' }) {
		bad("name %q: write at most %d bytes without control characters", clipText(o.Name), maxText)
	}
	if len(o.User) > maxUserKeys {
		bad("user lists %d keys: keep %d at most", len(o.User), maxUserKeys)
	}
	for i, key := range o.User {
		if key == "" || len(key) > maxText {
			bad("user[%d] %q is not the key of an entry: write one such as user or remote_address", i, clipText(key))
		}
	}
	if r := o.UserRate; r.Limit == (Rate{}) && r.Burst != 0 {
		bad("user_rate.burst %d has no limit: add user_rate.limit such as 100/second", r.Burst)
	} else if r.Burst < 0 || r.Burst > weir.MaxCost {
		bad("user_rate.burst %d must be between 1 and 2^53", r.Burst)
	}
	if n := o.UserConcurrency.Limit; n < 0 || n > maxLeases {
		bad("user_concurrency.limit %d must be between 1 and %d; to have none leave it out", n, maxLeases)
	}
	if ttl := o.UserConcurrency.TTL; ttl < time.Second || ttl > weir.MaxPeriod {
		bad("user_concurrency.ttl %s must be at least 1s, or front ends have no time to renew: 30s is usual", ttl)
	}
	if f := o.FleetShare; f.Limit != (Rate{}) && f.Limit.Count-f.reserved() < 1 {
		bad("fleet_share.headroom %s of %s leaves nothing to other than critical requests: keep less", f.Reserve, f.Limit)
	}
	in := o.InFlight
	if in.RetryAfter < time.Second || in.RetryAfter > time.Hour || in.RetryAfter%time.Second != 0 {
		bad("in_flight.retry_after %s must be whole seconds between 1s and 1h", in.RetryAfter)
	}
	if _, err := newThresholds(in.Limit, in.Shares.byClass()); err != nil {
		errs = append(errs, err)
	}
	for i, m := range o.modes() {
		if m > Off {
			bad("%s.mode %d is none: use Enforce, Shadow or Off", limiterNames[i], m)
		}
	}
	return errors.Join(errs...)
}

// modes returns what the limiters do at the start.
func (o *Options) modes() [limiters]Mode {
	return [limiters]Mode{o.UserRate.Mode, o.UserConcurrency.Mode, o.FleetShare.Mode, o.InFlight.Mode}
}

// reserved returns how many units are kept for critical requests, rounded up.
func (f *FleetOptions) reserved() int64 {
	// At most 2^53 * 100, which is below 2^63.
	return (f.Limit.Count*f.Reserve.percent() + 99) / 100
}

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/checks"
)

// Fallback is what is decided while the service does not answer.
type Fallback uint8

// The policies of Options.Fallback.
const (
	// Allow everything.
	Allow Fallback = iota
	// Deny everything.
	Deny
	// DecideLocally lets Options.Local decide.
	DecideLocally
)

var fallbacks = [...]string{Allow: "allow", Deny: "deny", DecideLocally: "decide locally"}

// String returns the policy's name.
func (a Fallback) String() string {
	if int(a) < len(fallbacks) {
		return fallbacks[a]
	}
	return "unknown"
}

// Options configures a [Client].
type Options struct {
	// Wire is the way to the service. Nil means HTTP to http://localhost:8080.
	Wire Wire
	// Domain is asked by checks that name none. Zero means the service's own.
	Domain string
	// Fallback is what is decided while the service does not answer. Zero means Allow.
	Fallback Fallback
	// Local decides under DecideLocally: a limiter in this process, with the limits
	// that each process is to keep alone. It starts with nothing spent, and what it
	// admits the service never learns of. Nil means none, which DecideLocally
	// refuses.
	Local *weir.Limiter
	// Budget is the longest that one call to the service takes, connecting
	// included; and never more than half of what the caller's context has left, so
	// that it can still act on the answer. Zero means 100 ms.
	Budget time.Duration
	// MaxInFlight is how many calls are under way at a time; what those above it
	// ask is decided as if the service did not answer. Zero means 1024.
	MaxInFlight int
	// Probe is how long the service is left alone once it is taken to be away,
	// before one call tries it; after each that fails twice as long, to MaxProbe.
	// Zero means a second.
	Probe time.Duration
	// MaxProbe is the longest of these times. Zero means 30 s.
	MaxProbe time.Duration
	// Throttle is how a service is spared that answers some calls and fails others.
	Throttle ThrottleOptions
	// MaxRemember is the longest that a refusal is answered without asking again:
	// shorter, and what an operator lifts is noticed earlier. Negative means that
	// none is. Zero means a minute.
	MaxRemember time.Duration
	// MaxWait is the longest that Wait waits, beside its context's deadline. Zero
	// means ten seconds.
	MaxWait time.Duration
	// MaxWaiting is how many may wait at a time; those above it are refused. Zero
	// means 1024.
	MaxWaiting int
	// Log is told when checks are decided without the service, at most once a minute,
	// and when it answers again. Nil means slog.Default().
	Log *slog.Logger
}

// Client asks a service. Safe for concurrent use.
//
// What it decides by itself is in [Decision].Source, and counted in [Counters].
type Client struct {
	opt      Options
	breaker  breaker
	throttle *Throttle
	memory   refusals
	room     admit.Room
	inFlight atomic.Int64
	counts   counts
	outages  outageLog
}

// New returns a client, which has not asked anything. It returns an error when
// an option is out of range.
func New(opt Options) (*Client, error) {
	for _, err := range []error{
		setOption("Budget", &opt.Budget, 100*time.Millisecond),
		setOption("Probe", &opt.Probe, time.Second),
		setOption("MaxProbe", &opt.MaxProbe, 30*time.Second),
		setOption("MaxWait", &opt.MaxWait, 10*time.Second),
		setOption("MaxInFlight", &opt.MaxInFlight, 1024),
		setOption("MaxWaiting", &opt.MaxWaiting, 1024),
	} {
		if err != nil {
			return nil, err
		}
	}
	switch {
	case opt.Fallback > DecideLocally:
		return nil, fmt.Errorf("client: no policy %d: set Fallback to Allow, Deny or DecideLocally", opt.Fallback)
	case opt.Fallback == DecideLocally && opt.Local == nil:
		return nil, errors.New("client: nothing decides locally: set Options.Local")
	case opt.Probe > opt.MaxProbe:
		return nil, fmt.Errorf("client: Probe is %v, longer than MaxProbe, %v", opt.Probe, opt.MaxProbe)
	}
	throttle, err := NewThrottle(opt.Throttle)
	if err != nil {
		return nil, err
	}
	if window := time.Duration(throttle.width) * throttleSlots; window < 2*opt.Budget {
		return nil, fmt.Errorf("client: throttle window %v must be twice the budget, %v, or more: calls must not be forgotten before they fail", window, opt.Budget)
	}
	if opt.Wire == nil {
		if opt.Wire, err = NewHTTP(HTTPOptions{}); err != nil {
			return nil, err
		}
	}
	opt.MaxRemember = cmp.Or(opt.MaxRemember, time.Minute)
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Client{opt: opt, throttle: throttle, room: admit.NewRoom(opt.MaxWaiting), breaker: breaker{least: opt.Probe, most: opt.MaxProbe}}, nil
}

// setOption sets an option that is zero to what that means.
func setOption[T int | time.Duration](name string, value *T, zero T) error {
	if *value < 0 {
		return fmt.Errorf("client: %s is %v: set it to zero or more", name, *value)
	}
	*value = cmp.Or(*value, zero)
	return nil
}

// Close ends idle connections. Calls under way go on.
func (c *Client) Close() error { return c.opt.Wire.Close() }

// ShouldAllow spends one unit of a client's, as POST /shouldAllowRequest does: of
// the entry client_id in Options.Domain. It is a Check, whose answer says more.
func (c *Client) ShouldAllow(ctx context.Context, clientID string) (Decision, error) {
	return c.Check(ctx, Of("", weir.Entry{Key: "client_id", Value: clientID}))
}

// Check asks whether a request may pass, and spends what it costs if so. Its
// error is an *[Error] where the check is at fault, the context's if that has
// ended, or that of Options.Local; a service that does not answer is none.
func (c *Client) Check(ctx context.Context, k Check) (Decision, error) {
	return c.decideOne(ctx, k, false)
}

// Peek is Check that spends nothing. It is never answered from memory.
func (c *Client) Peek(ctx context.Context, k Check) (Decision, error) {
	return c.decideOne(ctx, k, true)
}

func (c *Client) decideOne(ctx context.Context, k Check, peek bool) (Decision, error) {
	ds, err := c.decide(ctx, []Check{k}, peek)
	if err != nil {
		return Decision{}, err
	}
	return ds[0], nil
}

// CheckAll asks up to 1000 checks at once, and returns as many decisions in
// their order. Each is all or nothing in itself. With an error nothing was
// decided.
func (c *Client) CheckAll(ctx context.Context, ks []Check) ([]Decision, error) {
	if len(ks) == 0 || len(ks) > maxChecks {
		return nil, &Error{Status: 400, Detail: fmt.Sprintf("%d checks: ask from 1 to %d at once", len(ks), maxChecks)}
	}
	return c.decide(ctx, ks, false)
}

// decide answers from memory what can be, and asks for the rest at once.
func (c *Client) decide(ctx context.Context, ks []Check, peek bool) ([]Decision, error) {
	if err := c.complete(&ks); err != nil {
		return nil, err
	}
	now := time.Now()
	out := make([]Decision, len(ks))
	ask, at := make([]Check, 0, len(ks)), make([]int, 0, len(ks))
	ids := make([]string, len(ks))
	for i := range ks {
		if !peek && c.opt.MaxRemember > 0 && ks[i].IdempotencyKey == "" { // a repeat passes where others are refused
			ids[i] = ks[i].identity()
			if d, ok := c.memory.refusal(ids[i], ks[i].cost(), now); ok {
				c.counts.remembered.Add(1)
				out[i] = d
				continue
			}
		}
		ask, at = append(ask, ks[i]), append(at, i)
	}
	if len(ask) == 0 {
		return out, ctx.Err()
	}
	var results []Decision
	err := c.callService(ctx, func(ctx context.Context) (err error) {
		results, err = c.opt.Wire.Decide(ctx, ask, peek)
		if err == nil && len(results) != len(ask) {
			err = fmt.Errorf("weir: %d decisions on %d checks", len(results), len(ask))
		}
		return err
	})
	var fallback *unavailable
	switch {
	case errors.As(err, &fallback):
		if results, err = c.without(ctx, ask, peek, fallback); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	for j, i := range at {
		out[i] = results[j]
		if ids[i] != "" && results[j].Source == Service && results[j].steady() {
			c.memory.remember(ids[i], ks[i].cost(), results[j], now, c.opt.MaxRemember)
		}
	}
	return out, nil
}

// complete fills in what checks leave to the client, in a copy, and says what is
// wrong with them that the service would not see.
func (c *Client) complete(ks *[]Check) error {
	list := make([]Check, len(*ks))
	for i, k := range *ks {
		if k.Domain == "" {
			k.Domain = c.opt.Domain
		}
		ok := utf8.ValidString(k.Domain) && utf8.ValidString(k.Lease)
		for _, d := range k.Descriptors {
			for _, e := range d.Entries {
				ok = ok && utf8.ValidString(e.Key) && utf8.ValidString(e.Value)
			}
			if d.Override != nil {
				return &Error{Status: 400, Detail: "overrides cannot be asked for: set them in the rules, or by /v1/admin/override"}
			}
		}
		switch {
		case !ok:
			return &Error{Status: 400, Detail: "domains, leases, keys and values must be UTF-8: two that are not would become one"}
		case !checks.IsIdempotencyKey(k.IdempotencyKey):
			return &Error{Status: 400, Detail: fmt.Sprintf("the idempotency key %q must have at most 256 characters of printable ASCII", k.IdempotencyKey)}
		case k.IdempotencyKey != "" && (k.Lease != "" || len(*ks) > 1):
			return &Error{Status: 400, Detail: "an idempotency key is for one check or reservation, without a lease: that names the call itself"}
		case k.Cost < 0 || k.Cost > weir.MaxCost:
			return &Error{Status: 400, Detail: fmt.Sprintf("the cost %d must be from 0 to 2^53", k.Cost)}
		}
		list[i] = k
	}
	*ks = list
	return nil
}

// Wait is Check that waits until the request may pass, and for as long as it is
// then told to be delayed. It returns a *[Refused] at once where that would be
// later than MaxWait or the context's deadline, where waiting does not help, or
// where too many wait; and the context's error if that ends first.
//
// Whoever was refused waits a little longer than he was told, by up to a quarter
// or five seconds: so that not all return at the instant at which a window ends.
func (c *Client) Wait(ctx context.Context, k Check) (Decision, error) {
	w := c.room.NewWaiter(ctx, c.opt.MaxWait)
	defer w.Done()
	for {
		d, err := c.Check(ctx, k)
		if err != nil {
			return Decision{}, err
		}
		if d.Allowed {
			if d.Delay == 0 {
				return d, nil
			}
			late := d
			late.Allowed, late.RetryAfter = false, d.Delay
			if err = w.Sleep(d.Delay, &Refused{late}); err != nil {
				return late, err
			}
			return d, nil
		}
		wait := d.RetryAfter
		if wait == weir.Never {
			return d, &Refused{d}
		}
		if d.Limit != nil && d.Limit.Algorithm == "concurrency" {
			wait = w.PermitDelay(wait)
		}
		wait = max(wait, time.Millisecond)
		if err := w.Sleep(addJitter(wait, w.TimeLeft()), &Refused{d}); err != nil {
			return d, err
		}
	}
}

// maxJitter is the longest that anybody waits beyond what he is told.
const maxJitter = 5 * time.Second

// addJitter returns d, longer at random by up to a quarter, maxJitter, and what is
// left of the time to wait.
func addJitter(d, left time.Duration) time.Duration {
	if room := min(max(d/4, time.Millisecond), maxJitter, left-d); room > 0 {
		d += rand.N(room)
	}
	return d
}

// Refused is the error of a wait that would be too long.
type Refused struct{ Decision Decision }

// Error implements error.
func (e *Refused) Error() string {
	name := "the service"
	if e.Decision.Limit != nil {
		name = fmt.Sprintf("limit %q", e.Decision.Limit.Name)
	}
	if e.Decision.RetryAfter == weir.Never {
		return "weir: refused by " + name + ", whatever the wait"
	}
	return fmt.Sprintf("weir: refused by %s: retry after %s", name, max(e.Decision.RetryAfter, e.Decision.Delay))
}

package remote

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/shared"
)

// Allow spends one unit of key and reports whether it was answered as it must be:
// by the store, and allowed; where refusals are measured, refused. Safe for
// concurrent use.
type Allow func(key string) bool

// Subject is a way to limit that is measured.
type Subject struct {
	// Name as it stands in tables.
	Name string
	// Kind is what is asked of it.
	Kind Kind
	// Open returns a limiter on a database of the server at addr, and what ends it.
	// burst is of wide limits.
	Open func(addr string, db, burst int) (Allow, func() error, error)
}

// Kind is what a subject is asked.
type Kind int

const (
	// Wide: many keys, none refused, each decision asks the server.
	Wide Kind = iota
	// HotKey: one key, all refused.
	HotKey
	// Warm: a thousand keys of which a node holds units.
	Warm
)

// The names of what is measured.
const (
	Ours            = "weir"
	Rate            = "redis_rate"
	Throttled       = "throttled goredisstore"
	OursTwo         = "weir, two limits"
	RefusedOurs     = "weir, refused hot key"
	RefusedEmbedded = "embedded store, refused hot key"
	WarmOurs        = "weir, leased, warm"
	WarmEmbedded    = "embedded store, warm"
)

const (
	// wideBurst and every are of limits that nothing exhausts.
	wideBurst = 1_000_000
	every     = 100 * time.Second
	timeout   = 5 * time.Second
	// fleetLimit is the limit that is lent to four nodes.
	fleetLimit = 100_000
)

// Subjects lists what is measured. A bucket of a million units, one more every 100
// seconds: nothing is refused, and no key is forgotten while it is measured.
var Subjects = []Subject{
	{Ours, Wide, func(addr string, db, burst int) (Allow, func() error, error) {
		return openOurs(addr, db, wide("a", burst))
	}},
	{Rate, Wide, openRate},
	{Throttled, Wide, openThrottled},
	{OursTwo, Wide, func(addr string, db, burst int) (Allow, func() error, error) {
		return openOurs(addr, db, wide("a", burst), wide("b", burst))
	}},
	{RefusedOurs, HotKey, func(addr string, db, _ int) (Allow, func() error, error) {
		return refused(openOurs(addr, db, once()))
	}},
	{RefusedEmbedded, HotKey, func(string, int, int) (Allow, func() error, error) { return refused(openEmbedded(once())) }},
	{WarmOurs, Warm, func(addr string, db, _ int) (Allow, func() error, error) { return openOurs(addr, db, leased()) }},
	{WarmEmbedded, Warm, func(string, int, int) (Allow, func() error, error) { return openEmbedded(leased()) }},
}

// warmKeys is how many keys are kept warm, and warmth how often each is asked before
// a round: so often that a node fetches a thousand units at a time.
const (
	warmKeys = 1000
	warmth   = 400
)

// Session measures one subject.
type Session struct {
	subject  Subject
	addr     string
	allow    Allow
	end      func() error
	keys     *load.Keys
	inFlight int
	rounds   int
}

// Open opens a subject on a database of the server at addr. Wide ones are asked for
// so many keys.
func Open(subject Subject, addr string, db, keys int) (*Session, error) {
	allow, end, err := subject.Open(addr, db, wideBurst)
	if err != nil {
		return nil, err
	}
	s := &Session{subject: subject, addr: addr, allow: allow, end: end, inFlight: 1}
	switch subject.Kind {
	case HotKey:
		s.keys = load.Uniform(1)
	case Warm:
		s.keys = load.Uniform(min(warmKeys, keys))
	default:
		s.keys, s.inFlight = load.Uniform(keys), InFlight
	}
	Fill(allow, s.keys, 1)
	return s, nil
}

// Round makes about n decisions.
func (s *Session) Round(n int64) (Round, error) {
	if s.subject.Kind == Warm {
		// What lay idle while others had their turn was given back.
		Fill(s.allow, s.keys, warmth)
	}
	s.rounds++
	return Drive(s.addr, s.allow, n, s.inFlight, s.keys, s.rounds<<8, s.subject.Kind == Warm)
}

// Close ends the subject.
func (s *Session) Close() error { return s.end() }

// ByName returns the subject of the given name.
func ByName(name string) (Subject, bool) {
	for _, s := range Subjects {
		if s.Name == name {
			return s, true
		}
	}
	return Subject{}, false
}

func wide(scope string, burst int) *weir.Limit {
	return &weir.Limit{Scope: scope, Algorithm: algorithm.TokenBucket, Count: 1, Period: every, Burst: int64(burst),
		Consistency: params.Consistency{Mode: params.ConsistencyStrict}}
}

// once allows one request in a year.
func once() *weir.Limit {
	return &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Period: 365 * 24 * time.Hour,
		Consistency: params.Consistency{Mode: params.ConsistencyStrict}}
}

// leased is so large that a node always has units of it.
func leased() *weir.Limit {
	return &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 1 << 40, Period: 365 * 24 * time.Hour,
		Consistency: params.Consistency{Mode: params.ConsistencyLeased}}
}

func url(addr string, db int) string {
	return fmt.Sprintf("redis://%s/%d?timeout=%s", addr, db, timeout)
}

// openNode opens a node as the server does.
func openNode(addr string, db, nodes int) (*shared.Store, func() error, error) {
	store, err := redis.Open(context.Background(), url(addr, db), redis.Options{})
	if err != nil {
		return nil, nil, err
	}
	local := memory.New(memory.Options{})
	t, err := shared.New(store, shared.Options{Local: local, Timeout: timeout, Nodes: nodes})
	if err != nil {
		return nil, nil, joined(err, store.Close, local.Close)
	}
	return t, func() error { return joined(nil, t.Close, store.Close, local.Close) }, nil
}

func openOurs(addr string, db int, limits ...*weir.Limit) (Allow, func() error, error) {
	t, end, err := openNode(addr, db, 1)
	if err != nil {
		return nil, nil, err
	}
	return through(t, end, limits)
}

func openEmbedded(limits ...*weir.Limit) (Allow, func() error, error) {
	store := memory.New(memory.Options{})
	return through(store, store.Close, limits)
}

// through asks as users do: by weir.Limiter.Take.
func through(store weir.Store, end func() error, limits weir.Limits) (Allow, func() error, error) {
	limiter, err := weir.New(store, limits, weir.Options{})
	if err != nil {
		return nil, nil, joined(err, end)
	}
	ctx := context.Background()
	return func(key string) bool {
		d, err := limiter.Take(ctx, key, 1)
		return err == nil && d.Allowed() && d.Remaining >= 0 && !d.Guarantee().Degraded
	}, end, nil
}

// refused turns a limiter's answers round.
func refused(allow Allow, end func() error, err error) (Allow, func() error, error) {
	return func(key string) bool { return !allow(key) }, end, err
}

// openRate opens go-redis/redis_rate, on go-redis with its defaults but for as many
// connections as requests are under way.
func openRate(addr string, db, burst int) (Allow, func() error, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr, DB: db, PoolSize: InFlight})
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: 1, Period: every, Burst: burst}
	ctx := context.Background()
	return func(key string) bool {
		r, err := limiter.Allow(ctx, key, limit)
		return err == nil && r.Allowed == 1
	}, client.Close, nil
}

// openThrottled opens throttled's GCRA limiter on its go-redis store.
func openThrottled(addr string, db, burst int) (Allow, func() error, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr, DB: db, PoolSize: InFlight})
	store, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return nil, nil, joined(err, client.Close)
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(1, every),
		// throttled counts the burst on top of the one unit of its rate.
		MaxBurst: burst - 1,
	})
	if err != nil {
		return nil, nil, joined(err, client.Close)
	}
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited && err == nil
	}, client.Close, nil
}

// Kept are the algorithms whose keys are weighed.
var Kept = []struct {
	Name  string
	Limit func() *weir.Limit
	Spend int
	// Most is the bytes that docs/reference/redis.md states, less the 24 of the name there.
	Most int64
}{
	{"token bucket", func() *weir.Limit { return weir.PerMinute(7919, algorithm.TokenBucket) }, 3, 80},
	{"fixed window", func() *weir.Limit { return weir.PerHour(100, algorithm.FixedWindow) }, 3, 48},
	{"sliding window", func() *weir.Limit { return weir.PerHour(100, algorithm.SlidingWindow) }, 3, 80},
	{"sliding counter", func() *weir.Limit { return weir.PerHour(100, algorithm.SlidingCounter) }, 3, 80},
	{"60 sub-windows", func() *weir.Limit { return weir.PerHour(100, algorithm.SlidingSubwindows) }, 3, 208},
	{"log of 1000", func() *weir.Limit { return weir.PerHour(1000, algorithm.SlidingLog) }, 1000, 10_450},
}

// Weigh returns the bytes of a key of each of Kept by MEMORY USAGE, less what its
// name takes above one of three bytes.
func Weigh(addr string) ([]int64, error) {
	store, err := redis.Open(context.Background(), url(addr, 0), redis.Options{Prefix: "weigh"})
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, k := range Kept {
		n, err := weigh(addr, store, k.Limit(), k.Spend)
		if err != nil {
			return nil, joined(fmt.Errorf("%s: %w", k.Name, err), store.Close)
		}
		out = append(out, n)
	}
	return out, store.Close()
}

func weigh(addr string, store *redis.Store, l *weir.Limit, spend int) (int64, error) {
	if err := l.Compile(); err != nil {
		return 0, err
	}
	for range spend {
		if d, err := store.TakeOne(context.Background(), "k", l, 1); err != nil || !d.Allowed() {
			return 0, fmt.Errorf("refused: %w", err)
		}
	}
	name, err := store.Name("k", l)
	if err != nil {
		return 0, err
	}
	// An integer under a name as long takes 48 bytes and what the name takes.
	digits := fmt.Sprintf("%0*d", len(name), 0)
	if _, err := Do(addr, "SET "+digits+" 1700000000"); err != nil {
		return 0, err
	}
	var sizes [2]int64
	for i, key := range []string{name, digits} {
		text, err := Do(addr, "MEMORY USAGE "+key+" SAMPLES 0")
		if err != nil {
			return 0, err
		}
		if sizes[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, err
		}
	}
	return sizes[0] - sizes[1] + 48, nil
}

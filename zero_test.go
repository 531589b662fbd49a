package weir_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// A decision that nobody made refuses, whatever it is part of.
func TestZeroValuesRefuse(t *testing.T) {
	var d weir.Decision
	if d.Allowed() || d.Delay(1) != 0 || d.String() != "refused: nothing was decided" {
		t.Errorf("the zero decision: %v, %s", d.Allowed(), d)
	}
	if d := weir.AllowUnlimited(); !d.Allowed() || d.Limit != nil || d.Remaining != weir.MaxCost {
		t.Errorf("no limit applies: %+v", d)
	}
	if d := weir.Fold(make([]weir.Op, 1)); d.Allowed() {
		t.Errorf("an op without an answer: %+v", d)
	}
	if d := weir.Fold(nil); !d.Allowed() {
		t.Errorf("no ops: %+v", d)
	}
	for _, role := range []weir.Role{weir.Enforce, weir.Own, weir.Ban, weir.Deny} {
		if weir.Resolve([]weir.Op{{Role: role}}) {
			t.Errorf("an op of role %d without an answer passes", role)
		}
	}
	if (reserve.Reservation{}).Decision.Allowed() || (sketch.Decision{}).Allowed || (authorize.Verdict{}).Outcome == authorize.Allowed {
		t.Error("a zero value allows")
	}
}

// lying is a store that breaks as told.
type lying struct {
	weir.Store
	answer weir.Decision
	err    error
}

func (s *lying) Take(_ context.Context, ops []weir.Op) error {
	for i := range ops {
		ops[i].Decision, ops[i].Now, ops[i].Charged, ops[i].Borrowed = s.answer, noon.Microseconds(), true, true
	}
	return s.err
}

func (s *lying) TakeOne(context.Context, string, *weir.Limit, int64) (weir.Decision, error) {
	return s.answer, s.err
}

// heardError is an observer that notes whether a decision that failed was heard to pass.
type heardError struct{ passed bool }

func (h *heardError) Observe(r *weir.Request, d weir.Decision, err error) {
	if err == nil {
		return
	}
	h.passed = h.passed || d.Allowed()
	for _, o := range r.Ops() {
		h.passed = h.passed || o.Decision.Allowed() || o.Charged || o.Borrowed
	}
}

// TestFamilyZeroRefuses: whatever way a decision is asked for, and whatever keeps it
// from being made, the value that comes with the error refuses.
func TestFamilyZeroRefuses(t *testing.T) {
	rounds := 300
	if os.Getenv("WEIR_SOAK") != "" {
		rounds = 30_000
	}
	compiled := func(l *weir.Limit) *weir.Limit {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	bare := compiled(weir.PerMinute(10, algorithm.TokenBucket))
	limits := map[string]func() *weir.Limit{
		"plain":  func() *weir.Limit { return weir.PerMinute(10, algorithm.FixedWindow) },
		"bucket": func() *weir.Limit { return weir.PerMinute(10, algorithm.TokenBucket) },
		"queue":  func() *weir.Limit { return weir.PerMinute(10, algorithm.LeakyQueue) },
		"shadow": func() *weir.Limit {
			l := weir.PerMinute(10, algorithm.FixedWindow)
			l.Shadow = true
			return l
		},
		"soft": func() *weir.Limit {
			l := weir.PerMinute(10, algorithm.FixedWindow)
			l.Excess = 10
			return l
		},
		"elastic": func() *weir.Limit {
			l := weir.PerMinute(10, algorithm.FixedWindow)
			l.Pool, l.PoolKey = weir.PerMinute(100, algorithm.TokenBucket), "pool"
			l.Pool.Name = "pool"
			return l
		},
		"banned": func() *weir.Limit {
			l := weir.PerMinute(10, algorithm.FixedWindow)
			l.Ban = &weir.Limit{Algorithm: algorithm.Lockout, Count: 3, Period: time.Minute}
			return l
		},
	}
	names := []string{"plain", "bucket", "queue", "shadow", "soft", "elastic", "banned"}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()

	// Each fault makes a store that certainly fails, or a context that may be too late.
	faults := []struct {
		name  string
		fails bool // for certain
		store func(weir.Store) weir.Store
		ctx   context.Context
		cost  func(*rand.Rand) int64
	}{
		{name: "a store that fails and allows", fails: true, store: func(s weir.Store) weir.Store {
			return &lying{Store: s, answer: weir.Decision{Limit: bare, Remaining: 5}, err: errBroken}
		}},
		{name: "a store that fails and knows no limit", fails: true, store: func(s weir.Store) weir.Store {
			return &lying{Store: s, answer: weir.AllowUnlimited(), err: errBroken}
		}},
		{name: "a store that fails", fails: true, store: func(s weir.Store) weir.Store { return &lying{Store: s, err: errBroken} }},
		{name: "a store that answers nothing", fails: true, store: func(s weir.Store) weir.Store { return &lying{Store: s} }},
		{name: "a closed store", fails: true, store: func(s weir.Store) weir.Store {
			s.Close()
			return s
		}},
		{name: "a closed shared store", fails: true, store: func(s weir.Store) weir.Store {
			two, err := shared.New(s, shared.Options{Local: memory.New(memory.Options{})})
			if err != nil {
				t.Fatal(err)
			}
			two.Close()
			return two
		}},
		{name: "a canceled context", ctx: canceled},
		{name: "a deadline that has passed", ctx: expired},
		{name: "a cost out of range", fails: true, cost: func(r *rand.Rand) int64 {
			return []int64{-1, math.MinInt64, weir.MaxCost + 1, math.MaxInt64, -r.Int64N(1<<40) - 1}[r.IntN(5)]
		}},
	}
	ways := []struct {
		name string
		// certain: it asks a store, and a cost, on every call.
		certain bool
		ask     func(ctx context.Context, l *weir.Limiter, store weir.Store, limit *weir.Limit, cost int64) (weir.Decision, error)
	}{
		{"Take", true, func(ctx context.Context, l *weir.Limiter, _ weir.Store, _ *weir.Limit, cost int64) (weir.Decision, error) {
			return l.Take(ctx, "k", cost)
		}},
		{"TakeLimit", true, func(ctx context.Context, l *weir.Limiter, _ weir.Store, _ *weir.Limit, cost int64) (weir.Decision, error) {
			return l.TakeLimit(ctx, "k", bare, cost)
		}},
		{"Decide", true, func(ctx context.Context, l *weir.Limiter, _ weir.Store, _ *weir.Limit, cost int64) (weir.Decision, error) {
			return l.Decide(ctx, one(cost, weir.Spend))
		}},
		{"Decide to peek", true, func(ctx context.Context, l *weir.Limiter, _ weir.Store, _ *weir.Limit, cost int64) (weir.Decision, error) {
			return l.Decide(ctx, one(cost, weir.Peek))
		}},
		{"Decide by force", true, func(ctx context.Context, l *weir.Limiter, _ weir.Store, _ *weir.Limit, cost int64) (weir.Decision, error) {
			return l.Decide(ctx, one(cost, weir.Force))
		}},
		{"Wait", true, func(ctx context.Context, l *weir.Limiter, _ weir.Store, _ *weir.Limit, cost int64) (weir.Decision, error) {
			ctx, stop := context.WithTimeout(ctx, time.Millisecond)
			defer stop()
			return l.Wait(ctx, one(cost, weir.Spend))
		}},
		{"Apply", false, func(ctx context.Context, l *weir.Limiter, _ weir.Store, _ *weir.Limit, cost int64) (weir.Decision, error) {
			ops := []weir.Op{{Key: "k", Limit: bare, Cost: cost}}
			d, err := l.Apply(ctx, ops)
			if err != nil && (ops[0].Decision.Allowed() || ops[0].Charged) {
				t.Errorf("Apply: an op that failed is answered %+v", ops[0])
			}
			return d, err
		}},
		{"Reserve", true, func(ctx context.Context, l *weir.Limiter, _ weir.Store, limit *weir.Limit, cost int64) (weir.Decision, error) {
			res, err := reserve.New(l, reserve.Options{Secret: []byte(strings.Repeat("s", 32))})
			if err != nil {
				t.Fatal(err)
			}
			r, err := res.Reserve(ctx, one(cost, weir.Spend))
			if err != nil && r.Handle != "" {
				t.Errorf("a reservation that failed has the handle %s", r.Handle)
			}
			return r.Decision, err
		}},
	}
	r := rand.New(rand.NewPCG(seeds.Of(t), 2))
	for range rounds {
		fault, way, name := faults[r.IntN(len(faults))], ways[r.IntN(len(ways))], names[r.IntN(len(names))]
		limit, store := limits[name](), weir.Store(memory.New(memory.Options{}))
		if fault.store != nil {
			store = fault.store(store)
		}
		ctx, cost := fault.ctx, r.Int64N(4)+1
		if ctx == nil {
			ctx = t.Context()
		}
		if fault.cost != nil {
			cost = fault.cost(r)
		}
		hears := &heardError{}
		var opt weir.Options
		if r.IntN(2) == 0 {
			opt.Observers = []weir.Observer{hears}
		}
		l, err := weir.New(store, weir.Limits{limit}, opt)
		if err != nil {
			t.Fatal(err)
		}
		d, err := way.ask(ctx, l, store, limit, cost)
		if err != nil && d.Allowed() || hears.passed {
			t.Errorf("%s, %s, limit %s, cost %d: %+v with the error %v; heard to pass: %v", way.name, fault.name, name, cost, d, err, hears.passed)
		}
		// What a shadow would say is not heard, nor missed.
		unheard := name == "shadow" && fault.name == "a store that answers nothing"
		if err == nil && fault.fails && (way.certain || fault.cost == nil) && !unheard {
			t.Errorf("%s, %s, limit %s, cost %d: no error, and %s", way.name, fault.name, name, cost, d)
		}
		store.Close()
	}
}

// one is a request of one entry.
func one(cost int64, verb weir.Verb) *weir.Request {
	return &weir.Request{Cost: cost, Verb: verb, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: "k"}}}}}
}

// A wait that ends before the turn of the request comes refuses it, and gives its
// place back.
func TestWaitThatEndsRefuses(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	l, err := weir.New(s, weir.Limits{weir.PerMinute(10, algorithm.LeakyQueue)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		d, err := l.Wait(ctx, one(1, weir.Spend))
		stop()
		if (err == nil) != (i == 0) || d.Allowed() != (i == 0) {
			t.Errorf("request %d: %+v, %v", i+1, d, err)
		}
	}
}

// What is not a question is an error, and never a pass.
func TestMisuseIsAnError(t *testing.T) {
	s := memory.New(memory.Options{})
	defer s.Close()
	ofFile, err := rules.Parse("rules.yaml", []byte("domain: api\ndescriptors: [{key: user, limit: 1/minute}]\n"), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	raw := weir.PerMinute(1, algorithm.TokenBucket)
	limited := func(r weir.Rules) *weir.Limiter {
		l, err := weir.New(s, r, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	words := limited(weir.Limits{weir.PerMinute(1, algorithm.TokenBucket)})
	ctx := t.Context()
	f := func(what string, want error, d weir.Decision, err error) {
		t.Helper()
		if !errors.Is(err, want) || d.Allowed() {
			t.Errorf("%s: %+v, %v; want the error %v", what, d, err, want)
		}
	}
	g := func(what string, want error, l *weir.Limiter, r *weir.Request) {
		t.Helper()
		d, err := l.Decide(ctx, r)
		f(what, want, d, err)
		d, err = l.Wait(ctx, r)
		f(what+", waiting", want, d, err)
	}
	for cost := range int64(2) {
		d, err := limited(ofFile).Take(ctx, "ann", cost)
		f("Take with the rules of a file", weir.ErrNoKey, d, err)
		d, err = limited(weir.Limits{}).Take(ctx, "ann", cost)
		f("Take without a limit", weir.ErrNoKey, d, err)
		d, err = words.TakeLimit(ctx, "ann", raw, cost)
		f("TakeLimit with a limit that is not compiled", weir.ErrNotCompiled, d, err)
		d, err = words.TakeLimit(ctx, "ann", nil, cost)
		f("TakeLimit without a limit", weir.ErrNotCompiled, d, err)
	}
	g("no request", weir.ErrNoRequest, words, nil)
	g("a request without descriptors", weir.ErrNoRequest, words, &weir.Request{})
	for _, v := range []weir.Verb{weir.Refund, 4, 255} {
		g(fmt.Sprintf("verb %d", v), weir.ErrVerb, words, one(1, v))
	}
	g("rules with a limit that is not compiled", weir.ErrNotCompiled, limited(matches{{Key: "k", Limit: raw, Cost: 1}}), one(1, weir.Spend))
	g("rules with no limit in an op", weir.ErrNotCompiled, limited(matches{{Key: "k", Cost: 1}}), one(1, weir.Spend))
	g("a cost out of range that meets no limit", weir.ErrCost, limited(matches{}), one(-1, weir.Spend))
	d, err := words.Apply(ctx, nil)
	f("Apply without ops", weir.ErrNoRequest, d, err)
	d, err = words.Apply(ctx, []weir.Op{{Key: "k", Limit: raw, Cost: 1}})
	f("Apply with a limit that is not compiled", weir.ErrNotCompiled, d, err)
	d, err = words.Apply(ctx, []weir.Op{{Key: "k", Cost: 1}})
	f("Apply without a limit", weir.ErrNotCompiled, d, err)

	if d, err := limited(exempt{}).Take(ctx, "ann", 1); err != nil || !d.Allowed() {
		t.Errorf("what the rules exempt: %+v, %v", d, err)
	}
	if d, err := limited(ofFile).Decide(ctx, one(1, weir.Spend)); err != nil || !d.Allowed() || d != weir.AllowUnlimited() {
		t.Errorf("a request that the rules do not limit: %+v, %v", d, err)
	}
}

// matches are rules whose every request meets the same ops.
type matches []weir.Op

func (m matches) Match(dst []weir.Op, _ *weir.Request) []weir.Op { return append(dst, m...) }

// exempt are rules that limit nobody, on purpose.
type exempt struct{ matches }

func (exempt) KeyLists(string) []weir.KeyList { return nil }

func (exempt) Exempts(*weir.Request) bool { return true }

func (exempt) Misspelt(*weir.Request) string { return "" }

// A limit that comes with a call is enforced as it is written, its mode too.
func TestTakeLimitKeepsTheMode(t *testing.T) {
	for name, change := range map[string]func(*weir.Limit){
		"hard":     func(*weir.Limit) {},
		"soft":     func(l *weir.Limit) { l.Excess = 50 },
		"shadow":   func(l *weir.Limit) { l.Shadow = true },
		"penalize": func(l *weir.Limit) { l.Penalize = true },
		"reserve":  func(l *weir.Limit) { l.Headroom = []int64{2} },
		"ban":      func(l *weir.Limit) { l.Ban = &weir.Limit{Algorithm: algorithm.Lockout, Count: 2, Period: time.Hour} },
		"elastic": func(l *weir.Limit) {
			l.Pool, l.PoolKey = weir.PerMinute(6, algorithm.FixedWindow), "pool"
			l.Pool.Name = "pool"
		},
	} {
		// The same requests, by rules and by TakeLimit, are decided alike.
		var said [2]string
		for way := range said {
			l := weir.PerMinute(4, algorithm.FixedWindow)
			change(l)
			b := newTestbed(t, l)
			for i := range 30 {
				var d weir.Decision
				var err error
				if way == 0 {
					d, err = b.Take(t.Context(), "k", 1)
				} else {
					d, err = b.TakeLimit(t.Context(), "k", l, 1)
				}
				if err != nil {
					t.Fatal(err)
				}
				said[way] += fmt.Sprintln(d)
				b.now.Add(time.Duration(i) * time.Second)
			}
		}
		if said[0] != said[1] {
			t.Errorf("%s: by rules\n%sby TakeLimit\n%s", name, said[0], said[1])
		}
	}
}

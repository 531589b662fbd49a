package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/race"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// testbed is a limiter over a memory store whose time stands still until moved.
type testbed struct {
	*weir.Limiter
	t   *testing.T
	now instant
}

// An instant is a time that stands still until moved; the store's background
// work reads it too. It begins at the Unix epoch.
type instant struct{ us atomic.Int64 }

func (i *instant) micros() int64       { return i.us.Load() }
func (i *instant) Add(d time.Duration) { i.us.Add(d.Microseconds()) }

// noon is long after the epoch, and the start of a minute, an hour and a day's
// second half.
const noon = 20_454*24*time.Hour + 12*time.Hour

func newTestbed(t *testing.T, limits ...*weir.Limit) *testbed {
	t.Helper()
	b := &testbed{t: t}
	b.now.Add(noon)
	s := memory.New(memory.Options{Now: b.now.micros})
	t.Cleanup(func() { s.Close() })
	l, err := weir.New(s, weir.Limits(limits), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.Limiter = l
	return b
}

// ask decides one request of the given key after change.
func (b *testbed) ask(key string, change func(*weir.Request)) (*weir.Request, weir.Decision) {
	b.t.Helper()
	r := &weir.Request{Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: key}}}}}
	if change != nil {
		change(r)
	}
	d, err := b.Decide(context.Background(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return r, d
}

// run asks n times and returns a letter for each answer: a allowed, r refused,
// s soft, b borrowed.
func (b *testbed) run(n int, key string, change func(*weir.Request)) string {
	b.t.Helper()
	out := make([]byte, n)
	for i := range out {
		r, d := b.ask(key, change)
		switch {
		case !d.Allowed():
			out[i] = 'r'
		case r.Soft():
			out[i] = 's'
		case r.Borrowed():
			out[i] = 'b'
		default:
			out[i] = 'a'
		}
	}
	return string(out)
}

func (b *testbed) want(got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("got %s, want %s", got, want)
	}
}

func TestSoftLimitPassesItsExcessMarked(t *testing.T) {
	l := weir.PerMinute(10, algorithm.FixedWindow)
	l.Excess = 20
	b := newTestbed(t, l)
	b.want(b.run(14, "k", nil), "aaaaaaaaaassrr")
	b.counted(l, map[weir.Outcome]uint64{weir.Allowed: 10, weir.SoftAllowed: 2, weir.Refused: 2})
}

// counted checks that each decision was counted once, under its limit.
func (b *testbed) counted(l *weir.Limit, want map[weir.Outcome]uint64) {
	b.t.Helper()
	for o := weir.Allowed; o < weir.NumOutcomes; o++ {
		if n := l.Counters().Load(o); n != want[o] {
			b.t.Errorf("counted %d %s, want %d", n, o, want[o])
		}
	}
}

func TestSoftCountsOutliveAReload(t *testing.T) {
	limit := func() *weir.Limit {
		l := weir.PerMinute(1, algorithm.FixedWindow)
		l.Excess = 100
		return l
	}
	old, l := limit(), limit()
	if err := errors.Join(old.Compile(), l.Compile()); err != nil {
		t.Fatal(err)
	}
	old.Counters().Add(weir.SoftAllowed)
	l.Inherit(old)
	b := newTestbed(t, l)
	b.want(b.run(3, "k", nil), "asr")
	b.counted(l, map[weir.Outcome]uint64{weir.Allowed: 1, weir.SoftAllowed: 2, weir.Refused: 1})
}

func TestElasticLimitBorrowsWhileThePoolHasRoom(t *testing.T) {
	pool := weir.PerMinute(6, algorithm.FixedWindow)
	tenant := func() *weir.Limit {
		l := weir.PerMinute(2, algorithm.FixedWindow)
		l.Pool, l.PoolKey, l.Ceiling = pool, "all", 5
		return l
	}
	l := tenant()
	b := newTestbed(t, l)
	// Two of its own and three of the pool, up to its ceiling.
	b.want(b.run(6, "one", nil), "aabbbr")
	b.counted(l, map[weir.Outcome]uint64{weir.Allowed: 2, weir.Refused: 1})
	b.counted(pool, map[weir.Outcome]uint64{weir.Borrowed: 3})
	// The pool has seen five. The second tenant's own share is assured; it
	// takes the pool to its end, and then over.
	b.want(b.run(3, "two", nil), "aar")
	b.want(b.run(3, "three", nil), "aar")
}

// What only the ceiling refuses counts under the limit too.
func TestCeilingRefusesAlone(t *testing.T) {
	l := weir.PerMinute(2, algorithm.TokenBucket)
	l.Pool, l.PoolKey, l.Ceiling = weir.PerMinute(100, algorithm.TokenBucket), "all", 3
	l.Burst = 5
	b := newTestbed(t, l)
	b.want(b.run(1, "k", func(r *weir.Request) { r.Cost = 4 }), "r") // five of its own, but three at most
	b.counted(l, map[weir.Outcome]uint64{weir.Refused: 1})
	b.want(b.run(4, "k", nil), "aaar")
	b.counted(l, map[weir.Outcome]uint64{weir.Allowed: 3, weir.Refused: 2})
}

func TestPriorityKeepsAReserve(t *testing.T) {
	l := weir.PerMinute(10, algorithm.TokenBucket)
	l.Headroom = []int64{0, 2, 8}
	b := newTestbed(t, l)
	priority := func(p int) func(*weir.Request) { return func(r *weir.Request) { r.Priority = p } }
	b.want(b.run(3, "k", priority(2)), "aar")
	_, d := b.ask("k", func(r *weir.Request) { r.Priority, r.Verb = 1, weir.Peek })
	if d.Remaining != 6 {
		t.Errorf("priority 1 is told that %d remain, want 6", d.Remaining)
	}
	b.want(b.run(7, "k", priority(1)), "aaaaaar")
	b.want(b.run(1, "k", priority(9)), "r") // as the last, though two are left
	b.want(b.run(3, "k", priority(0)), "aar")
}

func TestShadowIsCountedAndNotHeard(t *testing.T) {
	l := weir.PerMinute(2, algorithm.FixedWindow)
	l.Shadow = true
	b := newTestbed(t, l)
	b.want(b.run(5, "k", nil), "aaaaa")
	if got := l.Counters().Load(weir.ShadowRefused); got != 3 {
		t.Errorf("%d would have been refused, want 3", got)
	}
}

func TestPenalizeKeepsWhoeverCallsOnRefused(t *testing.T) {
	l := weir.PerMinute(2, algorithm.TokenBucket)
	l.Penalize = true
	b := newTestbed(t, l)
	b.want(b.run(3, "k", nil), "aar")
	b.now.Add(31 * time.Second) // one token back, owed for the third
	b.want(b.run(1, "k", nil), "r")
	b.now.Add(3 * time.Minute)
	b.want(b.run(2, "k", nil), "aa")
}

func TestBanOutlastsTheLimit(t *testing.T) {
	l := weir.PerSecond(1, algorithm.FixedWindow)
	l.Ban = &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 3, Period: time.Minute}
	b := newTestbed(t, l)
	b.want(b.run(4, "k", nil), "arrr")
	b.now.Add(30 * time.Second)
	_, d := b.ask("k", nil)
	if d.Allowed() || d.Limit.Name != "ban" || d.RetryAfter != 30*time.Second {
		t.Errorf("while banned: %+v by %s", d, d.Limit.Name)
	}
	b.now.Add(30 * time.Second)
	b.want(b.run(1, "k", nil), "a")
}

func TestLookingIsNotAFailureToBeBannedFor(t *testing.T) {
	l := weir.PerMinute(1, algorithm.FixedWindow)
	l.Ban = &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 1, Period: time.Hour}
	b := newTestbed(t, l)
	b.want(b.run(1, "k", nil), "a")
	b.want(b.run(3, "k", func(r *weir.Request) { r.Verb = weir.Peek }), "rrr")
	b.now.Add(time.Minute)
	b.want(b.run(1, "k", nil), "a")
}

func TestLeaseIsRenewedAndReleased(t *testing.T) {
	l := &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute}
	b := newTestbed(t, l)
	lease := func(name string) func(*weir.Request) { return func(r *weir.Request) { r.Lease = name } }
	b.want(b.run(2, "k", lease("one")), "aa") // the same unit of work
	b.want(b.run(1, "k", lease("two")), "a")
	b.want(b.run(1, "k", lease("three")), "r")
	r, _ := b.ask("k", lease("two"))
	for i := range 2 { // idempotent
		if released, err := b.Release(context.Background(), r); err != nil || released != (i == 0) {
			t.Fatalf("release %d: %v, %v", i, released, err)
		}
	}
	b.want(b.run(2, "k", lease("three")), "aa")

	r.Lease = ""
	if _, err := b.Release(context.Background(), r); !errors.Is(err, weir.ErrNoLease) {
		t.Errorf("release without a lease: %v", err)
	}
	if _, err := b.Decide(context.Background(), r); !errors.Is(err, weir.ErrNoLease) {
		t.Errorf("acquire without a lease: %v", err)
	}
}

// A request with a lease of its own holds a place that no other one has, until its
// charge is given back.
func TestNewLeaseIsOfOneRequest(t *testing.T) {
	b := newTestbed(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute})
	own := func(r *weir.Request) { r.NewLease = true }
	first, _ := b.ask("k", own)
	second, _ := b.ask("k", own)
	b.want(b.run(1, "k", own), "r")
	if id := first.Ops()[0].ID; id == 0 || id == second.Ops()[0].ID {
		t.Errorf("leases %d and %d", id, second.Ops()[0].ID)
	}
	if err := b.Cancel(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	b.want(b.run(2, "k", own), "ar")
}

func TestCancelGivesBackEveryLimitsCharge(t *testing.T) {
	b := newTestbed(t, weir.PerMinute(3, algorithm.FixedWindow), weir.PerHour(5, algorithm.TokenBucket))
	r, _ := b.ask("k", func(r *weir.Request) { r.Cost = 3 })
	if err := b.Cancel(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	r, _ = b.ask("k", func(r *weir.Request) { r.Verb = weir.Peek })
	for i, want := range []int64{3, 5} {
		if got := r.Ops()[i].Decision.Remaining; got != want {
			t.Errorf("%s: %d remain, want %d", r.Ops()[i].Limit.Name, got, want)
		}
	}
}

func TestCancelLeavesToASketchWhatItCounted(t *testing.T) {
	l := weir.PerMinute(10, algorithm.Approximate)
	l.Sketch = params.SketchOptions{Width: 1 << 12, BloomBits: 1 << 16, BloomHashes: 4}
	b := newTestbed(t, l, weir.PerMinute(10, algorithm.FixedWindow))
	r, _ := b.ask("k", func(r *weir.Request) { r.Cost = 3 })
	if err := b.Cancel(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	r, _ = b.ask("k", func(r *weir.Request) { r.Verb = weir.Peek })
	for i, want := range []int64{7, 10} {
		if got := r.Ops()[i].Decision.Remaining; got != want {
			t.Errorf("%s: %d remain, want %d", r.Ops()[i].Limit.Algorithm.Name(), got, want)
		}
	}
}

func TestWaitGivesUpAtOnceWhenTheDeadlineIsNearer(t *testing.T) {
	b := newTestbed(t, weir.PerHour(1, algorithm.LeakyQueue))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b.ask("k", nil)
	r := &weir.Request{Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: "k"}}}}}
	begin := time.Now()
	if _, err := b.Wait(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("waited %s for nothing", took)
	}
	// The place was given back: the next in line waits one hour, not two.
	r, d := b.ask("k", nil)
	if !d.Allowed() || r.Delay() != time.Hour {
		t.Errorf("next in line: %+v, delay %s", d, r.Delay())
	}
}

func TestCostsOutOfRangeAreErrors(t *testing.T) {
	b := newTestbed(t, weir.PerMinute(3, algorithm.FixedWindow))
	for _, cost := range []int64{-1, weir.MaxCost + 1} {
		if _, err := b.Take(context.Background(), "k", cost); !errors.Is(err, weir.ErrCost) {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
}

func TestDecidingAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	one, err := weir.New(memory.New(memory.Options{}), weir.Limits{weir.PerSecond(1e9, algorithm.TokenBucket)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = one.Take(ctx, "user:42", 1) }); n != 0 {
		t.Errorf("Take allocates %v times", n)
	}
	soft := weir.PerSecond(1e9, algorithm.TokenBucket)
	soft.Excess = 10
	two, err := weir.New(memory.New(memory.Options{}), weir.Limits{soft, weir.PerHour(1e12, algorithm.SlidingWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := two.Acquire()
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "user", Value: "42"}, {Key: "path", Value: "/a"}}})
	if n := testing.AllocsPerRun(1000, func() { _, _ = two.Decide(ctx, r) }); n != 0 {
		t.Errorf("Decide allocates %v times", n)
	}
	// The pool of requests drops some at random under the race detector.
	if n := testing.AllocsPerRun(1000, func() { _, _ = two.TakeBy(ctx, "api", 1, "user", "42", "path", "/a") }); n != 0 && !race.Enabled {
		t.Errorf("TakeBy allocates %v times", n)
	}
}

// recorder keeps what it observes.
type recorder struct{ seen []string }

func (o *recorder) Observe(r *weir.Request, d weir.Decision, err error) {
	o.seen = append(o.seen, fmt.Sprintf("%s %v %v", r.Descriptors[0].Entries[0].Value, d.Allowed(), err))
}

func TestObserversAreToldOfEveryDecision(t *testing.T) {
	var o recorder
	s := memory.New(memory.Options{})
	l, err := weir.New(s, weir.Limits{weir.PerHour(1, algorithm.TokenBucket)}, weir.Options{Observers: []weir.Observer{&o}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Take(context.Background(), "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if _, err := l.Take(context.Background(), "k", 1); !errors.Is(err, weir.ErrClosed) {
		t.Fatal(err)
	}
	// With an error comes the zero decision, which refuses.
	want := []string{"k true <nil>", "k false <nil>", "k false " + weir.ErrClosed.Error()}
	if fmt.Sprint(o.seen) != fmt.Sprint(want) {
		t.Errorf("observed %q, want %q", o.seen, want)
	}
}

func TestNewRefusesWhatCannotDecide(t *testing.T) {
	store := memory.New(memory.Options{})
	t.Cleanup(func() { store.Close() })
	limit := func(name string, count int64, period time.Duration, a weir.Algorithm) *weir.Limit {
		return &weir.Limit{Name: name, Algorithm: a, Count: count, Period: period}
	}
	minute := limit("", 10, time.Minute, algorithm.TokenBucket)
	for name, c := range map[string]struct {
		store weir.Store
		rules weir.Rules
		opt   weir.Options
		want  string
	}{
		"no store":    {nil, weir.Limits{minute}, weir.Options{}, "weir: no store: give one, such as that of package store/memory"},
		"no rules":    {store, nil, weir.Options{}, "weir: no rules: give Limits, or a set of package rules"},
		"no limit":    {store, weir.Limits{minute, nil}, weir.Options{}, "weir: limit 2 of 2 is nil: leave it out"},
		"no observer": {store, weir.Limits{minute}, weir.Options{Observers: []weir.Observer{nil}}, "weir: observer 1 of 1 is nil: leave it out"},
		"one twice": {store, weir.Limits{minute, minute}, weir.Options{},
			`weir: limits 1 and 2 of 2 would share counters, as both have the scope "10/minute": give each a Name of its own`},
		"one name": {store, weir.Limits{limit("api", 10, time.Minute, algorithm.TokenBucket), minute, limit("api", 30, time.Hour, algorithm.TokenBucket)}, weir.Options{},
			`weir: limits 1 and 3 of 3 would share counters, as both have the scope "api": give each a Name of its own`},
		"one name, two algorithms": {store, weir.Limits{limit("api", 10, time.Minute, algorithm.TokenBucket), limit("api", 30, time.Hour, algorithm.FixedWindow)}, weir.Options{}, ""},
	} {
		_, err := weir.New(c.store, c.rules, c.opt)
		if got := fmt.Sprint(err); err == nil && c.want != "" || err != nil && got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Wait waits until the others are done, not until their leases end, nor gives up
// because those end after its deadline.
func TestWaitForAPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{MaxBytes: 16 << 20, Now: func() int64 { return time.Now().UnixMicro() }})
		defer store.Close()
		l, err := weir.New(store, weir.Limits{{Algorithm: algorithm.Concurrency, Count: 1, Period: time.Minute}}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(lease string) *weir.Request {
			return &weir.Request{Lease: lease, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: "k"}}}}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if d, err := l.Wait(ctx, ask("first")); err != nil || !d.Allowed() {
			t.Fatalf("the first: %+v, %v", d, err)
		}
		time.AfterFunc(5*time.Second, func() {
			if _, err := l.Release(context.Background(), ask("first")); err != nil {
				t.Error(err)
			}
		})
		from := time.Now()
		d, err := l.Wait(ctx, ask("second"))
		if took := time.Since(from); err != nil || !d.Allowed() || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("%+v, %v after %s, want the place that is free after 5s", d, err, took)
		}
		if d, err := l.Wait(ctx, ask("third")); !errors.Is(err, context.DeadlineExceeded) || d.Allowed() {
			t.Errorf("%+v, %v, want the deadline", d, err)
		}
	})
}

func TestDecisionInWords(t *testing.T) {
	b := newTestbed(t, weir.PerMinute(3, algorithm.FixedWindow))
	f := func(cost int64, want string) {
		t.Helper()
		_, d := b.ask("k", func(r *weir.Request) { r.Cost = cost })
		if got := fmt.Sprint(d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(2, "allowed by 3/minute, 1 remain")
	b.now.Add(1500 * time.Millisecond)
	f(2, "refused by 3/minute, 1 remain, retry after 58.5s")
	f(4, "refused by 3/minute, 1 remain, waiting does not help")
	if got, want := fmt.Sprint(weir.AllowUnlimited()), "allowed: no limit applies"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// refusesFirst refuses the first op of a request and asks about no other, as a
// store that nodes share may.
type refusesFirst struct{ weir.Store }

func (refusesFirst) Take(_ context.Context, ops []weir.Op) error {
	ops[0].Decision = weir.Decision{Limit: ops[0].Limit, RetryAfter: time.Second}
	return nil
}

// TestUnaskedLimitsDoNotRefuse: a limit that was not asked, since another refused
// before, neither refuses nor counts a refusal.
func TestUnaskedLimitsDoNotRefuse(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	a, b := weir.PerMinute(1, algorithm.SlidingWindow), weir.PerMinute(2, algorithm.SlidingWindow)
	a.Scope, b.Scope = "a", "b"
	l, err := weir.New(refusesFirst{store}, weir.Limits{a, b}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := l.Acquire()
	defer l.Recycle(r)
	r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: "k"}}})
	r.Cost = 1
	d, err := l.Decide(t.Context(), r)
	if err != nil || d.Allowed() || d.Limit != a {
		t.Fatalf("%s, %v", d, err)
	}
	if !r.Ops()[1].Decision.Allowed() || r.Ops()[1].Charged {
		t.Errorf("the limit that was not asked: %+v", r.Ops()[1].Decision)
	}
	if n := b.Counters().Load(weir.Refused); n != 0 {
		t.Errorf("%d refusals counted under a limit that was not asked", n)
	}
}

// A request that does not wait for its delay is refused by the limit that delays it for
// longest, is charged nothing, and counts as refused there alone.
func TestAcceptDelay(t *testing.T) {
	slow, quick := weir.PerHour(1, algorithm.LeakyQueue), weir.PerHour(2, algorithm.LeakyQueue)
	slow.Burst, quick.Burst = 5, 5
	window, shadow := weir.PerHour(3, algorithm.FixedWindow), weir.PerHour(1, algorithm.FixedWindow)
	shadow.Shadow = true
	b := newTestbed(t, slow, quick, window, shadow)
	var asked []time.Duration
	impatient := func(r *weir.Request) {
		r.AcceptDelay = func(_ context.Context, delay time.Duration) time.Duration {
			asked = append(asked, delay)
			return 7 * time.Second
		}
	}
	b.ask("k", impatient)
	if asked != nil {
		t.Errorf("a request without a delay was asked to wait %s", asked)
	}
	for range 3 {
		r, d := b.ask("k", impatient)
		if d.Allowed() || d.Limit != slow || d.RetryAfter != 7*time.Second || !slices.Equal(asked, []time.Duration{time.Hour}) {
			t.Errorf("%+v, asked to wait %s", d, asked)
		}
		for _, o := range r.Ops() {
			if o.Charged {
				t.Errorf("charged by %s", o.Limit.Name)
			}
		}
		asked = nil
	}
	b.counted(slow, map[weir.Outcome]uint64{weir.Allowed: 1, weir.Refused: 3})
	b.counted(quick, map[weir.Outcome]uint64{weir.Allowed: 1})
	b.counted(window, map[weir.Outcome]uint64{weir.Allowed: 1})
	b.counted(shadow, map[weir.Outcome]uint64{weir.Allowed: 1, weir.ShadowRefused: 3})
	// The queues are as if the refused had never come.
	if r, d := b.ask("k", nil); !d.Allowed() || r.Delay() != time.Hour {
		t.Errorf("next in line: %+v, delay %s", d, r.Delay())
	}
	b.counted(slow, map[weir.Outcome]uint64{weir.Allowed: 1, weir.Refused: 3, weir.Delayed: 1})
}

// A request that another limit refuses is not counted as delayed.
func TestRefusedIsNotDelayed(t *testing.T) {
	queue, window := weir.PerHour(1, algorithm.LeakyQueue), weir.PerHour(3, algorithm.FixedWindow)
	queue.Burst = 5
	b := newTestbed(t, queue, window)
	b.want(b.run(5, "k", nil), "aaarr")
	b.counted(queue, map[weir.Outcome]uint64{weir.Allowed: 1, weir.Delayed: 2})
	b.counted(window, map[weir.Outcome]uint64{weir.Allowed: 3, weir.Refused: 2})
}

package reserve_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/reserve"
)

// desk is a reserver on limits, and what the tests ask of it.
type desk struct {
	t     *testing.T
	store *clocked.Store
	lim   *weir.Limiter
	*reserve.Reserver
}

var secret = []byte("0123456789abcdef0123456789abcdef")

func newDesk(t *testing.T, store *clocked.Store, rules weir.Rules, opt reserve.Options) *desk {
	t.Helper()
	lim, err := weir.New(store, rules, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := reserve.New(lim, opt)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t, store, lim, r}
}

func request(cost int64, values ...string) *weir.Request {
	r := &weir.Request{Domain: "llm", Cost: cost}
	for _, v := range values {
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "user", Value: v}}})
	}
	return r
}

func (d *desk) reserve(cost int64, values ...string) string {
	d.t.Helper()
	res, err := d.Reserve(context.Background(), request(cost, values...))
	if err != nil || res.Handle == "" {
		d.t.Fatalf("reserve %d: %v, %+v", cost, err, res)
	}
	return res.Handle
}

// left checks how many units each of values could still spend.
func (d *desk) left(want int64, values ...string) {
	d.t.Helper()
	for _, v := range values {
		r := request(1, v)
		r.Verb = weir.Peek
		got, err := d.lim.Decide(context.Background(), r)
		if err != nil || got.Remaining != want {
			d.t.Errorf("%s: %d left, want %d (%v)", v, got.Remaining, want, err)
		}
	}
}

func (d *desk) settled(handle string, want error) {
	d.t.Helper()
	for _, actual := range []int64{1, 999} {
		if _, err := d.Commit(context.Background(), handle, actual); !errors.Is(err, want) {
			d.t.Errorf("commit: got %v, want %v", err, want)
		}
	}
	if _, err := d.Cancel(context.Background(), handle); !errors.Is(err, want) && !(err == nil && want == reserve.ErrSettled) {
		d.t.Errorf("cancel: got %v, want %v", err, want)
	}
}

func TestSettle(t *testing.T) {
	ctx := context.Background()
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.FixedWindow, algorithm.SlidingWindow} {
		t.Run(a.Name(), func(t *testing.T) {
			f := func(settle func(*desk, string) (reserve.Settlement, error), want reserve.Settlement, left int64) {
				t.Helper()
				d := newDesk(t, clocked.New(t), weir.Limits{weir.PerHour(1000, a)}, reserve.Options{})
				h := d.reserve(300, "ann")
				d.left(700, "ann")
				got, err := settle(d, h)
				if err != nil || got != want {
					t.Fatalf("got %+v, %v, want %+v", got, err, want)
				}
				d.left(left, "ann")
				if again, err := settle(d, h); err != nil || again != want {
					t.Errorf("the same call again: got %+v, %v, want %+v", again, err, want)
				}
				d.left(left, "ann")
				d.settled(h, reserve.ErrSettled)
				d.left(left, "ann")
			}
			commit := func(n int64) func(*desk, string) (reserve.Settlement, error) {
				return func(d *desk, h string) (reserve.Settlement, error) { return d.Commit(ctx, h, n) }
			}
			f(commit(120), reserve.Settlement{Reserved: 300, Actual: 120}, 880)
			f(commit(300), reserve.Settlement{Reserved: 300, Actual: 300}, 700)
			f(commit(450), reserve.Settlement{Reserved: 300, Actual: 450}, 550)
			f(commit(0), reserve.Settlement{Reserved: 300, Actual: 0}, 1000)
			f(func(d *desk, h string) (reserve.Settlement, error) { return d.Cancel(ctx, h) },
				reserve.Settlement{Reserved: 300, Actual: 0}, 1000)
			// What was used is used, even if there was not that much.
			f(commit(5000), reserve.Settlement{Reserved: 300, Actual: 5000}, 0)
		})
	}
}

func TestSettleSeveralLimits(t *testing.T) {
	day, hour := weir.PerDay(10_000, algorithm.SlidingWindow), weir.PerHour(1000, algorithm.TokenBucket)
	d := newDesk(t, clocked.New(t), weir.Limits{hour, day}, reserve.Options{})
	h := d.reserve(300, "ann", "bob")
	d.left(700, "ann", "bob")
	if _, err := d.Commit(context.Background(), h, 100); err != nil {
		t.Fatal(err)
	}
	d.left(900, "ann", "bob")
	r := request(1, "ann")
	r.Verb = weir.Peek
	if _, err := d.lim.Decide(context.Background(), r); err != nil || r.Ops()[1].Decision.Remaining != 9900 {
		t.Errorf("the day's limit has %d left, want 9900", r.Ops()[1].Decision.Remaining)
	}
}

// fixed charges one unit per request beside the cost in tokens, as rules with
// a cost of their own do.
type fixed struct{ tokens, requests *weir.Limit }

func (f fixed) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	user := r.Descriptors[0].Entries[0].Value
	dst = f.tokens.Append(dst, user, max(r.Cost, 1), r)
	return f.requests.Append(dst, user, 1, r)
}

func TestFixedCostStays(t *testing.T) {
	rules := fixed{weir.PerHour(1000, algorithm.FixedWindow), weir.PerHour(10, algorithm.FixedWindow)}
	for _, l := range []*weir.Limit{rules.tokens, rules.requests} {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	f := func(reserved, actual, tokens, requests int64) {
		t.Helper()
		d := newDesk(t, clocked.New(t), rules, reserve.Options{})
		h := d.reserve(reserved, "ann")
		var err error
		if actual < 0 {
			_, err = d.Cancel(context.Background(), h)
		} else {
			_, err = d.Commit(context.Background(), h, actual)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := request(1, "ann")
		r.Verb = weir.Peek
		if _, err := d.lim.Decide(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		if got := r.Ops(); got[0].Decision.Remaining != tokens || got[1].Decision.Remaining != requests {
			t.Errorf("reserved %d, actual %d: %d tokens and %d requests left, want %d and %d",
				reserved, actual, got[0].Decision.Remaining, got[1].Decision.Remaining, tokens, requests)
		}
	}
	f(300, 100, 900, 9)
	f(300, 400, 600, 9)
	f(300, 0, 1000, 9)
	f(1, 5, 995, 9)
	f(1, 0, 1000, 9)
	f(300, -1, 1000, 10)
}

func TestElastic(t *testing.T) {
	pool := weir.PerHour(100, algorithm.TokenBucket)
	pool.Name = "pool"
	own := weir.PerHour(10, algorithm.TokenBucket)
	own.Mode = weir.Mode{Pool: pool, PoolKey: "all"}
	store := clocked.New(t)
	d := newDesk(t, store, weir.Limits{own}, reserve.Options{})
	d.reserve(8, "ann")
	h := d.reserve(30, "ann") // borrowed: more than what is left of the share
	d.left(2, "ann")
	if _, err := d.Commit(context.Background(), h, 20); err != nil {
		t.Fatal(err)
	}
	r := request(1, "ann")
	r.Verb = weir.Peek
	if _, err := d.lim.Decide(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if got := r.Ops(); got[0].Decision.Remaining != 2 || got[1].Decision.Remaining != 72 {
		t.Errorf("own share has %d, pool %d left, want 2 and 72", got[0].Decision.Remaining, got[1].Decision.Remaining)
	}
}

// TestSameKeyTwice: two descriptors that meet one counter are two charges.
func TestSameKeyTwice(t *testing.T) {
	d := newDesk(t, clocked.New(t), weir.Limits{weir.PerDay(100, algorithm.FixedWindow)}, reserve.Options{})
	r := request(1, "ann", "ann")
	r.Descriptors[0].Cost, r.Descriptors[1].Cost = 20, 50
	res, err := d.Reserve(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	d.left(30, "ann")
	if _, err := d.Cancel(context.Background(), res.Handle); err != nil {
		t.Fatal(err)
	}
	d.left(100, "ann")
}

func TestWindowOver(t *testing.T) {
	d := newDesk(t, clocked.New(t), weir.Limits{weir.PerMinute(100, algorithm.FixedWindow)}, reserve.Options{})
	h := d.reserve(60, "ann")
	d.store.Advance(time.Minute)
	d.reserve(10, "ann")
	if _, err := d.Cancel(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	d.left(90, "ann") // the new window gets nothing from the old one
}

func TestExpiry(t *testing.T) {
	d := newDesk(t, clocked.New(t), weir.Limits{weir.PerDay(100, algorithm.FixedWindow)}, reserve.Options{TTL: time.Minute})
	h := d.reserve(60, "ann")
	d.store.Advance(time.Minute)
	d.settled(h, reserve.ErrExpired)
	d.left(40, "ann")

	// A settled one stays settled to its end.
	h = d.reserve(10, "ann")
	if _, err := d.Commit(context.Background(), h, 5); err != nil {
		t.Fatal(err)
	}
	for range 59 {
		d.store.Advance(time.Second)
		d.settled(h, reserve.ErrSettled)
	}
}

func TestOtherNode(t *testing.T) {
	store := clocked.New(t)
	limits := func() weir.Limits { return weir.Limits{weir.PerDay(100, algorithm.FixedWindow)} }
	a := newDesk(t, store, limits(), reserve.Options{Secret: secret, TTL: time.Hour})
	b := newDesk(t, store, limits(), reserve.Options{Secret: secret, TTL: time.Second})
	stranger := newDesk(t, store, limits(), reserve.Options{})
	h := a.reserve(60, "ann")
	stranger.settled(h, reserve.ErrHandle)
	store.Advance(30 * time.Minute)
	if _, err := b.Commit(context.Background(), h, 2); err != nil {
		t.Fatal(err)
	}
	store.Advance(29 * time.Minute)
	a.settled(h, reserve.ErrSettled)
	a.left(98, "ann")
}

func TestRefused(t *testing.T) {
	d := newDesk(t, clocked.New(t), weir.Limits{weir.PerHour(100, algorithm.TokenBucket)}, reserve.Options{})
	d.reserve(60, "ann")
	res, err := d.Reserve(context.Background(), request(60, "ann"))
	if err != nil || res.Handle != "" || res.Decision.Allowed() || res.Decision.RetryAfter != 12*time.Minute {
		t.Errorf("got %+v, %v, want a refusal for 12m", res, err)
	}
	d.left(40, "ann")
}

func TestNoLimits(t *testing.T) {
	d := newDesk(t, clocked.New(t), weir.Limits{}, reserve.Options{})
	h := d.reserve(60, "ann")
	if _, err := d.Commit(context.Background(), h, 2); err != nil {
		t.Fatal(err)
	}
	d.settled(h, reserve.ErrSettled)
}

func TestUnsupported(t *testing.T) {
	queue := weir.PerSecond(1, algorithm.LeakyQueue)
	store := clocked.New(t)
	d := newDesk(t, store, weir.Limits{queue}, reserve.Options{})
	f := func(r *weir.Request, want error, detail string) {
		t.Helper()
		res, err := d.Reserve(context.Background(), r)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), detail) || res.Handle != "" {
			t.Errorf("got %v, want %v: %s", err, want, detail)
		}
	}
	f(request(1, "ann"), reserve.ErrUnsupported, "queue")
	// One such limit among others is enough, and nothing is spent under any.
	bucket := weir.PerHour(1, algorithm.TokenBucket)
	d = newDesk(t, store, weir.Limits{bucket, weir.PerMinute(1, algorithm.Approximate)}, reserve.Options{})
	f(request(1, "ann"), reserve.ErrUnsupported, "is approximate")
	d = newDesk(t, store, weir.Limits{bucket, weir.PerMinute(1, algorithm.Concurrency)}, reserve.Options{})
	f(request(1, "ann"), reserve.ErrUnsupported, "acquire and release")
	r := request(1, "ann")
	r.Verb = weir.Peek
	f(r, reserve.ErrUnsupported, "spends")
	r = request(1, "ann")
	r.Descriptors[0].Override = queue
	f(r, reserve.ErrUnsupported, "replaces the limit")
	d = newDesk(t, store, weir.Limits{weir.PerHour(1, algorithm.TokenBucket)}, reserve.Options{})
	f(request(1, strings.Repeat("x", reserve.MaxHandle)), reserve.ErrTooLarge, "at most 8192")
	f(request(-1, "ann"), weir.ErrCost, "")
	if store.Stats().Keys != 0 {
		t.Errorf("something was charged: %d keys", store.Stats().Keys)
	}
}

func TestTampered(t *testing.T) {
	d := newDesk(t, clocked.New(t), weir.Limits{weir.PerHour(100, algorithm.TokenBucket)}, reserve.Options{})
	h := d.reserve(60, "ann")
	raw, err := base64.RawURLEncoding.DecodeString(h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] ^= 1
		d.settled(base64.RawURLEncoding.EncodeToString(raw), reserve.ErrHandle)
		raw[i] ^= 1
	}
	for _, bad := range []string{"", "x", h[:len(h)-1], h + "A", h + "\n", h[:9] + "\r\n" + h[9:], " " + h, h + "=", strings.Repeat("A", reserve.MaxHandle+1)} {
		d.settled(bad, reserve.ErrHandle)
	}
	d.left(40, "ann")
}

func TestStoreErrorLeavesUnsettled(t *testing.T) {
	d := newDesk(t, clocked.New(t), weir.Limits{weir.PerHour(100, algorithm.FixedWindow)}, reserve.Options{})
	h := d.reserve(60, "ann")
	fire := errors.New("disk on fire")
	d.store.Fail = fire
	d.settled(h, fire)
	d.Close() // nothing is settled in the background
	d.store.Fail = nil
	if _, err := d.Commit(context.Background(), h, 10); err != nil {
		t.Fatal(err)
	}
	d.left(90, "ann")
}

// rendezvous is a store in which every look at a reservation returns only when
// all have looked.
type rendezvous struct {
	*clocked.Store
	looking sync.WaitGroup
}

func (r *rendezvous) Take(ctx context.Context, ops []weir.Op) error {
	err := r.Store.Take(ctx, ops)
	if ops[0].Verb == weir.Peek {
		r.looking.Done()
		r.looking.Wait()
	}
	return err
}

func TestSettledOnceByMany(t *testing.T) {
	const n = 32
	store := &rendezvous{Store: clocked.New(t)}
	store.looking.Add(n)
	lim, err := weir.New(store, weir.Limits{weir.PerHour(1000, algorithm.FixedWindow)}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := reserve.New(lim, reserve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Reserve(context.Background(), request(500, "ann"))
	if err != nil {
		t.Fatal(err)
	}
	var wins, actual atomic.Int64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if s, err := r.Commit(context.Background(), res.Handle, int64(i)); err == nil {
				wins.Add(1)
				actual.Add(s.Actual)
			} else if !errors.Is(err, reserve.ErrSettled) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if wins.Load() != 1 {
		t.Errorf("settled %d times", wins.Load())
	}
	if d, err := lim.Take(context.Background(), "ann", 1); err != nil || d.Remaining != 999-actual.Load() {
		t.Errorf("%d units are left after %d and 1 of 1000 (%v)", d.Remaining, actual.Load(), err)
	}
}

func TestOptions(t *testing.T) {
	lim, err := weir.New(clocked.New(t), weir.Limits{}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := func(lim *weir.Limiter, opt reserve.Options, want string) {
		t.Helper()
		if _, err := reserve.New(lim, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(nil, reserve.Options{}, "no limiter")
	f(lim, reserve.Options{Secret: []byte("short")}, "at least 16")
	f(lim, reserve.Options{TTL: time.Millisecond}, "ttl")
	f(lim, reserve.Options{TTL: 25 * time.Hour}, "ttl")
}

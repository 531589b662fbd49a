package shed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/shed"
)

// world is a shedder beside other rules, on a clock of the tester's.
type world struct {
	t     testing.TB
	s     *shed.Shedder
	store *clocked.Store
	lim   *weir.Limiter
}

func newWorld(t testing.TB, o shed.Options, others ...*weir.Limit) *world {
	t.Helper()
	w := &world{t: t, s: newShedder(t, o), store: clocked.New(t)}
	for _, l := range others {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	w.lim = newLimiter(t, w, others...)
	return w
}

func newLimiter(t testing.TB, w *world, others ...*weir.Limit) *weir.Limiter {
	t.Helper()
	lim, err := weir.New(w.store, beside{others, limits.NewSet(w.s.Layer())}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// beside is limits that requests meet before those of a set.
type beside struct {
	first weir.Limits
	set   *limits.Set
}

// Match implements weir.Rules.
func (b beside) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	return b.set.Match(b.first.Match(dst, r), r)
}

// ask returns a request of a user: "" for one who is not known.
func ask(user string, p shed.Priority, lease string) *weir.Request {
	r := &weir.Request{Priority: int(p), Lease: lease}
	entries := []weir.Entry{{Key: "path", Value: "/"}}
	if user != "" {
		entries = append(entries, weir.Entry{Key: "user", Value: user})
	}
	r.Descriptors = []weir.Descriptor{{Entries: entries}}
	return r
}

func (w *world) decide(r *weir.Request) weir.Decision {
	w.t.Helper()
	d, err := w.lim.Decide(context.Background(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) release(r *weir.Request) {
	w.t.Helper()
	if _, err := w.lim.Release(context.Background(), r); err != nil {
		w.t.Fatal(err)
	}
}

// met names the limits of r.
func met(r *weir.Request) string {
	var names []string
	for _, o := range r.Ops() {
		names = append(names, o.Limit.Name+":"+o.Key)
	}
	return strings.Join(names, " ")
}

func perSecond(n int64) shed.Rate { return shed.Rate{Count: n, Period: time.Second} }

// all has all three limiters that a store counts.
func all() shed.Options {
	return shed.Options{
		UserRate:        shed.RateOptions{Limit: perSecond(10)},
		UserConcurrency: shed.ConcurrencyOptions{Limit: 2},
		FleetShare:      shed.FleetOptions{Limit: perSecond(100)},
	}
}

func TestMatch(t *testing.T) {
	w := newWorld(t, all())
	f := func(r *weir.Request, want string) {
		t.Helper()
		w.lim.Match(r)
		if got := met(r); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	key := "user\x1fann\x1f4"
	f(ask("ann", shed.Default, "1"), "user_rate:"+key+" user_concurrency:"+key+" fleet_share_default:fleet")
	f(ask("ann", shed.Critical, ""), "user_rate:"+key+" fleet_share_critical:fleet")
	f(ask("", shed.Background, "1"), "fleet_share_background:fleet")
	r := &weir.Request{Priority: 9}
	f(r, "fleet_share_background:fleet")
	if r.Ops()[0].Verb != weir.Spend {
		t.Error("a request without descriptors is not charged")
	}
	f(&weir.Request{Priority: -9}, "fleet_share_critical:fleet")

	// The keys are preferred in their order, wherever they stand.
	r = &weir.Request{Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "192.0.2.1"}}},
		{Entries: []weir.Entry{{Key: "user", Value: ""}, {Key: "api_key", Value: "k"}}}}}
	f(r, "user_rate:api_key\x1fk\x1f7 fleet_share_critical:fleet")
	r.Descriptors = r.Descriptors[:1]
	f(r, "user_rate:remote_address\x1f192.0.2.1\x1f14 fleet_share_critical:fleet")

	o := all()
	o.Domain = "api"
	w = newWorld(t, o)
	f(ask("ann", shed.Default, "1"), "")
	r = ask("ann", shed.Default, "1")
	r.Domain = "api"
	f(r, "user_rate:"+key+" user_concurrency:"+key+" fleet_share_default:fleet")
	f(&weir.Request{}, "")

	w = newWorld(t, shed.Options{})
	f(ask("ann", shed.Default, "1"), "")
}

func TestCosts(t *testing.T) {
	w := newWorld(t, all())
	r := ask("ann", shed.Default, "1")
	r.Cost = 3
	w.decide(r)
	costs := func() (out []int64) {
		for _, o := range r.Ops() {
			out = append(out, o.Cost)
		}
		return out
	}
	if got := fmt.Sprint(costs()); got != "[3 1 3]" {
		t.Errorf("rate, places and fleet: got %s", got)
	}
	r.Descriptors[0].Cost = 5
	w.decide(r)
	if got := fmt.Sprint(costs()); got != "[5 1 3]" {
		t.Errorf("the descriptor's cost is its user's: got %s", got)
	}
	before := w.decide(peek(ask("ann", shed.Critical, "1")))
	r.Descriptors[0].Peek = true
	w.decide(r)
	for _, o := range r.Ops() {
		if o.Verb != weir.Peek || o.Charged {
			t.Errorf("%s was charged by a descriptor that only looks", o.Limit.Name)
		}
	}
	// Where another one spends, the fleet has work.
	both := &weir.Request{Descriptors: append(ask("bob", shed.Default, "").Descriptors, r.Descriptors...)}
	w.decide(both)
	for _, o := range both.Ops() {
		if o.Verb != weir.Spend {
			t.Errorf("%s was not charged by a descriptor that spends", o.Limit.Name)
		}
	}
	if after := w.decide(peek(ask("ann", shed.Critical, "1"))); after.Remaining != before.Remaining {
		t.Error("a descriptor that only looks was charged")
	}
}

func peek(r *weir.Request) *weir.Request {
	r.Verb = weir.Peek
	return r
}

// bucket is a token bucket in whole numbers: a token is period microseconds.
type bucket struct{ level, at int64 }

const second = 1_000_000

func (b *bucket) take(now, rate, burst, cost int64) bool {
	b.level = min(b.level+(now-b.at)*rate, burst*second)
	b.at = now
	return b.level >= cost*second
}

// TestUserLimitsOracle holds random requests of some users against a model of
// the two limits per user and of a rule beside them: all or nothing.
func TestUserLimitsOracle(t *testing.T) {
	const rate, burst, places, ttl, window = 10, 15, 3, 2 * second, 60
	o := shed.Options{UserRate: shed.RateOptions{Limit: perSecond(rate), Burst: burst},
		UserConcurrency: shed.ConcurrencyOptions{Limit: places, TTL: ttl * time.Microsecond}}
	w := newWorld(t, o, &weir.Limit{Name: "window", Algorithm: algorithm.FixedWindow, Count: window, Period: 10 * time.Second})
	rnd := rand.New(rand.NewPCG(7, 8))
	start := w.store.Now.Load()
	buckets, leases, windows := map[string]*bucket{}, map[string]map[string]int64{}, map[string]int64{}
	var under []*weir.Request
	var whys [4]int
	for step := range 30_000 {
		w.store.Advance(time.Duration(rnd.IntN(20_000)) * time.Microsecond)
		now := w.store.Now.Load()
		if len(under) > 0 && rnd.IntN(10) < 3 {
			i := rnd.IntN(len(under))
			r := under[i]
			w.release(r)
			delete(leases[r.Descriptors[0].Entries[1].Value], r.Lease)
			under = append(under[:i], under[i+1:]...)
			continue
		}
		user := fmt.Sprint("user ", rnd.IntN(4))
		r := ask(user, shed.Default, fmt.Sprint("lease ", step))
		r.Cost = 1 + rnd.Int64N(4)
		if buckets[user] == nil {
			buckets[user], leases[user] = &bucket{burst * second, start}, map[string]int64{}
		}
		for id, end := range leases[user] {
			if end <= now {
				delete(leases[user], id)
			}
		}
		wkey := fmt.Sprint(user, now/(10*second))
		byRate := buckets[user].take(now, rate, burst, r.Cost)
		byPlaces := len(leases[user]) < places
		byWindow := windows[wkey]+r.Cost <= window
		want := byRate && byPlaces && byWindow
		if got := w.decide(r).Allowed(); got != want {
			t.Fatalf("step %d: %s allowed %t; rate %t places %t window %t", step, user, got, byRate, byPlaces, byWindow)
		}
		for i, no := range []bool{!byRate, !byPlaces, !byWindow, want} {
			if no {
				whys[i]++
			}
		}
		if want {
			buckets[user].level -= r.Cost * second
			leases[user][r.Lease] = now + ttl
			windows[wkey] += r.Cost
			under = append(under, r)
		}
	}
	for i, n := range whys {
		if n < 300 {
			t.Errorf("case %d came up %d times only: %v", i, n, whys)
		}
	}
}

// TestFleetKeepsItsReserve checks random requests of all classes: in no second
// more than the limit, in none more of the others than the limit without the
// reserve, and none is refused without need.
func TestFleetKeepsItsReserve(t *testing.T) {
	const limit, reserve = 100, 20
	w := newWorld(t, shed.Options{FleetShare: shed.FleetOptions{Limit: perSecond(limit)}})
	rnd := rand.New(rand.NewPCG(9, 10))
	type spend struct{ at, cost int64 }
	var spent []spend // of the last second and a sub-window
	sum := func(since int64) (n int64) {
		for _, s := range spent {
			if s.at > since {
				n += s.cost
			}
		}
		return n
	}
	var refused [4]int
	for step := range 20_000 {
		pause := 8_000
		if step/1000%2 == 1 {
			pause = 30_000
		}
		w.store.Advance(time.Duration(rnd.IntN(pause)) * time.Microsecond)
		now := w.store.Now.Load()
		c := shed.Priority(rnd.IntN(4))
		r := ask("", c, "")
		r.Cost = 1 + rnd.Int64N(3)
		kept := int64(reserve)
		if c == shed.Critical {
			kept = 0
		}
		for len(spent) > 0 && spent[0].at <= now-second-second/50 {
			spent = spent[1:]
		}
		d := w.decide(r)
		switch exact := sum(now - second); {
		case d.Allowed():
			if exact+r.Cost+kept > limit {
				t.Fatalf("step %d: %s of cost %d passes with %d spent in the last second", step, c, r.Cost, exact)
			}
			spent = append(spent, spend{now, r.Cost})
		default:
			refused[c]++
			// Sub-windows count on for one of their length more.
			if sum(now-second-second/50)+r.Cost+kept <= limit {
				t.Fatalf("step %d: %s of cost %d is refused with %d spent", step, c, r.Cost, exact)
			}
			if got := w.s.State().Limiters[2].Classes[c]; got.Refused != uint64(refused[c]) {
				t.Fatalf("step %d: %+v", step, got)
			}
		}
	}
	if refused[0] == 0 || refused[1] < 2*refused[0] {
		t.Errorf("refused by class: %v", refused)
	}
}

// TestUnderContention: 64 goroutines get what the limits allow to the unit, and
// every answer is counted.
func TestUnderContention(t *testing.T) {
	o := shed.Options{UserRate: shed.RateOptions{Limit: perSecond(300)}, UserConcurrency: shed.ConcurrencyOptions{Limit: 50},
		FleetShare: shed.FleetOptions{Limit: perSecond(1000)}}
	w := newWorld(t, o)
	var passed, byUser, byClass [4]atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			user, class := g%4, shed.Priority(g/16)
			for i := range 100 {
				r := ask(fmt.Sprint("user ", user), class, fmt.Sprint(g, i))
				d, err := w.lim.Decide(context.Background(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if !d.Allowed() {
					continue
				}
				byUser[user].Add(1)
				byClass[class].Add(1)
				passed[0].Add(1)
				if _, err := w.lim.Release(context.Background(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	others := byClass[1].Load() + byClass[2].Load() + byClass[3].Load()
	if n := passed[0].Load(); n > 1000 || others > 800 {
		t.Errorf("%d passed, %d of them not critical", n, others)
	}
	st := w.s.State()
	for u := range 4 {
		if n := byUser[u].Load(); n > 300 {
			t.Errorf("user %d got %d", u, n)
		}
	}
	for c, cs := range st.Limiters[2].Classes {
		if cs.Allowed != uint64(byClass[c].Load()) {
			t.Errorf("%s: counted %d, passed %d", cs.Class, cs.Allowed, byClass[c].Load())
		}
	}
	if got := st.Limiters[0].Classes[0].Allowed; got != uint64(passed[0].Load()) {
		t.Errorf("the rate counted %d, passed %d", got, passed[0].Load())
	}
	w.s.Set(map[string]string{"user_rate": "off", "fleet_share": "off"})
	for u := range 4 {
		if d := w.decide(peek(ask(fmt.Sprint("user ", u), shed.Critical, "look"))); d.Remaining != 50 {
			t.Errorf("user %d: %d places are free, want 50", u, d.Remaining)
		}
	}
}

func TestNamesKeepFleetsApart(t *testing.T) {
	store := clocked.New(t)
	for _, name := range []string{"one", "two"} {
		o := shed.Options{Name: name, FleetShare: shed.FleetOptions{Limit: perSecond(10)}}
		for i := range 2 { // two nodes
			lim, err := weir.New(store, limits.NewSet(newShedder(t, o).Layer()), weir.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := ask("", shed.Critical, "")
			r.Cost = 6
			if d, err := lim.Decide(context.Background(), r); err != nil || d.Allowed() != (i == 0) {
				t.Errorf("fleet %s, node %d: %+v, %v", name, i, d, err)
			}
		}
	}
}

// TestReserveIsRoundedUp: a share that is no whole number of units is kept in
// full.
func TestReserveIsRoundedUp(t *testing.T) {
	f := func(limit int64, percent int, want int64) {
		t.Helper()
		s := newShedder(t, shed.Options{FleetShare: shed.FleetOptions{Limit: perSecond(limit), Reserve: shed.Percent(percent)}})
		if got := s.State().Limiters[2].Reserved; got != want {
			t.Errorf("%d%% of %d: got %d, want %d", percent, limit, got, want)
		}
	}
	f(100, 20, 20)
	f(7, 20, 2)
	f(1234, 33, 408) // 407.22
	f(5, 0, 0)
	f(1<<53, 99, 8917127262193583) // 8917127262193582.08
}

func TestMatchDoesNotAllocate(t *testing.T) {
	w := newWorld(t, all())
	by := limits.NewSet(w.s.Layer())
	r := ask("ann", shed.Default, "1")
	w.lim.Match(r)
	for _, mode := range []string{"enforce", "shadow", "off"} {
		set(t, w.s, "user_rate", mode, "fleet_share", mode)
		dst := make([]weir.Op, 0, 8)
		if n := testing.AllocsPerRun(1000, func() {
			dst = by.Match(dst[:0], r)
			if len(dst) == 0 {
				t.Fatal("no limit")
			}
			w.lim.Match(r) // takes the request's buffer back
		}); n > 0 {
			t.Errorf("%s: %v allocations", mode, n)
		}
	}
}

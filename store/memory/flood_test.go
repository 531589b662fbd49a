package memory

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// A flood is many keys that come once, while others go about their business:
// heavy clients, which ask ten times as often as they may, and honest ones,
// which stay at six tenths.
type flood struct {
	maxBytes int64
	keys     int           // of the flood
	last     time.Duration // how long it lasts, in virtual time
	honest   int           // clients, a request a second each, from some time on
}

// A client is one of those beside the flood.
type client struct {
	key           string
	next, every   int64 // µs
	asked, passed int
	at            []int64 // when requests passed, for heavy ones
	row           []int64 // what an exact store would keep, of what passed
}

// run returns the share of the honest clients' requests that were refused.
func (f flood) run(t *testing.T, l *weir.Limit) (refused float64, st Stats) {
	t.Helper()
	s, clock := newStore(t, Options{MaxBytes: f.maxBytes})
	r := rand.New(rand.NewPCG(7, 7))
	var clients []*client
	add := func(key string, from, every int64) *client {
		c := &client{key: key, next: start + from, every: every, row: make([]int64, l.Cells)}
		clients = append(clients, c)
		return c
	}
	last := f.last.Microseconds()
	heavy := []*client{add("heavy from the start", 0, 60_000)}
	for i := range int64(4) {
		// Arrived when the store is full: known to the sketch only.
		heavy = append(heavy, add(fmt.Sprint("heavy later ", i), last/2+i*last/10, 60_000))
	}
	for i := range f.honest {
		add(fmt.Sprint("honest ", i), last/10+r.Int64N(last*6/10), 1_000_000)
	}
	// A wheel of milliseconds finds who is due.
	wheel := make([][]*client, last/1000+1)
	due := func(c *client) {
		if at := (c.next - start) / 1000; at < int64(len(wheel)) {
			wheel[at] = append(wheel[at], c)
		}
	}
	for _, c := range clients {
		due(c)
	}
	cost := int64(1)
	if l.Traits()&weir.Stamps != 0 {
		// A bucket is whole again soon after one unit: ask for more.
		cost = l.Count * 3 / 10
	}
	ctx := context.Background()
	ops := make([]weir.Op, 1, 2)
	var buf []byte
	tick := 0
	for i := range f.keys {
		now := start + int64(float64(last)*float64(i)/float64(f.keys))
		for ; int64(tick) <= (now-start)/1000; tick++ {
			for _, c := range wheel[tick] {
				clock.Store(max(c.next, clock.Load()))
				f.ask(t, s, l, c)
				c.next += c.every
				due(c)
			}
			wheel[tick] = nil
			if tick%1000 == 0 {
				s.sweeper.sweepPart(now, tick/1000%sweepRounds)
				s.sweeper.logFullness(now)
			}
		}
		clock.Store(max(now, clock.Load()))
		buf = fmt.Appendf(buf[:0], "flood %d", i)
		if i%16 == 0 {
			ops[0] = weir.Op{Key: string(buf), Limit: l, Cost: cost}
			if err := s.Take(ctx, ops); err != nil {
				t.Fatal(err)
			}
		} else if _, err := s.TakeOne(ctx, string(buf), l, cost); err != nil {
			t.Fatal(err)
		}
	}
	st = s.Stats()
	if st.Bytes > st.MaxBytes {
		t.Errorf("%d bytes are used, the bound is %d", st.Bytes, st.MaxBytes)
	}
	for _, c := range heavy {
		f.checkHeavy(t, l, c)
	}
	asked, passed := 0, 0
	for _, c := range clients[len(heavy):] {
		asked += c.asked
		passed += c.passed
	}
	return float64(asked-passed) / float64(asked), st
}

func (f flood) ask(t *testing.T, s *Store, l *weir.Limit, c *client) {
	d, err := s.TakeOne(context.Background(), c.key, l, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.asked++
	if !d.Allowed() {
		return
	}
	c.passed++
	if c.every == 1_000_000 {
		return
	}
	now := s.clock.now(0)
	c.at = append(c.at, now)
	if l.Traits()&weir.Stamps != 0 {
		// What passes in the sketch must pass in the exact state too.
		if d := l.Algorithm.Step(c.row, l, weir.Ask{Now: now, Cost: 1}); !d.Allowed() {
			t.Fatalf("%q passed, an exact store refuses it for %v", c.key, d.RetryAfter)
		}
	}
}

// checkHeavy asserts that a heavy client never had more than the limit's
// envelope in any period, and that one who was there before the flood had all
// that it may have.
func (f flood) checkHeavy(t *testing.T, l *weir.Limit, c *client) {
	t.Helper()
	period, from, most := micros.Of(l.Period), 0, 0
	for i, at := range c.at {
		for c.at[from] <= at-period {
			from++
		}
		most = max(most, i-from+1)
	}
	if int64(most) > l.Envelope {
		t.Errorf("%q passed %d times within %v, the envelope is %d", c.key, most, l.Period, l.Envelope)
	}
	if c.key == "heavy from the start" && int64(len(c.at)) < min(l.Count, int64(c.asked)) {
		t.Errorf("%q passed only %d times of %d", c.key, len(c.at), c.asked)
	}
}

func floodLimits(t *testing.T, period time.Duration) []*weir.Limit {
	var all []*weir.Limit
	for _, l := range []*weir.Limit{
		{Algorithm: algorithm.TokenBucket, Count: 100},
		{Name: "two words", Algorithm: algorithm.TokenBucket, Count: 7_000_003},
		{Algorithm: algorithm.SlidingWindow, Count: 100},
		{Algorithm: algorithm.FixedWindow, Count: 100},
		{Algorithm: algorithm.SlidingSubwindows, Count: 100},
	} {
		l.Period = period
		l.Scope = l.Algorithm.Name() + l.Name
		all = append(all, compile(t, l))
	}
	return all
}

// TestFlood pours as many keys for each byte of memory as the soak does.
func TestFlood(t *testing.T) {
	f := flood{maxBytes: MinBytes, keys: 195_000, last: time.Minute, honest: 40}
	limits := floodLimits(t, time.Minute)
	if testing.Short() {
		limits = limits[:2]
	}
	for _, l := range limits {
		refused, st := f.run(t, l)
		t.Logf("%s: %.2f %% of honest requests refused, %+v", l.Scope, 100*refused, st)
		if refused > 0.05 {
			t.Errorf("%s: %.2f %% of the honest clients' requests were refused", l.Scope, 100*refused)
		}
	}
}

// TestFloodSoak: 50 million keys through 256 MiB, and 10,000 honest clients of
// whose requests at most one in a hundred is refused.
func TestFloodSoak(t *testing.T) {
	if os.Getenv("WEIR_SOAK") == "" {
		t.Skip("takes minutes: set WEIR_SOAK=1")
	}
	f := flood{maxBytes: 256 << 20, keys: 50_000_000, last: time.Minute, honest: 10_000}
	for _, l := range floodLimits(t, time.Minute)[:3] {
		t.Run(l.Scope, func(t *testing.T) {
			debug.FreeOSMemory() // of the run before
			began := time.Now()
			refused, st := f.run(t, l)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%.3f %% of honest requests refused; %d MiB of Go memory, %s; %+v; took %v",
				100*refused, m.Sys>>20, resident(), st, time.Since(began).Round(time.Second))
			if refused > 0.01 {
				t.Errorf("%.2f %% of the honest clients' requests were refused", 100*refused)
			}
		})
	}
}

// resident returns what the kernel says of this process's memory, where it
// does.
func resident() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "resident size unknown"
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}

// TestOverflowReachesAsFarAsTheLimit: a sketch must count for at least as long as
// the limit does.
func TestOverflowReachesAsFarAsTheLimit(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		unit    params.Calendar
		period  time.Duration
		longest time.Duration // with the hour that a day gains in autumn
	}{
		{params.CalendarDay, day, day + time.Hour},
		{params.CalendarWeek, 7 * day, 7*day + time.Hour},
		{params.CalendarMonth, 28 * day, 31*day + time.Hour},
		{params.CalendarYear, 365 * day, 366*day + time.Hour},
	} {
		l := compile(t, &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Period: c.period,
			Params: params.Params{Anchor: params.AnchorCalendar, Calendar: c.unit}})
		if got := overflowKeyOf(l).reach; got < c.longest.Microseconds() {
			t.Errorf("calendar unit %d: the sketch counts for %d µs, a window lasts up to %v", c.unit, got, c.longest)
		}
	}
	minute := compile(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 100, Period: time.Minute})
	deep := compile(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 100, Period: time.Minute, Burst: 100_000})
	if overflowKeyOf(minute) == overflowKeyOf(deep) {
		t.Error("a bucket that takes a thousand minutes to fill shares stamps with one that takes one")
	}
}

// TestFamilyReachOfSketches compares how far the state of a limit reaches, by which
// limits share a sketch, with what the algorithm itself says when all is spent.
func TestFamilyReachOfSketches(t *testing.T) {
	numbers := []int64{1, 2, 3, 7, 59, 60, 1000, 7919, 1 << 20, 2_000_000, 1<<31 - 1, 1 << 40, 2_000_000_000_000, weir.MaxCost - 1, weir.MaxCost}
	periods := []time.Duration{1, 2, 7, 1000, 1e6, 6e7, 36e8, 864e8, 31_536e9, weir.MaxPeriod / time.Microsecond}
	tried := 0
	for _, a := range algorithm.All {
		for _, count := range numbers {
			for _, burst := range numbers {
				for _, period := range periods {
					l := &weir.Limit{Algorithm: a, Count: count, Period: period * time.Microsecond, Burst: burst}
					if l.Compile() != nil || !summable(l) || l.Cells == 0 {
						continue
					}
					tried++
					want := micros.Of(l.Period)
					if l.Traits()&weir.Stamps != 0 {
						cells := make([]int64, l.Cells)
						d := l.Algorithm.Step(cells, l, weir.Ask{Now: start, Cost: l.Burst})
						want = max(want, micros.Of(d.ResetAfter))
						if got := overflowKeyOf(l).reach; got != int64(bits.Len64(uint64(want))) {
							t.Errorf("%s, %d per %v, burst %d: reaches 2^%d µs, and is whole after %v", a.Name(), count, l.Period, l.Burst, got, d.ResetAfter)
						}
						continue
					}
					if got := overflowKeyOf(l).reach; got != want {
						t.Errorf("%s, %d per %v: reaches %d µs", a.Name(), count, l.Period, got)
					}
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d limits were tried", tried)
	}
}

// TestFullStoreSaysSo: decisions from a sketch carry it in their guarantee, the
// log has one line when it begins and one when it ends, and the memory of the
// sketch is given back.
func TestFullStoreSaysSo(t *testing.T) {
	var log bytes.Buffer
	s, clock := newStore(t, Options{MaxBytes: MinBytes, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	l := compile(t, &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: 2, Period: time.Minute})
	ctx := context.Background()
	estimated := 0
	for i := range 100_000 {
		d, err := s.TakeOne(ctx, fmt.Sprint(i), l, 1)
		if err != nil {
			t.Fatal(err)
		}
		if g := d.Guarantee(); g.Source == weir.FromSketch {
			estimated++
			if g.Exact || !g.Degraded {
				t.Fatalf("an estimate promises %+v", g)
			}
		}
		if i%100 == 0 {
			s.sweeper.logFullness(clock.Load())
		}
	}
	st := s.Stats()
	if estimated == 0 || st.Overflowed != uint64(estimated) || st.Overflows != 1 || st.OverflowBytes == 0 {
		t.Errorf("%d estimates, %+v", estimated, st)
	}
	clock.Add(10 * time.Minute.Microseconds())
	for range 3 {
		s.sweeper.logFullness(clock.Load())
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 2 {
		t.Errorf("%d log lines, want 2:\n%s", got, log.String())
	}
	if st := s.Stats(); st.Overflows != 0 || st.OverflowBytes != 0 {
		t.Errorf("the sketch is still there: %+v", st)
	}
	if d, _ := s.TakeOne(ctx, "new", l, 1); !d.Guarantee().Exact {
		t.Error("decided from a sketch though all others have expired")
	}
}

// TestPromotionRemembers: a key that was decided from a sketch goes on from its
// estimate when there is room for it again.
func TestPromotionRemembers(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.SlidingWindow, algorithm.FixedWindow,
		algorithm.SlidingLog, algorithm.SlidingSubwindows, algorithm.Lockout} {
		s, _ := newStore(t, Options{MaxBytes: MinBytes})
		ctx := context.Background()
		l := compile(t, &weir.Limit{Algorithm: a, Count: 3, Period: 1000 * time.Hour})
		spend := func(key string) weir.Decision {
			d, err := s.TakeOne(ctx, key, l, 1)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		var fillers []string
		for i := 0; ; i++ {
			key := fmt.Sprint("filler", i)
			if spend(key).Guarantee().Source == weir.FromSketch {
				break
			}
			fillers = append(fillers, key)
		}
		passed := 0
		var victims []string
		for i := 0; len(victims) < 20; i++ {
			key := fmt.Sprint("victim", i)
			if d := spend(key); d.Guarantee().Source == weir.FromSketch && d.Allowed() {
				victims = append(victims, key)
				if spend(key).Allowed() {
					passed++
				}
			}
		}
		for _, key := range fillers {
			if _, err := s.Forget(ctx, key, l); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range victims {
			n := 2
			for range 5 {
				if d := spend(key); d.Allowed() {
					n++
				} else if d.Guarantee().Source == weir.FromSketch {
					t.Fatalf("%s: there is room, and a sketch decides", a.Name())
				}
			}
			if n > 3 {
				t.Errorf("%s: %q passed %d times of 3", a.Name(), key, n)
			}
			if _, found, _ := s.Inspect(ctx, key, l); !found {
				t.Errorf("%s: %q has no row", a.Name(), key)
			}
		}
		if passed == 0 {
			t.Errorf("%s: no key passed twice in the sketch", a.Name())
		}
	}
}

// TestFullStoreRefusesLeases: what cannot be estimated is refused, and kept keys
// go on.
func TestFullStoreRefusesLeases(t *testing.T) {
	s, _ := newStore(t, Options{MaxBytes: MinBytes})
	l := compile(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: 4, Period: time.Hour})
	beside := compile(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 1 << 30, Period: time.Hour})
	ctx := context.Background()
	take := func(key string) []weir.Op {
		ops := []weir.Op{{Key: "beside", Limit: beside, Cost: 1}, {Key: key, Limit: l, Cost: 1, ID: 1}}
		if err := s.Take(ctx, ops); err != nil {
			t.Fatal(err)
		}
		return ops
	}
	for i := 0; ; i++ {
		ops := take(fmt.Sprint(i))
		if ops[0].Charged != ops[1].Charged {
			t.Fatal("charged in part")
		}
		if ops[1].Charged {
			continue
		}
		if d := ops[1].Decision; d.RetryAfter != fullRetry || !d.Guarantee().Degraded {
			t.Errorf("a new key in a full store is told %+v", d)
		}
		break
	}
	if !take("0")[1].Charged {
		t.Error("a lease that is held cannot be renewed in a full store")
	}
}

package redis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A changedStore has a limit that was changed from 10,000/hour to 100/minute, and a key that
// spent 9,000 of the hour.
type changedStore struct {
	*testing.T
	*Store
	r            *servertest.RedisServer
	hour, minute *weir.Limit
}

func newChangedStore(t *testing.T, a, b weir.Algorithm) *changedStore {
	r := servertest.Redis(t)
	c := &changedStore{t, openTold(t, "redis://"+r.Addr, nil), r, nil, nil}
	c.hour = &weir.Limit{Name: "changed", Algorithm: a, Count: 10_000, Period: time.Hour}
	c.minute = &weir.Limit{Name: "changed", Algorithm: b, Count: 100, Period: time.Minute}
	for _, l := range []*weir.Limit{c.hour, c.minute} {
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	c.take(weir.Op{Limit: c.hour, Cost: 9_000})
	return c
}

func (c *changedStore) take(ops ...weir.Op) weir.Decision {
	c.Helper()
	for i := range ops {
		ops[i].Key = "k"
	}
	if err := c.Take(c.Context(), ops); err != nil {
		c.Fatal(err)
	}
	return ops[0].Decision
}

func (c *changedStore) ttl(l *weir.Limit) int64 {
	c.Helper()
	name, err := c.Store.Name("k", l)
	if err != nil {
		c.Fatal(err)
	}
	return c.r.Do(c.T, "PTTL", name).(int64)
}

// The row of a changed limit lasts as long as that from which it was carried, which is kept
// no longer for that it is charged too.
func TestChangedRowsLastAsLong(t *testing.T) {
	t.Parallel()
	c := newChangedStore(t, algorithm.SlidingWindow, algorithm.FixedWindow)
	if d := c.take(weir.Op{Limit: c.minute, Cost: 1}); d.Allowed() {
		t.Errorf("9,000 of 10,000/hour are spent, and 1 of 100/minute passes: %s", d)
	}
	name, _ := c.Store.Name("k", c.hour)
	c.r.Do(t, "PEXPIRE", name, "1000000")
	c.take(weir.Op{Limit: c.minute, Cost: 50, Verb: weir.Force, Role: weir.Always})
	hour, minute := c.ttl(c.hour), c.ttl(c.minute)
	if math.Abs(float64(hour-minute)) > 1000 || hour > 1_000_000 || hour < 900_000 {
		t.Errorf("the hour's row lasts %d ms, the minute's %d", hour, minute)
	}
	if left := c.take(weir.Op{Limit: c.hour}).Remaining; left < 940 || left > 950 {
		t.Errorf("%d are left of the hour, want 950 less a part of a batch", left)
	}
}

// A key that is reset has nothing left of any version.
func TestForgetForgetsAllVersions(t *testing.T) {
	t.Parallel()
	c := newChangedStore(t, algorithm.SlidingWindow, algorithm.TokenBucket)
	c.take(weir.Op{Limit: c.minute, Cost: 1})
	if found, err := c.Forget(t.Context(), "k", c.minute); err != nil || !found {
		t.Error(found, err)
	}
	for _, l := range []*weir.Limit{c.minute, c.hour} {
		if left := c.take(weir.Op{Limit: l}).Remaining; left != l.Count {
			t.Errorf("%d are left of %d", left, l.Count)
		}
	}
}

// What is given back of a changed row down to nothing is not asked of the old row again.
func TestChangedRowThatCountsNothing(t *testing.T) {
	t.Parallel()
	for _, b := range []weir.Algorithm{algorithm.SlidingWindow, algorithm.FixedWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows, algorithm.TokenBucket} {
		c := newChangedStore(t, algorithm.FixedWindow, b)
		c.take(weir.Op{Limit: c.minute})
		c.take(weir.Op{Limit: c.minute, Cost: 1})
		c.take(weir.Op{Limit: c.minute, Cost: 9_000, Verb: weir.Refund, Role: weir.Always})
		if left := c.take(weir.Op{Limit: c.minute}).Remaining; left != 100 {
			t.Errorf("%s: %d are left of 100", b.Name(), left)
		}
	}
}

// An old row that no script of ours wrote is as if it were not there.
func TestChangedRowOfAnotherHand(t *testing.T) {
	t.Parallel()
	for _, a := range []weir.Algorithm{algorithm.SlidingWindow, algorithm.FixedWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows, algorithm.TokenBucket} {
		c := newChangedStore(t, a, algorithm.LeakyBucket)
		name, _ := c.Store.Name("k", c.hour)
		for _, set := range [][]string{{"SET", name, "not a row"}, {"SET", name, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}, {"SET", name, ""}, {"DEL", name}, {"RPUSH", name, "1"}} {
			c.r.Do(t, set...)
			if d := c.take(weir.Op{Limit: c.minute, Cost: 1}); !d.Allowed() {
				t.Errorf("%s, %q: %s", a.Name(), set, d)
			}
		}
	}
}

// Nor does a bucket's row beside another keep numbers that no script of ours wrote.
func TestChangedBucketOfAnotherHand(t *testing.T) {
	t.Parallel()
	for _, fill := range []byte{0, 0x7f, 0xff} {
		c := newChangedStore(t, algorithm.TokenBucket, algorithm.FixedWindow)
		name, _ := c.Store.Name("k", c.hour)
		row := bytes.Repeat([]byte{fill}, 28)
		copy(row, binary.BigEndian.AppendUint64(nil, math.Float64bits(1e18))) // else it owes nothing
		c.r.Do(t, "SET", name, string(row), "EX", "3600")
		if d := c.take(weir.Op{Limit: c.minute, Cost: 1, Verb: weir.Force, Role: weir.Always}); d.Remaining > 99 {
			t.Errorf("%x: %s", fill, d)
		}
		got := c.r.Do(t, "GET", name).(string)
		if price := math.Float64frombits(binary.BigEndian.Uint64([]byte(got)[16:])); price != 360_000 {
			t.Errorf("%x: the row says %v microseconds a unit, want 360,000", fill, price)
		}
		if left := c.take(weir.Op{Limit: c.hour}).Remaining; left > 9_999 {
			t.Errorf("%x: %d are left of the hour", fill, left)
		}
	}
}

// Whatever is spent and given back under versions of a limit in turn, each row counts it, or
// more: one that a larger count reads then, too.
func TestFamilyRowsBesideCountAll(t *testing.T) {
	t.Parallel()
	versions := []weir.Limit{
		{Algorithm: algorithm.SlidingWindow, Count: 20, Period: 24 * time.Hour},
		{Algorithm: algorithm.SlidingWindow, Count: 21, Period: 24 * time.Hour},
		{Algorithm: algorithm.SlidingWindow, Count: 34, Period: 24 * time.Hour},
		{Algorithm: algorithm.SlidingWindow, Count: 700, Period: 24 * time.Hour},
		{Algorithm: algorithm.SlidingCounter, Count: 30, Period: 24 * time.Hour},
		{Algorithm: algorithm.FixedWindow, Count: 100, Period: 365 * 24 * time.Hour},
		{Algorithm: algorithm.SlidingSubwindows, Count: 60, Period: 24 * time.Hour},
		{Algorithm: algorithm.TokenBucket, Count: 10, Period: 24 * time.Hour, Burst: 50},
		{Algorithm: algorithm.TokenBucket, Count: 100, Period: 24 * time.Hour, Burst: 20},
		{Algorithm: algorithm.TokenBucket, Count: 27, Period: 24 * time.Hour, Burst: 27},
	}
	for i := range versions {
		versions[i].Name = "versions"
		if err := versions[i].Compile(); err != nil {
			t.Fatal(err)
		}
	}
	most := &weir.Limit{Name: "versions", Algorithm: algorithm.SlidingWindow, Count: 5000, Period: 24 * time.Hour}
	if err := most.Compile(); err != nil {
		t.Fatal(err)
	}
	keys := 1000
	if os.Getenv("WEIR_SOAK") != "" {
		keys = 20_000
	}
	s := openTold(t, "redis://"+servertest.Redis(t).Addr, nil)
	r := rand.New(rand.NewPCG(seeds.Of(t), 5))
	for k := range keys {
		key, spent, steps := fmt.Sprint(k), int64(0), []string{}
		take := func(o weir.Op) weir.Op {
			o.Key = key
			ops := []weir.Op{o}
			if err := s.Take(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
			return ops[0]
		}
		var all []weir.Op
		for range 2 + r.IntN(16) {
			if n := len(all); n > 0 && r.IntN(3) == 0 { // a part of what was spent before
				o := &all[r.IntN(n)]
				// A full bucket is carried at most, so one unit back is room for one.
				if back := r.Int64N(o.Cost + 1); back > 0 && o.Limit.Algorithm != algorithm.TokenBucket {
					steps = append(steps, fmt.Sprintf("-%d of %d %s", back, o.Limit.Count, o.Limit.Algorithm.Name()))
					take(weir.Op{Limit: o.Limit, Cost: back, Verb: weir.Refund, Role: weir.Always, ID: []int64{0, o.Receipt()}[r.IntN(2)]})
					o.Cost, spent = o.Cost-back, spent-back
				}
				continue
			}
			l := &versions[r.IntN(len(versions))]
			if r.IntN(4) == 0 { // nor does an operator who looks change anything
				if _, _, err := s.Inspect(t.Context(), key, l); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if o := take(weir.Op{Limit: l, Cost: 1 + r.Int64N(min(l.Count, 40))}); o.Decision.Allowed() {
				steps = append(steps, fmt.Sprintf("%d of %d %s", o.Cost, l.Count, l.Algorithm.Name()))
				all, spent = append(all, o), spent+o.Cost
				if spent > max(l.Count, l.Burst) {
					t.Errorf("%d were spent, %s: %s", spent, key, strings.Join(steps, ", "))
				}
			}
		}
		if left := take(weir.Op{Limit: most, Verb: weir.Peek}).Decision.Remaining; left > most.Count-spent {
			t.Errorf("%d were spent, %d are left of %d: %s", spent, left, most.Count, strings.Join(steps, ", "))
		}
	}
}

// A counter whose row is narrow counts what is spent beside it, and has it when it is raised
// to a wide one.
func TestNarrowRowCountsWhatIsSpentBesideIt(t *testing.T) {
	t.Parallel()
	s := openTold(t, "redis://"+servertest.Redis(t).Addr, nil)
	limit := func(a weir.Algorithm, count int64, period time.Duration) *weir.Limit {
		l := &weir.Limit{Name: "narrow", Algorithm: a, Count: count, Period: period}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	narrow, wide := limit(algorithm.SlidingCounter, 100, time.Hour), limit(algorithm.SlidingCounter, 30_000_000, time.Hour)
	for i, other := range []*weir.Limit{limit(algorithm.FixedWindow, 1e9, 24*time.Hour), limit(algorithm.SlidingWindow, 1e9, 24*time.Hour), limit(algorithm.TokenBucket, 1e9, 24*time.Hour)} {
		for _, o := range []weir.Op{{Limit: narrow, Cost: 1}, {Limit: other, Cost: 60_000_000}, {Limit: wide, Cost: 1}} {
			o.Key = fmt.Sprint(i)
			ops := []weir.Op{o}
			if err := s.Take(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
			if d := ops[0].Decision; d.Allowed() != (o.Limit != wide) {
				t.Errorf("%s, %d of %d: %s", other.Algorithm.Name(), o.Cost, o.Limit.Count, d)
			}
		}
	}
}

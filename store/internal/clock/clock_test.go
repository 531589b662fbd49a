package clock_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/store/internal/clock"
)

// A bench is a node, its wall clock, and a store of several shards, by a true time
// that only the bench knows.
type bench struct {
	true, slept, wall int64 // microseconds
	shards            []int64
	*clock.Clock
}

func newBench(shards ...int64) *bench {
	b := &bench{true: 1001, wall: 1_700_000_000_000_000, shards: shards}
	b.Clock = clock.New(func() clock.Node { return clock.Node(b.true - b.slept) }, func() clock.Store { return clock.Store(b.true + b.wall) })
	b.Now() // the first look at the wall clock
	return b
}

func (b *bench) suspend(us int64) { b.true += us; b.slept += us }

func (b *bench) reported(shard int) clock.Store {
	return clock.Store(b.true + 1_700_000_000_000_000 + b.shards[shard])
}

// call asks a shard, which carries the call out between the two.
func (b *bench) call(shard int, before, after int64) {
	sent := b.Now()
	b.true += before
	reported := b.reported(shard)
	b.true += after
	b.Observe(shard, reported, sent)
}

func TestNodeTimeSaturates(t *testing.T) {
	for _, x := range []struct{ got, want clock.Node }{
		{clock.Node(5).Add(7), 12},
		{clock.Node(5).Add(math.MaxInt64), clock.Never - 1},
		{clock.Never.Add(1), clock.Never - 1},
		{clock.Node(-3).Add(5), 2},
		{clock.Node(1000).Expiry(512_000), 1000 + 512_000 - 1000 - 1},
		{clock.Node(1000).Expiry(0), 1000},
		{clock.Node(1000).Expiry(math.MaxInt64), 1000 + math.MaxInt64 - math.MaxInt64/512 - 1},
		{clock.Node(1000).ExpiryAt(50, 50), 1000},
		{clock.Node(1000).ExpiryAt(50, 20), 1000},
		{clock.Node(1000).ExpiryAt(50, 50+512_000), 1000 + 512_000 - 1000 - 1},
	} {
		if x.got != x.want {
			t.Errorf("%d, want %d", x.got, x.want)
		}
	}
}

// I2: whichever clocks drift, by 500 ppm each, what lives to its expiry has not ended
// on the store.
func TestExpiryOutlastsDrift(t *testing.T) {
	for _, life := range []int64{1, 511, 512, 10_000, 1_000_000, 86_400_000_000, 365 * 86_400_000_000} {
		for _, node := range []float64{1 - 500e-6, 1, 1 + 500e-6} {
			for _, store := range []float64{1 - 500e-6, 1, 1 + 500e-6} {
				spent := float64(clock.Node(0).Expiry(life)) / node * store // by the store's clock
				if spent >= float64(life) {
					t.Errorf("of %d microseconds %.0f have passed on the store, node %g, store %g", life, spent, node, store)
				}
			}
		}
	}
}

func TestSuspendIsNoticedByTheWallClock(t *testing.T) {
	b := newBench(0)
	first := b.Now()
	b.suspend(60_000_000)
	b.true += 1000 // a millisecond later at the latest
	if got := b.Now() - first; got != 60_001_000 || b.LostTime() != 60_000_000 {
		t.Errorf("%d have passed of 60,001,000, and %d were lost", got, b.LostTime())
	}
	b.true += 5000
	if b.Now(); b.LostTime() != 60_000_000 {
		t.Errorf("%d were lost, counted twice", b.LostTime())
	}
}

// Within a millisecond of node time the wall clock is not read.
func TestWallClockIsReadOnceAMillisecond(t *testing.T) {
	reads, now := 0, clock.Node(1)
	c := clock.New(func() clock.Node { return now }, func() clock.Store { reads++; return 0 })
	reads = 0
	for ; now <= 10_000; now++ {
		c.Now()
	}
	if reads != 10 {
		t.Errorf("%d readings in ten milliseconds", reads)
	}
}

// Where the wall clock stands still too, as in a paused virtual machine, the store's
// answer says so, and the wall clock does not say it again when it is mended.
func TestPauseIsNoticedByTheStore(t *testing.T) {
	b := newBench(77_000_000, -5_000_000)
	b.call(0, 300, 500)
	b.call(1, 300, 500)
	first := b.Now()
	b.suspend(3_000_000)
	b.wall -= 3_000_000
	b.call(1, 200, 200)
	if got := b.Now() - first; got < 3_000_000-1000 || got > 3_000_400 {
		t.Errorf("%d have passed, want nearly 3,000,400", got)
	}
	now := b.Now()
	if early, ok := b.Earliest(now); !ok || early > b.reported(1) || b.Latest(now) < b.reported(1) {
		t.Errorf("%d is not between %d and %d", b.reported(1), early, b.Latest(now))
	}
	lost := b.LostTime()
	b.call(0, 200, 200)
	b.wall += 3_000_000
	b.true += 2000
	b.Now()
	if b.LostTime() != lost {
		t.Errorf("%d were lost, %d before", b.LostTime(), lost)
	}
}

// Servers of one store may have clocks far apart, and their answers may be slow: no
// time is lost by that. Nor by a wall clock that is set back.
func TestNothingIsLostWhereNothingWas(t *testing.T) {
	b := newBench(0, 9_000_000, -9_000_000)
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		b.call(r.IntN(3), r.Int64N(900_000), r.Int64N(900_000))
		b.wall -= r.Int64N(1000)
		b.true += r.Int64N(100_000)
		b.Now()
	}
	if b.LostTime() != 0 {
		t.Errorf("%d were lost", b.LostTime())
	}
}

// A slow drift, and a wall clock that is set back, add up to nothing lost, and hide no
// loss of 150 ms after it.
func TestDriftHidesNoLoss(t *testing.T) {
	for _, drift := range []int64{-500, 500} {
		for _, paused := range []bool{false, true} {
			b := newBench(0)
			for range 10_000 {
				b.call(0, 1000, 1000)
				b.true += 1_000_000
				b.shards[0] += drift // ppm
				b.wall -= 500
			}
			if b.LostTime() != 0 {
				t.Fatalf("%d were lost", b.LostTime())
			}
			b.suspend(150_000)
			if paused {
				b.wall -= 150_000
				b.call(0, 1000, 1000)
			} else {
				b.true += 1000
				b.Now()
			}
			if b.LostTime() < 140_000 || b.LostTime() > 150_000 {
				t.Errorf("drift %d, paused %v: %d were noticed of 150,000", drift, paused, b.LostTime())
			}
		}
	}
}

// The store's time is between the two bounds, also after time was lost.
func TestBoundsHoldTheStoresTime(t *testing.T) {
	b := newBench(123_456)
	if _, ok := b.Earliest(b.Now()); ok {
		t.Error("the store's time is known before its first answer")
	}
	b.Observe(0, 0, 5)
	if _, ok := b.Earliest(b.Now()); ok {
		t.Error("an answer without a time told one")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 1000 {
		b.call(0, r.Int64N(50_000), r.Int64N(50_000))
		b.true += r.Int64N(2_000_000)
		if i%10 == 0 {
			b.suspend(1_000_000)
			b.true += 1000
			b.Now()
			if _, ok := b.Earliest(b.Now()); ok {
				t.Fatal("a bound was kept though the wall clock may have been set")
			}
		}
		now, want := b.Now(), b.reported(0)
		if early, ok := b.Earliest(now); ok && early > want || b.Latest(now) < want {
			t.Fatalf("%d is not between %d and %d", want, early, b.Latest(now))
		}
	}
}

func TestProcessClockGoesOn(t *testing.T) {
	c := clock.New(nil, nil)
	before := c.Now()
	for range 10_000_000 {
		if c.Now() > before+2000 {
			break
		}
	}
	if c.Now() <= before+2000 || c.LostTime() != 0 {
		t.Errorf("from %d to %d, %d were lost", before, c.Now(), c.LostTime())
	}
}

// A decision reads the clock without memory of its own.
func TestReadingAllocatesNothing(t *testing.T) {
	c := clock.New(nil, nil)
	if n := testing.AllocsPerRun(1000, func() { c.Observe(0, 1, c.Now()); c.Latest(c.Now()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

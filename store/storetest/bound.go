package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// RunBound attacks limits of every algorithm on one store that open returns: before and
// after edges, as soon as units are free, and at random. No span of a period may admit
// more units than the limit states, see [weir.Limit.Envelope]. The attack reaches that
// number: 100 a minute are 100 in the worst 60 seconds, no more and no fewer.
func RunBound(t *testing.T, open Open) {
	t.Helper()
	var clock atomic.Int64
	clock.Store(start)
	s := open(t, clock.Load)
	lives := 3
	if os.Getenv("WEIR_SOAK") == "1" {
		lives = 60
	}
	now := int64(1_700_000_040_000_000) // the start of a minute
	for i, l := range written(t) {
		if c, ok := s.(interface{ Check(*weir.Limit) error }); ok && c.Check(l) != nil {
			continue
		}
		for life := range lives {
			// Far enough from what the last one did, at the start of a period.
			now += 10 * micros.Of(l.Period)
			now -= now % micros.Of(l.Period)
			b := &burglar{t: t, s: s, l: l, set: clock.Store, now: now, key: fmt.Sprint("burglar ", i, life)}
			if life == 0 {
				b.edges()
			} else {
				b.roam(rand.New(rand.NewPCG(uint64(i), uint64(life))))
			}
			now = b.now
			if b.most > l.Envelope {
				t.Errorf("%s, %d per %s: %d units in one period, %d are stated", l.Algorithm.Name(), l.Count, l.Period, b.most, l.Envelope)
			}
			if life == 0 && (b.most < l.Envelope*9/10 || l.Algorithm == algorithm.SlidingWindow && b.most != l.Count) {
				t.Errorf("%s, %d per %s: the attack got %d units into one period, %d are stated", l.Algorithm.Name(), l.Count, l.Period,
					b.most, l.Envelope)
			}
		}
	}
}

// written are limits that state how many units any period sees.
func written(t testing.TB) []*weir.Limit {
	t.Helper()
	limit := func(a weir.Algorithm, count int64, period time.Duration, p params.Params) *weir.Limit {
		return &weir.Limit{Algorithm: a, Count: count, Period: period, Params: p}
	}
	all := []*weir.Limit{
		limit(algorithm.SlidingWindow, 100, time.Minute, params.Params{}),
		limit(algorithm.SlidingWindow, 1, time.Minute, params.Params{}),
		limit(algorithm.SlidingWindow, 5, time.Hour, params.Params{}),
		limit(algorithm.SlidingWindow, 1000, time.Second, params.Params{}),
		limit(algorithm.SlidingWindow, 1<<40, 24*time.Hour, params.Params{}),
		limit(algorithm.SlidingCounter, 100, time.Minute, params.Params{}),
		limit(algorithm.SlidingSubwindows, 100, time.Minute, params.Params{}),
		limit(algorithm.SlidingSubwindows, 100, time.Minute, params.Params{Form: params.Lenient}),
		limit(algorithm.SlidingLog, 50, time.Minute, params.Params{}),
		limit(algorithm.FixedWindow, 100, time.Minute, params.Params{}),
		limit(algorithm.FixedWindow, 100, time.Minute, params.Params{Anchor: params.AnchorFirst}),
		limit(algorithm.TokenBucket, 100, time.Minute, params.Params{}),
		limit(algorithm.LeakyBucket, 100, time.Minute, params.Params{}),
		limit(algorithm.LeakyQueue, 100, time.Minute, params.Params{}),
		limit(algorithm.Lockout, 10, time.Minute, params.Params{}),
		limit(algorithm.Approximate, 100, time.Minute, params.Params{}),
	}
	for i, l := range all {
		l.Name = fmt.Sprint("written ", i)
		l.Sketch = params.SketchOptions{Width: 1 << 12, Depth: 4, BloomBits: 1 << 16, BloomHashes: 4}
		compiled(t, l)
	}
	return all
}

// A burglar spends as much of one key as passes.
type burglar struct {
	t     *testing.T
	s     weir.Store
	l     *weir.Limit
	set   func(int64)
	now   int64
	key   string
	took  []taking
	most  int64
	retry int64
}

type taking struct{ at, units int64 }

// take tries to spend units, and counts what one period has then seen.
func (b *burglar) take(units int64) bool {
	b.set(b.now)
	d, err := b.s.TakeOne(context.Background(), b.key, b.l, max(units, 1))
	if err != nil {
		b.t.Fatal(err)
	}
	b.retry = micros.Of(max(d.RetryAfter, 0))
	if !d.Allowed() {
		return false
	}
	b.took = append(b.took, taking{b.now, max(units, 1)})
	first := b.now - micros.Of(b.l.Period)
	b.took = slices.DeleteFunc(b.took, func(x taking) bool { return x.at <= first })
	var sum int64
	for _, x := range b.took {
		sum += x.units
	}
	b.most = max(b.most, sum)
	return true
}

// all takes whatever is there, in ever smaller parts.
func (b *burglar) all() {
	for units := b.l.Count; units > 0; {
		if !b.take(units) {
			units /= 2
		}
	}
}

// edges takes all that it can just before an edge and just after it, of windows that
// begin when it likes too, and what becomes free meanwhile: twice the count of those
// that forget at an edge.
func (b *burglar) edges() {
	period := micros.Of(b.l.Period)
	for _, before := range []int64{1, period / 100, period / 2} {
		b.now += 4*period - b.now%period - before
		b.now = max(b.now, 0)
		b.all()
		b.now += before
		b.all()
		for range 20 {
			b.now += period / 20
			b.all()
		}
		b.now += period - 1
		b.all()
		// Half at the end of a sub-window, and whatever is free before it is a period old.
		b.now += 4*period - b.now%period - 1
		for units := b.l.Count / 2; units > 0 && !b.take(units); units /= 2 {
		}
		b.now += period / 2
		b.take(1)
		b.now += period - period/2 - 1
		b.all()
		// A window that begins with one unit, and ends when all are taken.
		b.now += 3 * period
		b.take(1)
		b.now += period - 1
		b.all()
		b.now++
		b.all()
		// What was spent at the end of a sub-window leaves with its beginning.
		b.now += 4*period - b.now%period - 1
		b.all()
		b.now += period - period/60 + 1
		b.all()
		b.now += period / 60
		b.all()
	}
}

// roam takes at random, and often as soon as something is free.
func (b *burglar) roam(r *rand.Rand) {
	period := micros.Of(b.l.Period)
	for range 150 {
		switch r.IntN(6) {
		case 0:
			b.all()
		case 1:
			b.take(1 + r.Int64N(b.l.Count))
		case 2:
			if !b.take(1 + r.Int64N(max(b.l.Count/8, 1))) {
				b.now += b.retry
				b.take(1)
			}
		case 3:
			b.now += r.Int64N(period/30 + 1)
		case 4:
			b.now += period/60 - b.now%(period/60) - r.Int64N(2)
		case 5:
			b.now += r.Int64N(period)
		}
	}
}

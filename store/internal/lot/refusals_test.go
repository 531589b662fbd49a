package lot

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/clock"
)

const second = 1_000_000

// I12: a refusal that is remembered is one that the store would still give, whoever else
// spends meanwhile, and it ends in a second.
func TestRememberedRefusalsAreStillGiven(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingLog, algorithm.SlidingSubwindows} {
		for _, orMore := range []bool{false, true} {
			r := rand.New(rand.NewPCG(7, 8))
			l := compiled(t, &weir.Limit{Algorithm: a, Count: 20, Period: 3 * time.Second})
			cells := make([]int64, l.Cells)
			memory := NewRefusals(1<<16, second)
			const base = 1_700_000_000_000_000
			now, refused := int64(0), map[int64]clock.Node{}
			recalled := 0
			for range 20_000 {
				now += r.Int64N(40_000)
				cost := 1 + r.Int64N(6)
				peek := func() weir.Decision {
					return l.Algorithm.Step(cells, l, weir.Ask{Now: base + now, Cost: cost, Verb: weir.Peek})
				}
				if d, ok := memory.Recall(1, l, cost, orMore, clock.Node(now)); ok {
					recalled++
					real := peek()
					if real.Allowed() {
						t.Fatalf("%s: a cost of %d is refused at %d, and would pass", a.Name(), cost, now)
					}
					if !orMore && now-int64(refused[cost]) > second {
						t.Fatalf("%s: a refusal was remembered for %d", a.Name(), now-int64(refused[cost]))
					}
					if d.Guarantee().Source != weir.FromCache || d.Allowed() || !orMore && d.RetryAfter > real.RetryAfter+50*time.Millisecond {
						t.Fatalf("%s: %+v, the store says %+v", a.Name(), d, real)
					}
					continue
				}
				sent := now
				now += r.Int64N(5000)
				d := l.Algorithm.Step(cells, l, weir.Ask{Now: base + now, Cost: cost})
				if !d.Allowed() {
					refused[cost] = clock.Node(sent)
				}
				// Another node spends while the answer is on its way.
				l.Algorithm.Step(cells, l, weir.Ask{Now: base + now, Cost: r.Int64N(3)})
				now += r.Int64N(5000)
				memory.LearnAnswer(1, l, cost, clock.Node(sent), d, second)
			}
			if recalled < 200 || memory.Recalled() != uint64(recalled) {
				t.Errorf("%s: %d recalled, %d counted", a.Name(), recalled, memory.Recalled())
			}
		}
	}
}

// The memory does what a map does that keeps the newest answer of each key.
func FuzzRefusals(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 5))
		limits := []*weir.Limit{named(t, "limit", 100, algorithm.FixedWindow), named(t, "limit", 200, algorithm.FixedWindow), named(t, "other", 100, algorithm.FixedWindow)}
		memory := NewRefusals(0, second) // one set a stripe
		type answer struct {
			limit                   *weir.Limit
			at                      clock.Node
			cost, until, retry, end int64
			left                    int64
		}
		oracle := map[uint64]answer{}
		now := int64(100_000)
		put := func(tag uint64, a answer) {
			old, ok := oracle[tag]
			if ok && (old.at > a.at || old.at == a.at && a.cost != -1 && (old.cost == -1 || old.limit == a.limit && a.left > old.left)) {
				return
			}
			oracle[tag] = a
		}
		for step := range 600 {
			now += r.Int64N(40_000)
			tag := []uint64{3, 3 + 64, 3 + 128, 9}[r.IntN(4)]
			l := limits[r.IntN(3)]
			cost := 1 + r.Int64N(4)
			switch r.IntN(5) {
			case 0, 1:
				sent := now - r.Int64N(3)*20_000
				retry := []int64{0, 0, r.Int64N(3 * second), -1}[r.IntN(4)]
				life := []int64{0, 100_000, 10 * second}[r.IntN(3)]
				d := weir.Decision{Limit: l, Remaining: r.Int64N(100), RetryAfter: time.Duration(retry) * time.Microsecond, ResetAfter: time.Second}
				if retry < 0 {
					d.RetryAfter = weir.Never
				}
				a := answer{limit: l, at: clock.Node(sent), left: d.Remaining, end: sent + second}
				if counts := r.IntN(3) == 0; counts {
					d.Limit = l.From(weir.FromCounts)
					if retry > 0 {
						life = min(life, retry/16)
					}
				}
				memory.LearnAnswer(tag, l, cost, clock.Node(sent), d, life)
				if life = min(life, second); retry != 0 && life > 0 {
					if retry > 0 {
						life = min(life, retry)
					}
					a.cost, a.retry, a.until = cost, sent+retry, sent+max(life-life/512-1, 0)
					if retry < 0 {
						a.retry = -1
					}
				}
				put(tag, a)
			case 2:
				if r.IntN(2) == 0 {
					memory.ForgetKey(tag, clock.Node(now))
					put(tag, answer{at: clock.Node(now), cost: -1, left: -1})
				} else {
					memory.ForgetRefunded(tag, l, clock.Node(now), weir.Decision{Remaining: 50, ResetAfter: time.Second})
					put(tag, answer{limit: l, at: clock.Node(now), cost: -1, left: 50, end: now + second})
				}
			default:
				orMore := r.IntN(2) == 0
				a, ok := oracle[tag]
				want := ok && a.limit == l && a.cost > 0 && (a.cost == cost || orMore && a.cost < cost) && now < a.until
				d, got := memory.Recall(tag, l, cost, orMore, clock.Node(now))
				if got != want {
					t.Fatalf("step %d: recalled %v of %+v at %d, cost %d", step, got, a, now, cost)
				}
				if got && (d.Remaining != a.left || a.retry >= 0 && d.RetryAfter.Microseconds() != a.retry-now || a.retry < 0 && d.RetryAfter != weir.Never ||
					d.ResetAfter.Microseconds() != max(a.end-now, 0) || d.Limit.ID() != l.ID() || d.Limit.Count != l.Count) {
					t.Fatalf("step %d: %+v of %+v at %d", step, d, a, now)
				}
				left, known := memory.KnownRemaining(tag, l, clock.Node(now))
				wantLeft := int64(0)
				wantKnown := ok && a.limit != nil && a.limit.ID() == l.ID() && a.left >= 0
				if wantKnown {
					if wantLeft = min(a.left, l.Burst); now >= a.end {
						wantLeft = l.Burst
					}
				}
				if known != wantKnown || left != wantLeft {
					t.Fatalf("step %d: %d, %v are known of %+v, want %d, %v", step, left, known, a, wantLeft, wantKnown)
				}
			}
		}
	})
}

// Of more keys than have room the one that was answered longest ago is forgotten, and the
// memory takes its bytes and no more.
func TestRefusalsAreBounded(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	memory := NewRefusals(100_000, second)
	d := weir.Decision{Limit: l, RetryAfter: time.Minute}
	for i := range uint64(100_000) {
		memory.LearnAnswer(i+1, l, 1, clock.Node(i), d, second)
	}
	cells := 0
	for i := range memory.stripes {
		cells += len(memory.stripes[i].sets)
	}
	found := 0
	for i := range uint64(100_000) {
		if _, ok := memory.Recall(i+1, l, 1, false, 100_000); ok {
			if found++; i < 90_000 {
				t.Errorf("key %d was kept before newer ones", i)
			}
		}
	}
	if bytes := cells * int(unsafe.Sizeof(refusal{})); bytes > 100_000 || bytes < 90_000 || found != cells {
		t.Errorf("%d of %d cells, %d bytes", found, cells, bytes)
	}
}

// A refusal ends at its instant, that of a region's counts at a sixteenth, and either
// by the margin of drift early.
func TestRefusalEndsAtItsInstant(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	for _, x := range []struct {
		source weir.Source
		life   clock.Node
	}{{weir.FromStore, 160_000 - 160_000/512 - 1}, {weir.FromCounts, 10_000 - 10_000/512 - 1}} {
		memory := NewRefusals(1000, second)
		memory.LearnAnswer(1, l, 5, 1000, weir.Decision{Limit: l.From(x.source), RetryAfter: 160 * time.Millisecond}, second)
		_, before := memory.Recall(1, l, 5, false, 1000+x.life-1)
		if _, after := memory.Recall(1, l, 5, false, 1000+x.life); !before || after {
			t.Errorf("%s: remembered %v before and %v at its end", x.source, before, after)
		}
	}
}

// A smaller cost that passes ends a refusal, as the larger one must then wait longer.
func TestPassingCostEndsARefusal(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	memory := NewRefusals(1000, second)
	memory.LearnAnswer(1, l, 5, 10, weir.Decision{Limit: l, Remaining: 3, RetryAfter: time.Minute}, second)
	memory.LearnAnswer(1, l, 1, 20, weir.Decision{Limit: l, Remaining: 2}, second)
	if _, ok := memory.Recall(1, l, 5, false, 30); ok {
		t.Error("it is still remembered")
	}
	if left, ok := memory.KnownRemaining(1, l, 30); !ok || left != 2 && left != l.Burst {
		t.Errorf("%d remain", left)
	}
}

func TestRecallAllocatesNothing(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	memory := NewRefusals(1000, second)
	memory.LearnAnswer(1, l, 5, 0, weir.Decision{Limit: l, RetryAfter: time.Minute}, second)
	if n := testing.AllocsPerRun(1000, func() {
		if d, ok := memory.Recall(1, l, 5, false, 10); !ok || d.Allowed() {
			t.Fatal("not recalled")
		}
		memory.Recall(2, l, 5, false, 10)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

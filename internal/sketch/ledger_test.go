package sketch_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

const second = int64(1_000_000)

func window(t testing.TB, o sketch.WindowOptions) *sketch.Window {
	t.Helper()
	w, err := sketch.NewWindow(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// roomy has so many cells that a few hundred keys never share all of theirs.
func roomy(period int64, subWindows int) sketch.WindowOptions {
	return sketch.WindowOptions{Period: period, SubWindows: subWindows, Depth: 4, Width: 1 << 12,
		BloomBits: 1 << 17, BloomHashes: 7, Shards: 4}
}

// crowded has so few cells that most keys are over-estimated.
func crowded(period int64, subWindows int) sketch.WindowOptions {
	return sketch.WindowOptions{Period: period, SubWindows: subWindows, Depth: 2, Width: 32,
		BloomBits: 512, BloomHashes: 3, Shards: 2, SampleEvery: 1}
}

// A ledger is the exact record of what each key was admitted, on the clock of the
// window: the latest time passed. The tests pass times shard by shard, so the
// ledger keeps one clock for each shard.
type ledger struct {
	w       *sketch.Window
	period  int64
	clock   map[int]int64
	entries map[uint64][]entry
}

type entry struct{ at, units int64 }

func newLedger(w *sketch.Window, period int64) *ledger {
	return &ledger{w: w, period: period, clock: map[int]int64{}, entries: map[uint64][]entry{}}
}

// tick tells the clock of h's shard and returns the window's time.
func (l *ledger) tick(h uint64, now int64) int64 {
	i := l.w.Index(h)
	if seen, ok := l.clock[i]; !ok || now > seen {
		l.clock[i] = now
	}
	return l.clock[i]
}

func (l *ledger) add(h uint64, now, units int64) {
	l.entries[h] = append(l.entries[h], entry{l.tick(h, now), units})
}

// used returns the units of h in the period (at-W, at].
func (l *ledger) used(h uint64, at int64) int64 {
	var units int64
	for i := len(l.entries[h]) - 1; i >= 0 && l.entries[h][i].at > at-l.period; i-- {
		units += l.entries[h][i].units
	}
	return units
}

// most returns the most units of h in any period of length W.
func (l *ledger) most(h uint64) int64 {
	var most, units int64
	first := 0
	for _, e := range l.entries[h] {
		units += e.units
		for l.entries[h][first].at <= e.at-l.period {
			units -= l.entries[h][first].units
			first++
		}
		most = max(most, units)
	}
	return most
}

// checkDecision holds what a decision says against what the window then does.
func checkDecision(t *testing.T, w *sketch.Window, h uint64, now, cost, limit int64, d sketch.Decision) {
	t.Helper()
	f := func(at, cost int64, want bool, why string) {
		t.Helper()
		if got := w.Peek(h, at, cost, limit).Allowed; got != want {
			t.Fatalf("%+v: cost %d at +%d: allowed %v, %s", d, cost, at-now, got, why)
		}
	}
	if d.Remaining > 0 {
		f(now, d.Remaining, true, "yet remaining")
	}
	f(now, d.Remaining+1, false, "yet above remaining")
	switch {
	case d.Allowed && d.RetryAfter != 0:
		t.Fatalf("%+v: allowed, with a wait", d)
	case !d.Allowed && cost > limit && d.RetryAfter != sketch.Never:
		t.Fatalf("%+v: cost %d can never pass a limit of %d", d, cost, limit)
	case !d.Allowed && cost <= limit:
		if d.RetryAfter <= 0 {
			t.Fatalf("%+v: refused, without a wait", d)
		}
		f(now+d.RetryAfter-1, cost, false, "before the wait is over")
		f(now+d.RetryAfter, cost, true, "after the wait")
	}
	if d.ResetAfter > 0 {
		if w.Estimate(h, now+d.ResetAfter-1) == 0 || w.Estimate(h, now+d.ResetAfter) != 0 {
			t.Fatalf("%+v: not reset then and not sooner", d)
		}
	} else if w.Estimate(h, now) != 0 {
		t.Fatalf("%+v: reset, with units left", d)
	}
}

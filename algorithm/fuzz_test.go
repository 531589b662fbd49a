package algorithm_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// invariants checks what holds for every decision of every algorithm.
func invariants(l *weir.Limit, a weir.Ask, most int64, d weir.Decision) error {
	// A lease that is held renews at its own cost, whatever the count.
	leases := l.Algorithm.Traits()&weir.Leases != 0
	switch {
	case d.Limit != l:
		return fmt.Errorf("%+v: decided by another limit", a)
	case d.Remaining < 0 || d.Remaining > most:
		return fmt.Errorf("%+v: remaining %d is not within 0 and %d", a, d.Remaining, most)
	case d.RetryAfter < 0 && d.RetryAfter != weir.Never:
		return fmt.Errorf("%+v: retry after %d", a, d.RetryAfter)
	case d.ResetAfter < 0:
		return fmt.Errorf("%+v: reset after %d", a, d.ResetAfter)
	case (a.Cost == 0 || a.Verb == weir.Refund && !leases) && !d.Allowed(): // no lease of that name
		return fmt.Errorf("%+v: refused", a)
	case a.Verb != weir.Refund && a.Cost > most && d.RetryAfter != weir.Never && !leases:
		return fmt.Errorf("%+v: a cost above %d has retry after %d", a, most, d.RetryAfter)
	case a.Verb == weir.Spend && a.Cost > 0 && d.Allowed() && d.ResetAfter == 0:
		return fmt.Errorf("%+v: spent and untouched", a)
	}
	return nil
}

// FuzzStep asks any algorithm anything at any time, near overflow above all.
func FuzzStep(f *testing.F) {
	script := func(words ...uint64) []byte {
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	for i := range algorithm.All {
		f.Add(uint8(i), int64(10), int64(time.Second), int64(0), uint8(0), script(1, 0, 10, 1<<60|1, 1<<61|5))
		f.Add(uint8(i), int64(weir.MaxCost), int64(weir.MaxPeriod), int64(weir.MaxCost), uint8(1),
			script(weir.MaxCost, 1<<62|weir.MaxCost, 1<<61|weir.MaxCost, 3<<61|7))
		f.Add(uint8(i), int64(10_000), int64(time.Microsecond), int64(1), uint8(2), script(1<<63|9_999, 3<<61|1, 1<<63))
	}
	f.Fuzz(func(t *testing.T, which uint8, count, period, burst int64, bits uint8, script []byte) {
		l := &weir.Limit{Algorithm: algorithm.All[int(which)%len(algorithm.All)], Count: count,
			Period: time.Duration(period), Burst: burst}
		l.Form = params.Form(bits & 3)
		l.Anchor = params.Anchor(bits >> 2 & 3)
		l.Precision = int(bits)
		l.Free = int64(bits >> 6)
		if l.Algorithm.Traits()&weir.Sketches != 0 || l.Compile() != nil || len(script) > 4096 {
			return
		}
		most := l.Count
		switch l.Algorithm.Name() {
		case "token_bucket", "leaky_bucket":
			most = l.Burst
		case "leaky_queue":
			most = newQueueOracle(l).(*bucketOracle).most
		}
		p := &player{l: l, cells: newRow(l), now: 1 << 50}
		latest := p.now
		for ; len(script) >= 8; script = script[8:] {
			// The word's top says what; its rest is the cost, and moves the clock.
			w := binary.LittleEndian.Uint64(script)
			a := weir.Ask{Verb: weir.Verb(w >> 61 & 3), Cost: int64(w & (1<<54 - 1)), ID: int64(w >> 54 & 127)}
			a.Cost = min(a.Cost, weir.MaxCost)
			switch w >> 59 & 3 {
			case 1:
				p.now += a.Cost % (1 << 48)
			case 2:
				p.now -= a.Cost % (1 << 48)
			case 3:
				p.now++
			}
			p.now = min(max(p.now, 0), 1<<51)
			a.Now, latest = p.now, max(latest, p.now)
			if g, ok := l.Algorithm.(weir.Grower); ok {
				if n := g.Room(p.cells, l, a); n < 1 || n > l.Cells {
					t.Fatalf("%+v: room for %d cells of %d", a, n, l.Cells)
				}
			}
			before := slices.Clone(p.cells)
			d := p.answer(a)
			if err := invariants(l, a, most, d); err != nil {
				t.Fatal(err)
			}
			changes := a.Cost > 0 && (a.Verb == weir.Force || a.Verb == weir.Refund || a.Verb == weir.Spend && d.Allowed())
			// A row from the future is brought down, see weir.Algorithm.
			mended := a.Now < latest && p.cells[0] < before[0]
			if !changes && !mended && !slices.Equal(before, p.cells[:len(before)]) {
				t.Fatalf("%+v changed the cells", a)
			}
			if a.Verb == weir.Spend && a.Cost > 0 && d.Allowed() && p.cells[0] <= a.Now<<weir.FractionBits {
				t.Fatalf("%+v: the row is over as soon as it was written", a)
			}
		}
	})
}

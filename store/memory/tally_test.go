package memory

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// A tally counts units and forgets them Period after the last: an algorithm
// whose rows may be of any length and that notices when a cell is lost. Its
// Remaining is the count.
type tally struct {
	cells int
	grows bool
}

func (a tally) Name() string { return "tally" }

func (a tally) Traits() weir.Traits { return 0 }

func (a tally) Prepare(l *weir.Limit) error {
	l.Cells, l.Layout = a.cells, "tally"
	return nil
}

const lost = -1 << 40

func (a tally) Step(cells []int64, l *weir.Limit, ask weir.Ask) weir.Decision {
	const mask = 1<<weir.FractionBits - 1
	count := cells[0] & mask
	if ask.Now<<weir.FractionBits >= cells[0] {
		count = 0
	}
	if count > 0 && !a.whole(cells, count) {
		return weir.Decision{Limit: l, Remaining: lost}
	}
	if ask.Cost == 0 || ask.Verb == weir.Peek {
		return weir.Decision{Limit: l, Remaining: count}
	}
	count = (count + ask.Cost) & mask
	cells[0] = (ask.Now+micros.Of(l.Period))<<weir.FractionBits | count
	for i := 1; i < a.used(count); i++ {
		cells[i] = mark(cells[0], i)
	}
	return weir.Decision{Limit: l, Remaining: count}
}

func (a tally) used(count int64) int {
	if a.grows {
		return min(int(count), a.cells)
	}
	return a.cells
}

func mark(stamp int64, i int) int64 { return stamp*31 + int64(i) }

func (a tally) whole(cells []int64, count int64) bool {
	for i := 1; i < a.used(count); i++ {
		if cells[i] != mark(cells[0], i) {
			return false
		}
	}
	return true
}

// growingTally is a tally whose rows grow with the count.
type growingTally struct{ tally }

func (a growingTally) Traits() weir.Traits { return weir.Grows }

func (a growingTally) Room(cells []int64, l *weir.Limit, ask weir.Ask) int {
	const mask = 1<<weir.FractionBits - 1
	count := cells[0] & mask
	if ask.Now<<weir.FractionBits >= cells[0] {
		count = 0
	}
	return max(a.used(count), a.used(count+ask.Cost), 1)
}

func compile(t testing.TB, l *weir.Limit) *weir.Limit {
	t.Helper()
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// tallies returns a limit for each way in which a row can be kept.
func tallies(t testing.TB) []*weir.Limit {
	var all []*weir.Limit
	for _, a := range []weir.Algorithm{tally{cells: 1}, tally{cells: 2}, tally{cells: 3}, tally{cells: 4},
		tally{cells: 5}, tally{cells: 34}, growingTally{tally{cells: 200, grows: true}}} {
		all = append(all, compile(t, &weir.Limit{Name: "tally", Algorithm: a, Count: 1, Period: time.Minute,
			Scope: string(rune('a' + len(all)))}))
	}
	return all
}

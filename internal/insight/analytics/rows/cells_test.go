package rows

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
)

// What is put together in any order is the same.
func TestCellsAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	one := func() *Cells {
		r := &event.Record{First: time.UnixMicro(rng.Int64N(1e9)), Outcome: []string{"allowed", "refused", "delayed", "odd"}[rng.IntN(4)], Count: rng.Int64N(9),
			Cost: rng.Int64N(100), Least: rng.Int64N(50), RetryMS: rng.Int64N(9) - 1, Every: 1, About: &event.About{Path: fmt.Sprint("/", rng.IntN(9))}}
		r.Last = r.First.Add(time.Duration(rng.IntN(1e6)) * time.Microsecond)
		return CellsOfRecord(r)
	}
	var rows []*Cells
	for range 20 {
		rows = append(rows, one())
	}
	sum := func() *Cells {
		c := NewCells()
		for _, r := range rows {
			c.AddRow(r)
		}
		return c
	}
	want := sum()
	for range 100 {
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		if got := sum(); *got != *want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
}

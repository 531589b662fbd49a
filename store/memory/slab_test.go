package memory

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// Chunks lose at most a hundredth of their memory to the rounding of the
// runtime, unless a row is as long as pages are.
func TestChunksFillTheirPages(t *testing.T) {
	for words := 1; words <= 20_000; words++ {
		n := rowsPerChunk(words)
		bytes := 8 * n * words
		if n < 1 || n > 1<<refRowBits || bytes > 4*max(chunkBytes, 8*words) {
			t.Fatalf("%d rows of %d words a chunk", n, words)
		}
		if 8*words >= pageBytes {
			continue
		}
		lost := (bytes+pageBytes-1)/pageBytes*pageBytes - bytes
		if lost*20 > bytes {
			t.Errorf("rows of %d words: a chunk of %d loses %d bytes of %d", words, n, lost, bytes)
		}
	}
}

// A row that grows has room for what is needed, and never more than a full one.
func TestRoundWords(t *testing.T) {
	l := weir.PerHour(500, algorithm.SlidingLog)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	steps := map[int]bool{}
	for need := 1; need <= l.Cells; need++ {
		words := roundWords(need, l)
		if words < need || words > l.Cells || need <= 502 && words > 502 || words > max(need+4, need+need/8) {
			t.Fatalf("%d cells needed: %d words", need, words)
		}
		steps[words] = true
	}
	if !steps[502] || !steps[l.Cells] || len(steps) > 150 {
		t.Errorf("%d lengths of rows", len(steps))
	}
	queue := &weir.Limit{Algorithm: algorithm.Concurrency, Count: 3, Period: time.Second}
	if err := queue.Compile(); err != nil {
		t.Fatal(err)
	}
	if words := roundWords(queue.Cells, queue); words != queue.Cells {
		t.Errorf("%d cells needed: %d words", queue.Cells, words)
	}
}

// A row that comes and goes alone, as that of one lease at a time does, takes no
// new memory each time; and when it stays away its memory is given back.
func TestLoneRowKeepsItsChunk(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	l := &weir.Limit{Algorithm: algorithm.Concurrency, Count: 3, Period: time.Minute}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	visit := func() {
		for _, v := range []weir.Verb{weir.Spend, weir.Refund} {
			ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, ID: 7, Verb: v, Role: weir.Always}}
			if err := s.Take(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
		}
	}
	empty := s.Stats().Bytes
	visit()
	if n := testing.AllocsPerRun(100, visit); n > 2 {
		t.Errorf("%v allocations for a lease that comes and goes", n)
	}
	round := func() {
		for part := range sweepRounds {
			s.sweep(s.now(), part)
		}
	}
	// The first may come to the row in its last parts, after which the chunk is
	// still spare.
	round()
	round()
	if got := s.Stats().Bytes; got != empty {
		t.Errorf("%d bytes are kept for nobody", got-empty)
	}
}

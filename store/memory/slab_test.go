package memory

import (
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

// Chunks lose few bytes a row to the rounding of the runtime, while there are few
// rows a hundredth where these are a few bytes longer than whole pages. The first ones
// may lose more.
func TestChunksFillTheirPages(t *testing.T) {
	for words := 1; words <= 20_000; words++ {
		for _, before := range []int{0, 100, 1 << 20} {
			n := rowsPerChunk(words, before)
			bytes := 8 * n * words
			most := 4 * max(chunkBytes, 8*words)
			most = max(most, min(maxChunkBytes, before*words), min(largeChunkBytes, before*words/32))
			if n < 1 || n > 1<<refRowBits || bytes > most {
				t.Fatalf("%d rows of %d words a chunk after %d", n, words, before)
			}
			loss := -bytes & (pageBytes - 1) / n
			switch most = 8 * words / 20; {
			case before > 1000 && words < 5000:
				most = 2 * pageLoss
			case before > 1000:
				most = 8 * words / 400
			case 8*words > pageBytes:
				continue
			}
			if loss > max(most, pageLoss) {
				t.Errorf("rows of %d words: of a chunk of %d after %d each loses %d bytes", words, n, before, loss)
			}
		}
	}
	// Full logs of common limits.
	for _, words := range []int{12, 52, 102, 502, 1002, 1026, 2002, 2050, 4098} {
		n := rowsPerChunk(words, 1<<20)
		if loss := -8 * n * words & (pageBytes - 1) / n; loss > pageLoss {
			t.Errorf("rows of %d words: of a chunk of %d each loses %d bytes", words, n, loss)
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

// Long rows stand in chunks that are larger the more of them there are, and those
// that stay after a peak gather in the first.
func TestLongRowsGather(t *testing.T) {
	s, clock := newStore(t, Options{MaxBytes: 1 << 30})
	l := compile(t, &weir.Limit{Algorithm: algorithm.SlidingLog, Count: 1000, Period: time.Hour})
	spend := func(k int, cost, left int64) {
		d, err := s.TakeOne(t.Context(), strconv.Itoa(k), l, cost)
		if err != nil || !d.Allowed() || d.Remaining != left {
			t.Fatalf("key %d: %+v, want %d left (%v)", k, d, left, err)
		}
	}
	const keys, stay = 2000, 40
	for k := range keys {
		spend(k, 1000, 0)
	}
	clock.Add(micros.Of(l.Period) / 2)
	for k := 0; k < keys; k += keys / stay {
		// All but one unit of these count for another half of the period.
		ops := []weir.Op{{Key: strconv.Itoa(k), Limit: l, Cost: 999, Verb: weir.Refund, Role: weir.Always}}
		if err := s.Take(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		spend(k, 999, 0)
	}
	index := s.tables.tableFor(l).slabs.index.Load()
	chunks := *index.all[index.byWords[1002]].chunks.Load()
	first, last := chunks[0], chunks[len(chunks)-1]
	if first.rows >= last.rows || last.before != keys-last.used {
		t.Errorf("%d rows in the first chunk, %d in the last, %d before it", first.rows, last.rows, last.before)
	}
	peak := s.Stats().Bytes
	clock.Add(micros.Of(l.Period)/2 + 1)
	for range 2 {
		for part := range sweepRounds {
			s.sweeper.sweepPart(clock.Load(), part)
		}
	}
	if st := s.Stats(); st.Keys != stay || st.Bytes > peak/20 {
		t.Errorf("%d keys in %d bytes after a peak of %d", st.Keys, st.Bytes, peak)
	}
	if got := walk(t, s); got != s.Stats().Bytes {
		t.Errorf("%d bytes are accounted for, %d are there", s.Stats().Bytes, got)
	}
	for k := 0; k < keys; k += keys / stay {
		spend(k, 1, 0)
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
			s.sweeper.sweepPart(s.clock.now(0), part)
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

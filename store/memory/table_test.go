package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/testing/bubble"
)

// start is some instant in 2026.
const start = 1_773_500_966_535_897

// newStore returns a store on a virtual clock that does its background work when
// told to.
func newStore(t testing.TB, o Options) (*Store, *atomic.Int64) {
	t.Helper()
	clock := new(atomic.Int64)
	clock.Store(start)
	o.Now = clock.Load
	s := newIdle(o)
	t.Cleanup(func() { s.Close() })
	return s, clock
}

// An entry is what the oracle knows of a key.
type entry struct{ count, until int64 }

func (e *entry) spend(now int64, l *weir.Limit) int64 {
	if now > e.until { // the low bits of a stamp are the count
		e.count = 0
	}
	e.count++
	e.until = now + micros.Of(l.Period)
	return e.count
}

// TestTableAgainstMap runs a table through growth, churn, expiry and shrinking,
// and compares every answer with that of a map.
func TestTableAgainstMap(t *testing.T) {
	for _, l := range tallies(t) {
		t.Run(fmt.Sprint(l.Algorithm), func(t *testing.T) {
			s, clock := newStore(t, Options{MaxBytes: 1 << 30})
			r := rand.New(rand.NewPCG(1, uint64(l.Cells)))
			oracle := map[int]*entry{}
			ctx := context.Background()
			spend := func(k int) {
				e := oracle[k]
				if e == nil {
					e = &entry{}
					oracle[k] = e
				}
				want := e.spend(clock.Load(), l) & (1<<weir.FractionBits - 1)
				d, err := s.TakeOne(ctx, "key"+strconv.Itoa(k), l, 1)
				if err != nil || d.Remaining != want {
					t.Fatalf("key %d counts %d, want %d (%v)", k, d.Remaining, want, err)
				}
			}
			keys := 50_000
			if l.Cells > 4 {
				keys = 10_000
			}
			rounds := 3
			if testing.Short() {
				rounds = 2
			}
			for round := range rounds {
				for range 2 * keys {
					spend(r.IntN(keys))
				}
				grown := s.Stats()
				clock.Add(time.Hour.Microseconds())
				// Some keys stay, at ever other places.
				for k := range keys / 20 {
					spend(k * 20)
				}
				for range 12 {
					for part := range sweepRounds {
						s.sweeper.sweepPart(clock.Load(), part)
					}
				}
				st := s.Stats()
				if st.Keys != int64(keys/20) {
					t.Errorf("round %d: %d keys after the sweep, want %d", round, st.Keys, keys/20)
				}
				if st.Bytes > grown.Bytes/4 || st.Shrinks == 0 {
					t.Errorf("round %d: %d bytes after the peak of %d, %d shrinks", round, st.Bytes, grown.Bytes, st.Shrinks)
				}
				for k := range keys / 20 {
					spend(k * 20)
				}
			}
			if got := walk(t, s); got != s.Stats().Bytes {
				t.Errorf("%d bytes are accounted for, %d are there", s.Stats().Bytes, got)
			}
		})
	}
}

// walk checks the invariants of every segment and returns the bytes of all.
func walk(t *testing.T, s *Store) (bytes int64) {
	t.Helper()
	for _, tab := range s.tables.bySize[1:] {
		for i := range tab.tops {
			bytes += directoryBytes(len(tab.tops[i].directory.Load().segments))
		}
		tab.eachSegment(func(g *segment) {
			bytes += segmentBytes + int64(8*cap(g.cells))
			used := 0
			for at := 0; at < len(g.cells); at += tab.words {
				tag := uint64(g.cells[at])
				if tag == 0 {
					for _, c := range g.cellsAt(at) {
						if c != 0 {
							t.Fatalf("an empty row holds %d", c)
						}
					}
					continue
				}
				used++
				if p, found := g.findRow(tag); !found || p != at || !g.coversTag(tag) {
					t.Fatalf("the row at %d cannot be found: %d %v", at, p, found)
				}
			}
			if used != int(g.used) || used > g.maxRows() {
				t.Fatalf("%d rows in use, %d counted, limit %d", used, g.used, g.maxRows())
			}
		})
		if tab.slabs != nil {
			for _, sl := range tab.slabs.index.Load().all {
				kept, used, before := 0, 0, 0
				for _, c := range *sl.chunks.Load() {
					bytes += int64(8 * len(c.cells))
					if c.before != before || c.cells != nil && len(c.cells) != c.rows*sl.words {
						t.Fatalf("a chunk after %d rows: %d before it, %d in %d cells", before, c.before, c.rows, len(c.cells))
					}
					kept += len(c.cells) / sl.words
					used += c.used
					before += c.rows
				}
				if kept != sl.kept || used != sl.used {
					t.Fatalf("%d rows of %d in use, counted %d of %d", used, kept, sl.used, sl.kept)
				}
			}
		}
	}
	for i := range s.tables.arena.spares {
		bytes += int64(len(s.tables.arena.spares[i].free) * narrow[i])
	}
	return bytes + s.sketches.bytes.Load()
}

// TestTableConcurrently: workers with keys of their own see their own spends and
// nothing else, while segments split, shrink and merge, and expired rows are
// given to others.
func TestTableConcurrently(t *testing.T) {
	for _, l := range tallies(t) {
		s, clock := newStore(t, Options{MaxBytes: 1 << 30})
		sweeps := make(chan int)
		var sweeper, workers sync.WaitGroup
		sweeper.Go(func() {
			for part := range sweeps {
				s.sweeper.sweepPart(clock.Load(), part)
				s.Stats()
			}
		})
		for w := range 4 {
			workers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(w), 2))
				mine := map[int]*entry{}
				ops := make([]weir.Op, 3)
				for n := range 4000 {
					// Half of the keys expire between two uses.
					clock.Add(10_000)
					if n%50 == 0 {
						sweeps <- n / 50 % sweepRounds
					}
					for i := range ops {
						k := (r.IntN(1000)+1000*i)*4 + w
						if mine[k] == nil {
							mine[k] = &entry{}
						}
						ops[i] = weir.Op{Key: strconv.Itoa(k), Limit: l, Cost: 1, ID: int64(k)}
					}
					if err := s.Take(context.Background(), ops); err != nil {
						t.Error(err)
						return
					}
					for i := range ops {
						e := mine[int(ops[i].ID)]
						if ops[i].Decision.Remaining == 1 && e.until <= clock.Load() {
							// It expired between reading the clock and deciding, and was
							// dropped.
							e.count = 0
						}
						if want := e.spend(ops[i].Now, l) & (1<<weir.FractionBits - 1); ops[i].Decision.Remaining != want {
							t.Errorf("%v: key %s counts %d, want %d", l.Algorithm, ops[i].Key, ops[i].Decision.Remaining, want)
							return
						}
					}
				}
			})
		}
		workers.Wait()
		close(sweeps)
		sweeper.Wait()
		if got := walk(t, s); got != s.Stats().Bytes {
			t.Errorf("%v: %d bytes are accounted for, %d are there", l.Algorithm, s.Stats().Bytes, got)
		}
		if st := s.Stats(); st.Reused == 0 && l.Cells < 5 {
			t.Errorf("%v: no row was reused: %+v", l.Algorithm, st)
		}
	}
}

// TestMergesBackToOneSegment: what a peak has split is one again when its keys
// are gone, and those that stayed are still there.
func TestMergesBackToOneSegment(t *testing.T) {
	for _, l := range tallies(t)[3:5] {
		s, clock := newStore(t, Options{MaxBytes: 1 << 30})
		ctx := context.Background()
		spend := func(k int, want int64) {
			if d, err := s.TakeOne(ctx, strconv.Itoa(k), l, 1); err != nil || d.Remaining != want {
				t.Fatalf("%v: key %d counts %d, want %d (%v)", l.Algorithm, k, d.Remaining, want, err)
			}
		}
		const keys, stay = 150_000, 500
		for k := range keys {
			spend(k, 1)
		}
		deepest := uint8(0)
		tab := s.tables.tableFor(l)
		for i := range tab.tops {
			deepest = max(deepest, tab.tops[i].directory.Load().depth)
		}
		if deepest < 2 {
			t.Fatalf("%v: %d keys made a directory of depth %d only", l.Algorithm, keys, deepest)
		}
		clock.Add(micros.Of(l.Period) / 2)
		for k := range stay {
			spend(k, 2)
		}
		clock.Add(micros.Of(l.Period)/2 + 1)
		for part := range sweepRounds {
			s.sweeper.sweepPart(clock.Load(), part)
		}
		for i := range tab.tops {
			if d := tab.tops[i].directory.Load(); d.depth != 0 {
				t.Errorf("%v: top %d still has %d segments", l.Algorithm, i, len(d.segments))
			}
		}
		for k := range stay {
			spend(k, 3)
		}
		walk(t, s)
	}
}

// TestShrinksWithinMinutes: the background work does without being told, and
// ends with the store.
func TestShrinksWithinMinutes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := New(Options{})
		empty := s.Stats().Bytes
		for _, l := range tallies(t) {
			for i := range 3000 {
				if _, err := s.TakeOne(context.Background(), strconv.Itoa(i), l, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		full := s.Stats()
		time.Sleep(3 * time.Minute)
		if st := s.Stats(); st.Keys != 0 || st.Bytes > empty+(full.Bytes-empty)/20 {
			t.Errorf("%d keys in %d bytes three minutes after a peak of %d; empty it was %d", st.Keys, st.Bytes, full.Bytes, empty)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestNoTraceOfRefusedKeys: keys that spend nothing take no room.
func TestNoTraceOfRefusedKeys(t *testing.T) {
	s, _ := newStore(t, Options{})
	before := s.Stats()
	for _, l := range tallies(t) {
		for i := range 500 {
			key := strconv.Itoa(i)
			if _, err := s.TakeOne(context.Background(), key, l, 0); err != nil {
				t.Fatal(err)
			}
			ops := []weir.Op{{Key: key, Limit: l, Cost: 1, Verb: weir.Peek}, {Key: key, Limit: l, Cost: 0}}
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		s.tables.bySize[maxDirect+1].slabs.dropSpare()
	}
	after := s.Stats()
	if after.Keys != 0 {
		t.Errorf("%d keys are kept that were only looked at", after.Keys)
	}
	if grown := after.Bytes - before.Bytes; grown > 0 {
		t.Errorf("looking took %d bytes", grown)
	}
	if got := walk(t, s); got != after.Bytes {
		t.Errorf("%d bytes are accounted for, %d are there", after.Bytes, got)
	}
}

// TestManyOpsOnOneKey: a key asked for again and again in one request needs one
// row.
func TestManyOpsOnOneKey(t *testing.T) {
	s, _ := newStore(t, Options{MaxBytes: MinBytes})
	for _, l := range tallies(t) {
		ops := make([]weir.Op, 1800)
		for i := range ops {
			ops[i] = weir.Op{Key: "k", Limit: l, Cost: 1}
		}
		if err := s.Take(context.Background(), ops); err != nil {
			t.Fatal(err)
		}
		for i := range ops {
			if got := ops[i].Decision.Remaining; got != int64(i+1) {
				t.Fatalf("%v: op %d counts %d", l.Algorithm, i, got)
			}
		}
	}
	if st := s.Stats(); st.Splits != 0 || st.Keys != int64(len(tallies(t))) {
		t.Errorf("%+v", st)
	}
}

func TestInspectAndForget(t *testing.T) {
	ctx := context.Background()
	s, clock := newStore(t, Options{})
	for _, l := range tallies(t) {
		if _, found, err := s.Inspect(ctx, "k", l); found || err != nil {
			t.Errorf("%v: a key never seen is found (%v)", l.Algorithm, err)
		}
		for range 3 {
			if _, err := s.TakeOne(ctx, "k", l, 1); err != nil {
				t.Fatal(err)
			}
		}
		cells, found, err := s.Inspect(ctx, "k", l)
		if err != nil || !found || cells[0] != (clock.Load()+micros.Of(l.Period))<<weir.FractionBits|3 {
			t.Errorf("%v: inspected %v %v %v", l.Algorithm, cells, found, err)
		}
		for _, want := range []bool{true, false} {
			if found, err := s.Forget(ctx, "k", l); found != want || err != nil {
				t.Errorf("%v: forgot %v, want %v (%v)", l.Algorithm, found, want, err)
			}
		}
		if d, _ := s.TakeOne(ctx, "k", l, 1); d.Remaining != 1 {
			t.Errorf("%v: counts %d after it was forgotten", l.Algorithm, d.Remaining)
		}
	}
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	ctx := context.Background()
	s := New(Options{})
	defer s.Close()
	for _, l := range tallies(t) {
		one := func() {
			if _, err := s.TakeOne(ctx, "user:123", l, 1); err != nil {
				t.Fatal(err)
			}
		}
		one()
		if n := testing.AllocsPerRun(1000, one); n != 0 && l.Cells <= 4 {
			t.Errorf("%v: TakeOne allocates %v times", l.Algorithm, n)
		}
		for _, n := range []int{1, 2, smallCall} {
			ops := make([]weir.Op, n)
			keys := make([]string, n)
			for i := range keys {
				keys[i] = "user:" + strconv.Itoa(i)
			}
			many := func() {
				for i := range ops {
					ops[i] = weir.Op{Key: keys[i], Limit: l, Cost: 1, Headroom: 1}
				}
				if err := s.Take(ctx, ops); err != nil {
					t.Fatal(err)
				}
			}
			many()
			if allocs := testing.AllocsPerRun(1000, many); allocs != 0 && l.Cells <= 4 {
				t.Errorf("%v: Take of %d ops allocates %v times", l.Algorithm, n, allocs)
			}
		}
	}
}

package lot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/clock"
)

func clockNode(n int64) clock.Node { return clock.Node(n) }

// A model is a table of one shard as a plain list, the one that was used last at the end.
type model struct {
	key    string
	used   clock.Node
	life   int64
	pinned bool
}

// The table does what a plain list does: finds, makes, keeps in order, evicts the one
// that was used longest ago if it may leave, and sweeps what is idle.
func FuzzTable(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := named(t, "limit", 100, algorithm.FixedWindow)
		tb := NewTable(64<<20, NewReturns(1<<20, func() {}))
		var keys []string // all of one shard
		for i := 0; len(keys) < 12; i++ {
			if key := fmt.Sprint(strings.Repeat("k", i%5), i); tb.TagForKey(key, l)%shards == 5 {
				keys = append(keys, key)
			}
		}
		g := &tb.shards[5]
		tb.max = 6*entryBytes + 40
		var list []*model
		now := clock.Node(0)
		bytes := func() (n int64) {
			for _, m := range list {
				n += entryBytes + int64(len(m.key))
			}
			return n
		}
		find := func(key string) int { return slices.IndexFunc(list, func(m *model) bool { return m.key == key }) }
		for step := range 400 {
			now += clock.Node(1 + r.Int64N(100_000))
			key := keys[r.IntN(len(keys))]
			tag, i := tb.TagForKey(key, l), find(key)
			switch r.IntN(6) {
			case 0, 1:
				e := g.AddEntry(tag, key, l, 0, now)
				for room := int64(len(key)) + entryBytes; i < 0 && bytes()+room > tb.max && !list[0].pinned; {
					list = list[1:]
				}
				ok := i >= 0 || bytes()+int64(len(key))+entryBytes <= tb.max
				if (e != nil) != ok || e != nil && e.Key() != key {
					t.Fatalf("step %d: added %v, want %v", step, e != nil, ok)
				}
				if i < 0 && ok {
					list = append(list, &model{key: key, used: now})
				}
			case 2:
				if e := g.GetEntry(tag, key); e != nil {
					life := r.Int64N(300_000) << r.IntN(10)
					g.KeepEntry(e, life, now)
					m := list[i]
					list = append(slices.Delete(list, i, i+1), m)
					m.used, m.life = now, life
				}
			case 3:
				if e := g.GetEntry(tag, key); e != nil {
					g.TouchEntry(e, now)
					if m := list[i]; int64(now-m.used) >= max(4000, m.life/32) {
						list = append(slices.Delete(list, i, i+1), m)
						m.used = now
					}
				}
			case 4:
				if e := g.GetEntry(tag, key); e != nil {
					list[i].pinned = r.IntN(4) == 0
					e.Pinned = list[i].pinned
				}
			case 5:
				if r.IntN(4) > 0 {
					continue
				}
				tb.SweepIdle(now)
				// Of each order of use those before the first that stays.
				stays := [lives]bool{}
				list = slices.DeleteFunc(list, func(m *model) bool {
					order := 0
					for s := m.life / 1_000_000; s > 0 && order < lives-1; s /= 2 {
						order++
					}
					stays[order] = stays[order] || int64(now-m.used) < m.life || m.pinned
					return !stays[order]
				})
			}
			for _, key := range keys {
				if e := g.GetEntry(tb.TagForKey(key, l), key); (e != nil) != (find(key) >= 0) {
					t.Fatalf("step %d: %q is there: %v", step, key, e != nil)
				}
			}
			if g.bytes != bytes() || g.bytes > tb.max {
				t.Fatalf("step %d: %d bytes, want %d of %d", step, g.bytes, bytes(), tb.max)
			}
			if n, _, _ := tb.CountHeld(); n != len(list) {
				t.Fatalf("step %d: %d keys, want %d", step, n, len(list))
			}
		}
	})
}

// I15: of many keys few are held, and what the others held waits, within both bounds.
func TestTableIsBoundedAndLosesNothing(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	sent := uint64(0)
	var back *Returns
	send := func() {
		for some := back.TakeDue(0, 0); some != nil; some = back.TakeDue(0, 0) {
			back.FinishCall(some, 0, Accepted)
			sent += uint64(len(some))
		}
	}
	back = NewReturns(20_000, func() {})
	tb := NewTable(1<<20, back)
	const keys = 20_000
	refused := 0
	for i := range keys {
		key := fmt.Sprint("key ", i)
		g := tb.ShardOfTag(tb.TagForKey(key, l))
		g.Lock()
		e := g.AddEntry(tb.TagForKey(key, l), key, l, 100, clock.Node(i))
		if e == nil {
			refused++
		} else {
			e.AdoptLot(Lot{ID: 1, Limit: l, Fetched: 3, Free: 3, Expiry: clock.Never}, 2)
		}
		g.Unlock()
		if i%400 == 0 {
			send()
		}
	}
	n, units, held := tb.CountHeld()
	if n > 1<<20/350 || n < 1000 || units != int64(n)*3 || held > 1<<20 || held < int64(n)*100 {
		t.Errorf("%d keys with %d units are held in %d bytes of a megabyte", n, units, held)
	}
	send()
	tb.DrainEntries(send)
	if n, _, bytes := tb.CountHeld(); n != 0 || bytes != 0 || back.Stranded.Load() != 0 || sent != uint64(keys-refused) || back.Returned.Load() != sent*3 || refused == 0 {
		t.Errorf("%d keys are left, %d were given back of %d, %d were refused", n, sent, keys-refused, refused)
	}
	for i := range tb.shards {
		if tb.shards[i].bytes != 0 {
			t.Errorf("%d bytes are taken by nothing", tb.shards[i].bytes)
		}
	}
}

// Two keys with one tag do not share an entry.
func TestTagsMayCollide(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	tb := NewTable(1<<20, NewReturns(1<<20, func() {}))
	g := tb.ShardOfTag(7)
	if e := g.AddEntry(7, "a", l, 0, 0); e == nil || g.GetEntry(7, "a") != e || g.AddEntry(7, "a", l, 0, 0) != e {
		t.Error("an entry is not found again")
	}
	if g.GetEntry(7, "b") != nil || g.AddEntry(7, "b", l, 0, 0) != nil {
		t.Error("another key got the entry")
	}
	if tb.TagForKey("a", l) == tb.TagForKey("a", named(t, "other", 100, algorithm.FixedWindow)) {
		t.Error("the counters of two limits have one tag")
	}
}

// An entry with a call under way stays, also when it is idle.
func TestEntryWithAFlightStays(t *testing.T) {
	b := newBench(t, algorithm.FixedWindow)
	b.LaunchFlight(t.Context(), func(func()) bool { return true }, nil)
	b.AdoptLot(b.lot(100, 4, 1000), 2)
	b.SweepIdle(clock.Never)
	b.took()
	if b.Flight = nil; b.ShardOfTag(b.tag).GetEntry(b.tag, "key") != b.Entry {
		t.Fatal("it has left")
	}
	b.back.max = 10
	b.SweepIdle(clock.Never)
	if b.ShardOfTag(b.tag).GetEntry(b.tag, "key") != b.Entry {
		t.Fatal("it has left though there is no room for what it holds")
	}
	b.back.max = 1 << 20
	b.SweepIdle(clock.Never)
	b.took(b.lot(100, 4, 0))
}

// What is forgotten is gone, and not given back; a flight is waited for first.
func TestForgottenKeyGivesNothingBack(t *testing.T) {
	b := newBench(t, algorithm.FixedWindow)
	b.AdoptLot(b.lot(100, 4, 1000), 2)
	b.LaunchFlight(t.Context(), func(func()) bool { return true }, nil)
	if held, f := b.ForgetKey("key", b.limit); held || f != b.Flight || b.FreeUnits() != 4 {
		t.Error("it was forgotten before its flight has landed")
	}
	b.Flight = nil
	b.back.AddReturn(Return{Key: "key", Lot: b.lot(90, 2, 0)})
	b.back.AddReturn(Return{Key: "other", Lot: b.lot(90, 2, 0)})
	if held, f := b.ForgetKey("key", b.limit); !held || f != nil {
		t.Error("nothing was held")
	}
	if held, _ := b.ForgetKey("key", b.limit); held || b.ShardOfTag(b.tag).GetEntry(b.tag, "key") != nil {
		t.Error("something is still held")
	}
	if some := b.back.TakeDue(0, 0); len(some) != 1 || some[0].Key != "other" || b.back.bytes != 0 {
		t.Errorf("%+v are given back", some)
	}
}

// A decision by what is held takes one lock, once, and no memory.
func TestWarmDrawAllocatesNothing(t *testing.T) {
	b := newBench(t, algorithm.FixedWindow)
	b.AdoptLot(b.lot(100, 1_000_000, clock.Never), 2)
	h, now := &Hold{Parts: make([]Lot, 0, 2)}, clock.Node(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 5000
		tag := b.TagForKey("key", b.limit)
		g := b.ShardOfTag(tag)
		g.Lock()
		e := g.GetEntry(tag, "key")
		g.TouchEntry(e, now)
		e.DrawUnits(1, now, nil)
		if _, ok := e.DrawUnits(1, now, h); !ok {
			t.Fatal("not drawn")
		}
		g.Unlock()
		b.UndoDraw(h, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTableIsSafeForConcurrentUse(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	back := NewReturns(4000, func() {})
	tb := NewTable(64*2000, back)
	var wg sync.WaitGroup
	for i := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(i, 3))
			for n := range 2000 {
				key := fmt.Sprint(r.IntN(500))
				tag := tb.TagForKey(key, l)
				g := tb.ShardOfTag(tag)
				var h Hold
				g.Lock()
				if e := g.AddEntry(tag, key, l, 0, clock.Node(n)); e != nil {
					e.AdoptLot(Lot{ID: 1 << 50, Limit: l, Fetched: 3, Free: 3, Expiry: clock.Never}, 2)
					e.DrawUnits(2, clock.Node(n), &h)
				}
				g.Unlock()
				tb.UndoDraw(&h, clock.Node(n))
				if n%100 == 0 {
					tb.SweepIdle(clock.Node(n))
					back.FinishCall(back.TakeDue(0, 0), 0, Unknown)
					tb.CountHeld()
				}
			}
		})
	}
	wg.Wait()
}

// staying is a state that has its entry stay so often when it is idle.
type staying struct{ left, idle int }

func (s *staying) Idle(e *Entry, _ clock.Node) {
	s.idle++
	s.left--
	e.Pinned = s.left > 0
}

// An entry that stays though it is idle is asked again after its life, and hides none that
// may leave.
func TestIdleEntriesMayStay(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	tb := NewTable(64<<20, NewReturns(1<<20, func() {}))
	g := &tb.shards[0]
	first, second := g.AddEntry(64, "first", l, 0, 0), g.AddEntry(128, "second", l, 0, 1)
	s := &staying{left: 3}
	first.State, first.Pinned = s, true
	g.KeepEntry(first, 100, 0)
	g.KeepEntry(second, 100, 1)
	for i, want := range []string{"2 0", "1 1", "1 2", "0 3"} {
		now := clockNode(int64(i) * 101)
		tb.SweepIdle(now)
		tb.SweepIdle(now)
		if got := fmt.Sprint(len(g.all), " ", s.idle); got != want {
			t.Errorf("at %d: %s, want %s", now, got, want)
		}
	}
}

// What a decider adds to an entry counts, and goes with it.
func TestEntriesGrowWithinTheirBytes(t *testing.T) {
	l := named(t, "limit", 100, algorithm.FixedWindow)
	tb := NewTable(64*2000, NewReturns(1<<20, func() {}))
	g := &tb.shards[0]
	e := g.AddEntry(64, "key", l, 0, 0)
	n := int64(0)
	for g.GrowEntry(e, 100) {
		n += 100
	}
	if want := (2000 - entryBytes - 3) / 100 * 100; n != want {
		t.Errorf("grew by %d, want %d", n, want)
	}
	if g.DropEntry(e); g.bytes != 0 {
		t.Errorf("%d bytes are taken by nothing", g.bytes)
	}
}

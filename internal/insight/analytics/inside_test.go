package analytics

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/insight/event"
)

// Parts of a range are the range: without gaps, without overlap, and coarse ones
// on whole steps.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		finest := Grain(rapid.IntRange(1, 3).Draw(t, "finest"))
		from := rapid.Int64Range(0, 1000).Draw(t, "from") * finest.Seconds()
		to := from + rapid.Int64Range(1, 100_000).Draw(t, "length")*finest.Seconds()
		at := from
		for _, p := range divide(from, to, finest, Day) {
			if p.from != at || p.to <= p.from || p.grain < finest || p.from%p.grain.Seconds() != 0 || p.to%p.grain.Seconds() != 0 {
				t.Fatalf("part %+v at %d", p, at)
			}
			at = p.to
		}
		if at != to {
			t.Fatalf("ends at %d, not %d", at, to)
		}
	})
}

// What is put together in any order is the same.
func TestCellsAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	one := func() *cells {
		r := &event.Record{First: time.UnixMicro(rng.Int64N(1e9)), Outcome: []string{"allowed", "refused", "delayed", "odd"}[rng.IntN(4)], Count: rng.Int64N(9),
			Cost: rng.Int64N(100), Least: rng.Int64N(50), RetryMS: rng.Int64N(9) - 1, Every: 1, About: &event.About{Path: fmt.Sprint("/", rng.IntN(9))}}
		r.Last = r.First.Add(time.Duration(rng.IntN(1e6)) * time.Microsecond)
		return cellsOf(r)
	}
	var rows []*cells
	for range 20 {
		rows = append(rows, one())
	}
	sum := func() *cells {
		c := none()
		for _, r := range rows {
			c.add(r)
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

func TestEstimate(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 10, 20, 50} {
		total := 0.0
		for run := range 50 {
			bits := int64(0)
			for i := range n {
				bits |= bit(fmt.Sprint(run, " word ", i))
			}
			total += float64(estimate(bits))
		}
		if mean := total / 50; mean < 0.9*float64(n) || mean > 1.1*float64(n) {
			t.Errorf("%d words are estimated as %.1f", n, mean)
		}
	}
	if estimate(-1) < 200 {
		t.Errorf("all bits are %d words", estimate(-1))
	}
}

func TestArrivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []event.Arrival
		at := int64(0)
		for range rapid.IntRange(0, 300).Draw(t, "n") {
			at += rapid.Int64Range(0, 1e9).Draw(t, "gap")
			in = append(in, event.Arrival{AtUS: at, Cost: rapid.Int64Range(0, maxFigure).Draw(t, "cost")})
		}
		i := 0
		err := unpackArrivals(packArrivals(in), func(at, cost int64) {
			if in[i] != (event.Arrival{AtUS: at, Cost: cost}) {
				t.Fatalf("%d: %d %d, want %+v", i, at, cost, in[i])
			}
			i++
		})
		if err != nil || i != len(in) {
			t.Fatalf("%d of %d: %v", i, len(in), err)
		}
	})
	if unpackArrivals([]byte{0x80}, nil) == nil || unpackArrivals([]byte{1}, nil) == nil {
		t.Error("half an arrival was read")
	}
}

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units, seconds := rapid.Int64Range(1, 1e6).Draw(t, "units"), rapid.Int64Range(1, 60).Draw(t, "seconds")
		peak := rapid.Int64Range(ceilDiv(units, seconds), units).Draw(t, "peak")
		windowMS := rapid.Int64Range(1, 30).Draw(t, "window") * 1000
		var sum, n, most int64
		for _, w := range spread(units, peak, seconds, windowMS, Minute) {
			sum, n, most = sum+w.units*w.n, n+w.n, max(most, w.units)
		}
		if sum != units || n > ceilDiv(seconds*1000, windowMS) || most < peak {
			t.Fatalf("%d units in %d windows, at most %d: want %d units, a peak of %d at least", sum, n, most, units, peak)
		}
	})
}

func TestKindOf(t *testing.T) {
	for rule, want := range map[string]string{
		"remote_address": "address", "path_/login/remote_address": "address", "user": "account", "remote_address, user": "account",
		"tenant-id": "account", "path": "", "": "", "skip": "", "zip": "",
	} {
		if got := string(kindOf(rule)); got != want {
			t.Errorf("%q: %q, want %q", rule, got, want)
		}
	}
}

var update = flag.Bool("update", false, "rewrite testdata/schema.sql; only before the version it belongs to is released")

// Migrations that were released do not change: databases have them.
func TestSchema(t *testing.T) {
	var b strings.Builder
	for i, statements := range migrations {
		fmt.Fprintf(&b, "-- migration %d\n", i+1)
		for _, s := range statements {
			b.WriteString(strings.Join(strings.Fields(s), " ") + ";\n")
		}
	}
	const path = "testdata/schema.sql"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Error("migrations differ from testdata/schema.sql: add one instead of changing those that there are")
	}
}

// No query makes the parser fail in another way than by an error.
func FuzzParse(f *testing.F) {
	for _, q := range []string{"", "from=-1h&to=now&step=5m", "domain=a,b&domain=&key=x&path=/a*", "from=2026-03-01T00:00:00Z&step=1d", "top=3&by=node&sort=units"} {
		f.Add(q)
	}
	opt := Options{}
	if err := opt.complete(Options{}); err != nil {
		f.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, q string) {
		for _, clients := range []bool{false, true} {
			a, err := parse(q, takes{filters: allFilters, by: []string{"outcome", "node"}, sort: []string{"units"}, top: 5, step: true, ranged: true, clients: clients}, now, &opt)
			if err != nil {
				continue
			}
			if a.from >= a.to || a.from%a.step != 0 || (a.to-a.from)%a.step != 0 || a.step%a.grain.Seconds() != 0 || a.points() > maxPoints || a.points() < 1 {
				t.Errorf("%q: %d to %d by %d, %s", q, a.from, a.to, a.step, a.grain)
			}
		}
	})
}

// What is packed is unpacked as the same, and bytes of others are an error or counts.
func FuzzTiming(f *testing.F) {
	f.Add((&timing{every: 256}).pack())
	all := &timing{every: 1}
	for i := range all.n {
		all.n[i] = int64(i)
	}
	f.Add(all.pack())
	f.Add([]byte{1, 241, 1, 1})
	f.Fuzz(func(t *testing.T, packed []byte) {
		var a, b timing
		if a.merge(packed) != nil {
			return
		}
		if err := b.merge(a.pack()); err != nil || a != b {
			t.Errorf("%x: %+v, %v", packed, b, err)
		}
	})
}

func FuzzAnswering(f *testing.F) {
	all := &answering{ok: 1, redirect: 2, denied: 3, clientError: 4, serverError: 5, totalUS: 6, longestUS: 7}
	f.Add(all.pack())
	for i := range all.times {
		all.times[i] = int64(i)
	}
	f.Add(all.pack())
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, packed []byte) {
		var a, b answering
		if a.merge(packed) != nil {
			if a != (answering{}) {
				t.Errorf("%x: half of it is merged: %+v", packed, a)
			}
			return
		}
		if err := b.merge(a.pack()); err != nil || a != b {
			t.Errorf("%x: %+v, %v", packed, b, err)
		}
	})
}

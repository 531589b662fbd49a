package transport

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/neighbor"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/memory"
)

// ledgers are a driver before stores, one a shard, of which the first letter of a key says
// which has it. Calls and answers get lost, and calls come late.
type ledgers struct {
	w      *world
	stores []*memory.Store
	away   []clock.Node // until when no call reaches a shard
	rough  int          // of so many calls one has a fate
	moved  string       // the first letters of keys that are on the other shard than their own
	marks  map[string]bool
}

func newLedgers(t *testing.T, w *world, shards int) *ledgers {
	d := &ledgers{w: w, away: make([]clock.Node, shards), rough: 2, marks: map[string]bool{}}
	for range shards {
		s := memory.New(memory.Options{MaxBytes: 1 << 20, Now: func() int64 { return 1_700_000_000_000_000 + int64(w.now) }})
		t.Cleanup(func() { s.Close() })
		d.stores = append(d.stores, s)
	}
	return d
}

func (d *ledgers) Shards() int { return len(d.stores) }

func (d *ledgers) Shard(key string) int {
	own := int(key[0] - 'a')
	if strings.IndexByte(d.moved, key[0]) >= 0 {
		return 1 - own
	}
	return own
}

func (d *ledgers) Probe(shard int, _ time.Duration) error {
	if d.w.sleep(time.Millisecond); d.w.now < d.away[shard] {
		return errDown
	}
	return nil
}

func (d *ledgers) Send(shard int, calls []*Call) {
	for _, c := range calls {
		c.Finish(d.carry(shard, c))
	}
}

func (d *ledgers) carry(shard int, c *Call) *Result {
	ops := slices.Clone(c.Ops)
	for i := range ops {
		ops[i].Key = strings.Clone(ops[i].Key)
	}
	d.marks[ops[0].Key] = true
	run := func() {
		if err := d.stores[shard].Take(context.Background(), ops); err != nil {
			d.w.t.Error(err)
		}
	}
	d.w.sleep(time.Millisecond)
	if d.w.now < d.away[shard] {
		return &Result{Outcome: Failed, MayRun: d.w.rnd.IntN(2) == 0, Err: errDown}
	}
	switch d.w.rnd.IntN(4 * d.rough) {
	case 0: // the call is lost
		return &Result{Outcome: Failed, MayRun: true, Err: errDown}
	case 1: // the answer is
		run()
		return &Result{Outcome: Failed, MayRun: true, Err: errDown}
	case 2: // it comes late
		later := time.Duration(d.w.rnd.IntN(5000)) * time.Millisecond
		d.w.Go(func() {
			d.w.sleep(c.Within + later)
			run()
		})
		d.w.sleep(c.Within)
		return errLate
	case 3: // the shard goes away, for longer than a mark lives at most
		run()
		d.away[shard] = d.w.now.Add(int64(d.w.rnd.IntN(100)) * int64(d.w.rnd.IntN(1_000_000)))
		return &Result{Outcome: Failed, MayRun: true, Err: errDown}
	}
	run()
	copy(c.Ops, ops)
	return nil
}

// once has ops carried out once in the background, and calls end when that is over.
func once(q *Queue, ops []weir.Op, end func(err error)) {
	if _, again, err := q.Repeater.CallOnce(context.Background(), Background, ops, false, func(_ []weir.Op, _ clock.Node, err error) { end(err) }); !again {
		end(err)
	}
}

// Whatever gets lost and comes late, each of some calls is carried out once where it is said
// to be, never where it is said not to have been sent, and never twice.
func TestOnce(t *testing.T) {
	answered, lost, repeated := 0, 0, 0
	for seed := range uint64(60) {
		simulate(t, seed, func(w *world) {
			d, env := newLedgers(t, w, 2), w.env()
			env.Rand = w.rnd.Uint64
			opt := options()
			opt.ProbeEvery = 250 * time.Millisecond
			q := New(partsOf{d}, env, opt)
			l := weir.PerHour(1000, algorithm.FixedWindow)
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			const calls, units = 20, 7
			errs := make([]error, calls)
			keys := func(i int) []string {
				return []string{fmt.Sprint(string(rune('a'+i%2)), i), fmt.Sprint(string(rune('a'+i%2)), i, "too")}
			}
			over := 0
			for i := range calls {
				var ops []weir.Op
				for _, key := range keys(i) {
					ops = append(ops, weir.Op{Key: key, Limit: l, Cost: units, Role: weir.Always, Verb: weir.Force})
				}
				w.Go(func() {
					w.sleep(time.Duration(w.rnd.IntN(20_000)) * time.Millisecond)
					once(q, ops, func(err error) {
						errs[i] = err
						over++
					})
				})
			}
			for w.sleep(time.Second); over < calls; w.sleep(time.Second) {
			}
			w.sleep(10 * time.Second) // what is late comes
			q.Close()
			for i := range calls {
				for _, key := range keys(i) {
					ops := []weir.Op{{Key: key, Limit: l, Verb: weir.Peek}}
					if err := d.stores[i%2].Take(t.Context(), ops); err != nil {
						t.Fatal(err)
					}
					got := 1000 - ops[0].Decision.Remaining
					if err := errs[i]; err == nil && got != units || got != 0 && got != units || err != nil && !MayRun(err) && got != 0 {
						t.Errorf("seed %d: call %d of %d units charged %d, %v", seed, i, units, got, err)
					}
				}
				if errs[i] == nil {
					answered++
				} else if MayRun(errs[i]) {
					lost++
				}
			}
			repeated += int(q.Stats().Calls) - len(d.marks)
		})
	}
	if t.Logf("%d answered, %d given up, %d made again", answered, lost, repeated); answered < 500 || repeated < 100 {
		t.Error("nothing is tested")
	}
}

// While another server has the key, which does not know of the mark, a call is not made again.
func TestOnceWaitsForItsServer(t *testing.T) {
	simulate(t, 1, func(w *world) {
		d, env := newLedgers(t, w, 2), w.env()
		env.Rand = w.rnd.Uint64
		q := New(partsOf{d}, env, options())
		l := weir.PerHour(1000, algorithm.FixedWindow)
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		charged := func(shard int) int64 {
			ops := []weir.Op{{Key: "a", Limit: l, Verb: weir.Peek}}
			if err := d.stores[shard].Take(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
			return 1000 - ops[0].Decision.Remaining
		}
		d.rough, d.away[0] = 1<<40, w.now.Add(100_000)
		w.rnd.IntN(2)
		over := false
		for !over && !q.Repeater.IsBusy() {
			once(q, []weir.Op{{Key: "a", Limit: l, Cost: 7, Role: weir.Always, Verb: weir.Force}}, func(err error) { over = err == nil })
		}
		d.moved = "ab"
		if w.sleep(20 * time.Second); over || charged(0)+charged(1) != 0 {
			t.Fatalf("over %v, %d charged, and %d by the other server", over, charged(0), charged(1))
		}
		d.moved = ""
		if w.sleep(5 * time.Second); !over || charged(0) != 7 || charged(1) != 0 {
			t.Errorf("over %v, %d charged, and %d by the other server", over, charged(0), charged(1))
		}
		q.Close()
	})
}

// TestOnceComesHome charges keys while those of one shard come to the other for a while, and
// calls and answers get lost: each charge is made, once where its key is at last, or where it
// was answered; nobody waits for a key to leave its own shard again.
func TestOnceComesHome(t *testing.T) {
	home := 0
	for seed := range uint64(60) {
		simulate(t, seed, func(w *world) {
			d := newLedgers(t, w, 2)
			q := New(partsOf{d}, w.env(), options())
			l := weir.PerHour(1000, algorithm.FixedWindow)
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			charged := func(key string, shard int) int64 {
				ops := []weir.Op{{Key: key, Limit: l, Verb: weir.Peek}}
				if err := d.stores[shard].Take(t.Context(), ops); err != nil {
					t.Fatal(err)
				}
				return 1000 - ops[0].Decision.Remaining
			}
			const calls, units = 40, 7
			var over [calls]bool
			for i := range calls {
				key := fmt.Sprint(string(rune('a'+i%2)), i)
				w.Go(func() {
					w.sleep(time.Duration(w.rnd.IntN(10_000)) * time.Millisecond)
					once(q, []weir.Op{{Key: key, Limit: l, Cost: units, Role: weir.Always, Verb: weir.Force}}, func(err error) { over[i] = err == nil || !MayRun(err) })
				})
			}
			d.rough = 1
			for i := range 10 {
				d.moved = []string{"", "a"}[i%2]
				d.away = make([]clock.Node, 2)
				w.sleep(time.Second)
			}
			d.moved, d.rough, d.away = "", 1<<40, make([]clock.Node, 2)
			w.sleep(20 * time.Second) // what is late comes
			for i := range calls {
				key := fmt.Sprint(string(rune('a'+i%2)), i)
				here, there := charged(key, i%2), charged(key, 1-i%2)
				switch {
				case !over[i]:
					t.Errorf("seed %d: nobody has charged %s", seed, key)
				case here > units || there > units || there > 0 && i%2 == 1:
					t.Errorf("seed %d: %s is charged %d, and %d by the other", seed, key, here, there)
				case here == units && there == units:
					home++
				}
			}
			q.Close()
		})
	}
	if t.Logf("%d calls were charged by one and then by the other", home); home < 20 {
		t.Error("nothing is tested")
	}
}

// partsOf are ledgers of which each is a part.
type partsOf struct{ *ledgers }

func (d partsOf) Part(key string) int {
	if own, now := int(key[0]-'a'), d.Shard(key); own != now {
		return -1 - 2*own - now
	}
	return d.Shard(key)
}

func (d partsOf) Check([]weir.Op) error        { return nil }
func (d partsOf) LeavesTrace(*weir.Limit) bool { return false }
func (d partsOf) Undone(ops int, failed error) {}

// undoing are ledgers that lose and delay only what has a mark, and count what was given back
// in vain.
type undoing struct {
	partsOf
	vain *int
}

func (d undoing) Undone(ops int, err error) {
	if err != nil {
		*d.vain += ops
	}
}

func (d undoing) Send(shard int, calls []*Call) {
	for _, c := range calls {
		if _, _, isMarked := neighbor.Cut(c.Ops[0].Key); isMarked {
			c.Finish(d.carry(shard, c))
			continue
		}
		d.w.sleep(time.Millisecond)
		if err := d.stores[shard].Take(context.Background(), c.Ops); err != nil {
			d.w.t.Error(err)
		}
		c.Finish(nil)
	}
}

// What a part of a request has charged that another refuses is given back once, whatever
// becomes of the call that does it.
func TestUndoneOnce(t *testing.T) {
	repeated, vain := 0, 0
	for seed := range uint64(40) {
		simulate(t, seed, func(w *world) {
			d, env := undoing{partsOf{newLedgers(t, w, 2)}, new(int)}, w.env()
			opt := options()
			opt.ProbeEvery = 250 * time.Millisecond
			q := New(d, env, opt)
			l, none := weir.PerHour(1000, algorithm.FixedWindow), weir.PerHour(1, algorithm.FixedWindow)
			for _, l := range []*weir.Limit{l, none} {
				if err := l.Compile(); err != nil {
					t.Fatal(err)
				}
			}
			const requests, units, before = 20, 7, 100
			unsure := 0
			take := func(shard int, ops ...weir.Op) int64 {
				if err := d.stores[shard].Take(t.Context(), ops); err != nil {
					t.Fatal(err)
				}
				return 1000 - ops[0].Decision.Remaining
			}
			for i := range requests {
				key := fmt.Sprint("a", i)
				take(0, weir.Op{Key: key, Limit: l, Cost: before})
				w.Go(func() {
					w.sleep(time.Duration(w.rnd.IntN(20_000)) * time.Millisecond)
					ops := []weir.Op{{Key: key, Limit: l, Cost: units}, {Key: "b", Limit: none, Cost: 2}}
					switch _, err := q.DecideInBudget(context.Background(), ops); {
					case err == nil && ops[0].Charged:
						t.Error("a part of a refused request is charged")
					case MayRun(err): // a charge without an answer stays
						unsure++
					}
				})
			}
			w.sleep(20 * time.Second)
			for busy := true; busy; busy = q.Repeater.IsBusy() {
				w.sleep(10 * time.Second)
			}
			kept := 0
			for i := range requests {
				switch take(0, weir.Op{Key: fmt.Sprint("a", i), Limit: l, Verb: weir.Peek}) {
				case before:
				case before + units:
					kept++
				default:
					t.Errorf("seed %d: request %d was given back twice", seed, i)
				}
			}
			if kept > *d.vain+unsure {
				t.Errorf("seed %d: %d requests stay charged, %d are said to", seed, kept, *d.vain+unsure)
			}
			repeated, vain = repeated+int(q.Stats().Failed), vain+*d.vain
			q.Close()
		})
	}
	if t.Logf("%d calls failed, %d ops were given back in vain", repeated, vain); repeated < 100 || vain > 100 {
		t.Error("nothing is tested")
	}
}

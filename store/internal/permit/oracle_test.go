package permit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
)

// An occupant is a holder by the true time: it stops to use its permit when its period is
// over by its own clock, which may be fast or slow as those of nodes are.
type occupant struct {
	node      *node
	id, units int64
	until     int64
}

// atOnce is the count of the limit.
const atOnce = 40

// I11: whatever is lost, late, repeated, suspended, reloaded and crashes, all nodes never
// hand out more permits than the limit has, by the true time. When all is quiet the store
// has them all.
func TestPermitsHoldTheLimit(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 20
	}
	fullest := int64(0)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			got, most := occupy(t, rand.New(rand.NewPCG(seed, 9)))
			if got < 1000 {
				t.Errorf("only %d got a permit", got)
			}
			fullest += most
		})
	}
	if fullest < int64(seeds)*(atOnce-4) {
		t.Errorf("of %d %d were taken at most", atOnce, fullest/int64(seeds))
	}
}

// occupy has three nodes hand out permits, and returns how many were handed out,
// and how many there were at most at a time.
func occupy(t *testing.T, r *rand.Rand) (got int, most int64) {
	w := newWorld(t, 3)
	var versions []*weir.Limit
	for _, ms := range []int64{2000, 3000, 2000} {
		versions = append(versions, limited(t, atOnce, time.Duration(ms)*time.Millisecond))
	}
	limits := make([]*weir.Limit, 3) // by node
	for i, n := range w.nodes {
		n.drift, limits[i] = r.Int64N(1001)-500, versions[0]
	}
	var occupants []*occupant
	id := int64(0)
	taken := func() (sum int64) {
		for _, o := range occupants {
			if o.until > w.true {
				sum += o.units
			}
		}
		return sum
	}
	enter := func(n *node, l *weir.Limit, id, units int64) {
		got++
		life := micros.Of(l.Period)
		occupants = append(occupants, &occupant{n, id, units, w.true + life - life/1024})
		if h := stateOf(n.entry(l)).holders[id]; h != nil && h.from != 0 {
			// What the holder has the store counts for longer, and no fewer units.
			if at, lot := w.leases[h.from], findLot(n.entry(l), h.from); at.until < w.true+life-life/1024 || at.units < lot.Fetched {
				t.Fatalf("after %d at %d: the store counts %+v, the node %+v, the holder %+v", got, w.true, at, lot, h)
			}
		}
		sum := taken()
		if most = max(most, sum); sum > atOnce {
			t.Fatalf("%d of %d are taken after %d", sum, atOnce, got)
		}
	}
	// ask decides by the store, whose answer may get lost.
	ask := func(n *node, d *Decider, o weir.Op) bool {
		sent := n.Clock.Now()
		if r.IntN(20) == 0 || n.cutOff > w.true {
			return false
		}
		ops := []weir.Op{o}
		w.take(ops)
		w.true += r.Int64N(2000)
		if r.IntN(20) == 0 {
			return false
		}
		n.Clock.Observe(0, clock.Store(ops[0].Now), sent)
		d.Learn(&ops[0], sent)
		return ops[0].Charged
	}
	draw := func(n *node, l *weir.Limit, id, units int64) bool {
		d, o := n.decider(l), weir.Op{Key: "k", Limit: l, Cost: units, ID: id}
		h := &lot.Hold{}
		v, _ := d.Draw(context.Background(), n.Clock.Now(), &o, h)
		if v == lot.Charged && r.IntN(10) == 0 {
			w.true += r.Int64N(2000)
			d.Undo(n.Clock.Now(), h)
			return false
		}
		if v == lot.Ask {
			start := w.true
			if !ask(n, d, o) {
				return false
			}
			defer func(now int64) { w.true = now }(w.true)
			w.true = start
		}
		return v == lot.Charged || v == lot.Ask
	}
	for range 40_000 {
		i := r.IntN(3)
		n := w.nodes[i]
		switch x := r.IntN(200); {
		case x < 70:
			id++
			if units := 1 + r.Int64N(2); draw(n, limits[i], id, units) {
				enter(n, limits[i], id, units)
			}
		case x < 110 && len(occupants) > 0:
			at := r.IntN(len(occupants))
			o := occupants[at]
			switch {
			case o.until <= w.true:
			case x < 103: // renewed, where it has its permit
				i := 0
				for w.nodes[i] != o.node && i < 2 {
					i++
				}
				if w.nodes[i] != o.node {
					continue
				}
				if draw(o.node, limits[i], o.id, o.units) {
					occupants = append(occupants[:at], occupants[at+1:]...)
					enter(o.node, limits[i], o.id, o.units)
				}
				continue
			default:
				o.node.release(o.node.decider(versions[r.IntN(3)]), o.id)
			}
			occupants = append(occupants[:at], occupants[at+1:]...)
		case x < 155:
			if len(w.flying) > 0 {
				at := r.IntN(len(w.flying))
				f := w.flying[at]
				if f.until > w.true {
					continue
				}
				if f.until = 0; r.IntN(12) == 0 {
					f.until = w.true + r.Int64N(600_000)
				}
				f.loseCall, f.loseAnswer = r.IntN(20) == 0 || f.node.cutOff > w.true, r.IntN(20) == 0
				w.resume(at)
			}
		case x < 160:
			n.Table.SweepIdle(n.Clock.Now())
		case x < 164:
			n.giveBack(r)
		case x < 166:
			if len(w.late) > 0 {
				at := r.IntN(len(w.late))
				w.take(w.late[at : at+1])
				w.late = append(w.late[:at], w.late[at+1:]...)
			}
		case x < 167 && r.IntN(30) == 0: // suspended
			us := 200_000 + r.Int64N(3_000_000)
			w.true, n.slept = w.true+us, n.slept+us
			w.true += 1010 // the wall clock is looked at once a millisecond
		case x < 168 && r.IntN(24) == 0: // crashed: what it held is forgotten
			w.nodes[i] = w.newNode()
			w.nodes[i].drift = n.drift
		case x < 169 && r.IntN(12) == 0:
			n.cutOff = w.true + r.Int64N(4_000_000)
		case x < 170 && r.IntN(10) == 0:
			limits[i] = versions[r.IntN(3)]
		case x < 171 && r.IntN(4) == 0:
			w.true += r.Int64N(400_000)
		default:
			w.true += r.Int64N(4_000)
		}
	}
	settle(w, versions[0])
	return got, most
}

// settle has all holders stop, and looks what is left when nothing is under way.
func settle(w *world, l *weir.Limit) {
	w.land()
	for range 12 {
		for _, n := range w.nodes {
			n.sweep(500 * time.Millisecond)
		}
	}
	for i := range w.late {
		w.take(w.late[i : i+1])
	}
	for _, n := range w.nodes {
		if keys, units, _ := n.Table.CountHeld(); keys != 0 || units != 0 {
			w.Errorf("%d units of %d keys are held", units, keys)
		}
	}
	if w.true += 4_000_000; w.left(l) != atOnce {
		w.Errorf("%d of %d are left", w.left(l), atOnce)
	}
}

package algorithm_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

// eachLife runs f on many random limits of every algorithm.
func eachLife(t *testing.T, lives int, f func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand)) {
	if testing.Short() {
		lives /= 5
	}
	for i, c := range oracleCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for life := range lives {
				r := rand.New(rand.NewPCG(uint64(i), uint64(life)))
				l := c.limit(r)
				for l.Compile() != nil {
					l = c.limit(r)
				}
				f(t, c, l, r)
				if t.Failed() {
					t.Fatalf("life %d: %d per %s, burst %d, %+v", life, l.Count, l.Period, l.Burst, l.Params)
				}
			}
		})
	}
}

// newPlayer returns a key's life without an oracle.
func newPlayer(c oracleCase, l *weir.Limit, r *rand.Rand) *player {
	return &player{c: c, l: l, r: r, cells: newRow(l), now: 1<<50 + r.Int64N(1<<50)}
}

// answer runs Step as a store would.
func (p *player) answer(a weir.Ask) weir.Decision {
	if g, ok := p.l.Algorithm.(weir.Grower); ok {
		if need := g.Room(p.cells, p.l, a); need > len(p.cells) {
			p.cells = append(p.cells, make([]int64, need-len(p.cells))...)
		}
	}
	d := p.l.Algorithm.Step(p.cells, p.l, a)
	p.left = d.Remaining
	return d
}

// forward lets time pass on a clock that never goes back.
func (p *player) forward() { p.now += max(p.elapse(), 0) }

// probe returns the answers to peeks of several costs at several times from
// now on: two rows that answer alike are the same.
func (p *player) probe() []weir.Decision {
	period, most := micros.Of(p.l.Period), p.c.most(p.l)
	var all []weir.Decision
	for _, d := range []int64{0, 1, period / 7, period / 2, period - 1, period, period + period/3, 2 * period, 3 * period} {
		for _, cost := range []int64{0, 1, most/3 + 1, most} {
			all = append(all, p.answer(weir.Ask{Now: p.now + d, Cost: cost, Verb: weir.Peek}))
		}
	}
	return all
}

// TestPeekChangesNothing plays the same life twice, once with looks in between.
func TestPeekChangesNothing(t *testing.T) {
	eachLife(t, 100, func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand) {
		p, q := newPlayer(c, l, r), newPlayer(c, l, r)
		q.now = p.now
		for range 60 {
			p.now = max(p.now+p.elapse(), 0)
			a := p.ask()
			for range r.IntN(3) {
				q.answer(weir.Ask{Now: p.now, Cost: r.Int64N(c.most(l) + 1), Verb: weir.Peek, ID: a.ID})
				q.answer(weir.Ask{Now: p.now, ID: a.ID, Verb: weir.Verb(r.IntN(4))}) // a cost of zero
			}
			if x, y := p.answer(a), q.answer(a); x != y || !slices.Equal(p.cells, q.cells) {
				t.Errorf("with looks between: %+v, without: %+v", y, x)
				return
			}
		}
	})
}

// TestForgettingAtTheStampChangesNothing plays the same life twice, once on a
// store that forgets a row as soon as it may.
func TestForgettingAtTheStampChangesNothing(t *testing.T) {
	eachLife(t, 100, func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand) {
		p, q := newPlayer(c, l, r), newPlayer(c, l, r)
		for range 100 {
			p.forward()
			if q.cells[0] != 0 && p.now<<weir.FractionBits >= q.cells[0] {
				q.cells = newRow(l)
			}
			a := p.ask()
			if x, y := p.answer(a), q.answer(a); x != y {
				t.Errorf("at %d %s %d: forgetful %+v, other %+v", a.Now, a.Verb, a.Cost, y, x)
				return
			}
		}
	})
}

// TestManyAtOnceIsOneByOne spends n at once and n times one, at the same
// instant.
func TestManyAtOnceIsOneByOne(t *testing.T) {
	eachLife(t, 150, func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand) {
		if l.Algorithm.Traits()&weir.Leases != 0 {
			return // a lease is one, whatever its cost
		}
		p := newPlayer(c, l, r)
		for range 30 {
			p.forward()
			p.answer(p.ask())
			p.forward()
			n := 1 + r.Int64N(min(c.most(l)+1, 40))
			q := *p
			q.cells = slices.Clone(p.cells)
			x := p.answer(weir.Ask{Now: p.now, Cost: n})
			var y weir.Decision
			var passed int64
			for range n {
				if y = q.answer(weir.Ask{Now: p.now, Cost: 1}); y.Allowed() {
					passed++
				}
			}
			if x.Allowed() != (passed == n) || x.Allowed() && x != y || !x.Allowed() && passed != x.Remaining {
				t.Errorf("%d at once: %+v, one by one %d: %+v", n, x, passed, y)
				return
			}
			p.cells = q.cells
		}
	})
}

// TestTimeShift plays the same life twice, once a hundred windows later.
func TestTimeShift(t *testing.T) {
	eachLife(t, 100, func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand) {
		p, q := newPlayer(c, l, r), newPlayer(c, l, r)
		window := micros.Of(l.Period)
		switch l.Algorithm {
		case algorithm.SlidingSubwindows:
			window = newSubwindowsOracle(l).(*subwindowsOracle).length
		case algorithm.SlidingWindow:
			window = newWindowOracle(l).(*windowOracle).length
		}
		shift := 100 * window
		p.now = min(p.now, 1<<50)
		for range 60 {
			p.forward()
			a := p.ask()
			b := a
			b.Now += shift
			if a.ID != 0 && l.Algorithm.Traits()&weir.Leases == 0 {
				if b.ID > 0 {
					b.ID += shift
				} else {
					b.ID -= shift
				}
			}
			if b.Now >= 1<<51 {
				return
			}
			x, y := p.answer(a), q.answer(b)
			if x != y {
				t.Errorf("at %d %s %d: %+v, %d later: %+v", a.Now, a.Verb, a.Cost, x, shift, y)
				return
			}
			if x.Allowed() && a.Verb == weir.Spend && a.Cost > 0 {
				p.remember(a, x)
			}
		}
	})
}

// TestRefundUndoesSpend gives back what was just spent, by its receipt: the key
// then answers as if it had not been spent.
func TestRefundUndoesSpend(t *testing.T) {
	eachLife(t, 100, func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand) {
		if l.Algorithm.Name() == "lockout" {
			return // a failure prolongs the run that it is in
		}
		p := newPlayer(c, l, r)
		for range 30 {
			p.forward()
			p.answer(p.ask())
			p.forward()
			a := p.ask()
			a.Verb, a.ID = weir.Spend, 0
			leases := l.Algorithm.Traits()&weir.Leases != 0
			if leases {
				a.ID = 99
			}
			want := p.probe()
			d := p.answer(a)
			if !d.Allowed() || a.Cost == 0 {
				continue
			}
			o := weir.Op{Limit: l, Cost: a.Cost, ID: a.ID, Answer: weir.Answer{Now: a.Now, Decision: d}}
			undo := o.Undo(a.Cost)
			back := weir.Ask{Now: a.Now, Cost: a.Cost, Verb: weir.Refund, ID: undo.AskID()}
			if r.IntN(2) == 0 && !leases {
				back.ID = a.Now + micros.Of(d.ResetAfter)
			}
			p.answer(back)
			got := p.probe()
			if l.Algorithm == algorithm.SlidingWindow {
				// What else was spent may leave later for it, and never earlier.
				if got[0].Remaining != want[0].Remaining {
					t.Errorf("spent and given back %d: %+v, want %+v", a.Cost, got[0], want[0])
				}
				for i := range got {
					if got[i].Remaining > want[i].Remaining {
						t.Errorf("spent and given back %d: %+v, more than %+v", a.Cost, got[i], want[i])
					}
				}
			} else if !slices.Equal(got, want) {
				t.Errorf("spent and given back %d: %+v, want %+v", a.Cost, got, want)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// TestLateRefundGivesNothing gives back, by its receipt, what stopped to count
// before: a key that has spent its limit anew meanwhile answers as if nobody had.
func TestLateRefundGivesNothing(t *testing.T) {
	eachLife(t, 100, func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand) {
		p := newPlayer(c, l, r)
		for range 10 {
			p.forward()
			left := p.answer(weir.Ask{Now: p.now, Verb: weir.Peek}).Remaining
			a := weir.Ask{Now: p.now, Cost: 1 + r.Int64N(max(left, 1)), ID: 99}
			if l.Algorithm.Traits()&weir.Leases == 0 {
				a.ID = 0
			}
			d := p.answer(a)
			if !d.Allowed() {
				continue
			}
			o := weir.Op{Limit: l, Cost: a.Cost, ID: a.ID, Answer: weir.Answer{Now: a.Now, Decision: d}}
			undo, receipt := o.Undo(a.Cost), a.Now+micros.Of(d.ResetAfter)
			back := weir.Ask{Cost: a.Cost, Verb: weir.Refund, ID: undo.AskID()}
			if r.IntN(2) == 0 && a.ID == 0 {
				back.ID = receipt
			}
			// As if never seen, and all of it spent again.
			p.now = receipt + r.Int64N(3)
			all := weir.Ask{Now: p.now, Cost: 1, ID: a.ID}
			if all.ID != 0 {
				all.ID = 100
			}
			all.Cost = max(p.answer(weir.Ask{Now: p.now, Verb: weir.Peek}).Remaining, 1)
			p.answer(all)
			want := p.probe()
			back.Now = p.now
			p.answer(back)
			if got := p.probe(); !slices.Equal(got, want) {
				t.Errorf("given back %d that was spent until %d: %v, want %v", back.Cost, receipt, got, want)
				return
			}
		}
	})
}

// TestClockBackNeverGives spends, sets the clock back and asks for more than
// was left: none of it passes while the clock has not caught up.
func TestClockBackNeverGives(t *testing.T) {
	eachLife(t, 200, func(t *testing.T, c oracleCase, l *weir.Limit, r *rand.Rand) {
		p := newPlayer(c, l, r)
		for range 10 {
			p.forward()
			p.answer(p.ask())
		}
		left := p.answer(weir.Ask{Now: p.now}).Remaining
		if left == c.most(l) || p.cells[0]>>weir.FractionBits <= p.now {
			return // nothing is remembered
		}
		// Further and further back: a bucket that was brought down would gain
		// from a clock that comes forward again.
		var back int64
		for range 20 {
			back = min(back+r.Int64N(micros.Of(l.Period)/6+2), p.now)
			a := weir.Ask{Now: p.now - back, Cost: left + 1, Verb: weir.Peek}
			if p.answer(a).Allowed() {
				t.Errorf("%d passes after the clock went back by %d, %d was left before", a.Cost, back, left)
				return
			}
		}
	})
}

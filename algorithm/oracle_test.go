package algorithm_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/params"
)

// An oracle is an algorithm written from its definition: slow, obvious, without
// cells. It says only what passes and what is remembered; all figures of a
// Decision are checked against these four questions.
type oracle interface {
	// passes reports whether a Spend of cost at now would be allowed.
	passes(now, cost int64) bool
	// charge takes cost, whether it passes or not.
	charge(now, cost int64)
	// giveBack undoes cost units of the charge with the receipt, 0 for none.
	giveBack(now, cost, receipt int64)
	// untouched reports whether at now the key is as if never seen.
	untouched(now int64) bool
}

// An oracleCase makes random limits of one algorithm and their oracles.
type oracleCase struct {
	name  string
	limit func(r *rand.Rand) *weir.Limit
	model func(l *weir.Limit) oracle
	// most is the largest cost that can ever pass.
	most func(l *weir.Limit) int64
	// steps is the length of one key's life. Zero means 150.
	steps int
}

func countOf(l *weir.Limit) int64 { return l.Count }

// TestOracle compares every algorithm with its oracle on random limits,
// requests, refunds and clocks. WEIR_SEED repeats a run, WEIR_SOAK=1 makes it
// a long one.
func TestOracle(t *testing.T) {
	seed := seeds.Of(t)
	decisions := 50_000 // of each algorithm
	if os.Getenv("WEIR_SOAK") != "" {
		decisions = 2_000_000
	} else if testing.Short() {
		decisions = 5_000
	}
	var total atomic.Int64
	t.Run("all", func(t *testing.T) {
		for i, c := range oracleCases() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				var refused int
				for n := 0; n < decisions; {
					done, no, err := c.life(r)
					if err != nil {
						t.Fatal(err)
					}
					n += done
					refused += no
					total.Add(int64(done))
				}
				// A test that refuses nothing, or everything, tests nothing.
				if refused < decisions/20 || refused > decisions*19/20 {
					t.Errorf("%d of %d decisions refused", refused, decisions)
				}
			})
		}
	})
	t.Logf("%d decisions", total.Load())
	if want := int64(500_000); total.Load() < want && !testing.Short() && !t.Failed() {
		t.Errorf("%d decisions compared, want at least %d", total.Load(), want)
	}
}

// life plays one key of one random limit against its oracle, and returns the
// number of decisions and of refusals among them.
func (c oracleCase) life(r *rand.Rand) (n, refused int, err error) {
	l := c.limit(r)
	for l.Compile() != nil { // too long for the algorithm
		l = c.limit(r)
	}
	p := &player{c: c, l: l, model: c.model(l), r: r, cells: newRow(l)}
	p.now = 1<<50 + r.Int64N(1<<50)
	if r.IntN(8) == 0 {
		p.now = r.Int64N(1 << 20) // a clock that was never set
	}
	steps := c.steps
	if steps == 0 {
		steps = 150
	}
	for n < steps {
		p.now = max(p.now+p.elapse(), 0)
		d, err := p.step(p.ask())
		if err != nil {
			return n, refused, fmt.Errorf("%s, %d per %s, burst %d, %+v, step %d: %w\n%s",
				c.name, l.Count, l.Period, l.Burst, l.Params, n, err, strings.Join(p.log, "\n"))
		}
		if !d.Allowed() {
			refused++
		}
		p.left = d.Remaining
		n++
	}
	return n, refused, nil
}

// newRow returns the row of a key never seen, as short as it may be.
func newRow(l *weir.Limit) []int64 {
	if l.Algorithm.Traits()&weir.Grows != 0 {
		return make([]int64, 1)
	}
	return make([]int64, l.Cells)
}

// player is one key's life.
type player struct {
	c        oracleCase
	l        *weir.Limit
	model    oracle
	r        *rand.Rand
	cells    []int64
	now      int64
	left     int64
	receipts []int64
	log      []string
}

// elapse picks how far the clock moves.
func (p *player) elapse() int64 {
	period := micros.Of(p.l.Period)
	var d int64
	switch p.r.IntN(24) {
	case 0:
		d = 1
	case 1, 2:
		d = period / p.l.Count // until one more unit
	case 3, 4:
		d = p.r.Int64N(period + 1)
	case 5:
		d = period/2 - 1
	case 6:
		d = period
	case 7:
		d = period*2 - p.r.Int64N(3)
	case 8:
		d = period*10 + p.r.Int64N(period)
	case 9:
		d = period / 60
	case 10:
		d = int64(float64(period) / float64(p.l.Count) * float64(p.l.Burst))
	case 11:
		d = -1
	case 12:
		d = -p.r.Int64N(period + 1)
	case 13:
		d = p.r.Int64N(period/10 + 1)
	case 14:
		if p.r.IntN(4) == 0 {
			d = -3 * period
		}
	}
	// Not beyond what fits a stamp, even for ten years and often.
	return min(d, 1<<51-p.now)
}

func (p *player) ask() weir.Ask {
	a := weir.Ask{Now: p.now, Cost: 1}
	most := p.c.most(p.l)
	switch p.r.IntN(16) {
	case 0:
		a.Cost = 0
	case 1:
		a.Cost = p.left
	case 2:
		a.Cost = p.left + 1
	case 3:
		a.Cost = most
	case 4:
		a.Cost = most + 1
	case 5, 6:
		a.Cost = 1 + p.r.Int64N(most)
	case 7, 8, 9:
		a.Cost = 1 + p.r.Int64N(most/8+1)
	case 10:
		a.Cost = 1 + p.left/2
	}
	a.Cost = min(a.Cost, weir.MaxCost)
	switch p.r.IntN(16) {
	case 0, 1:
		a.Verb = weir.Peek
	case 2:
		a.Verb = weir.Force
	case 3, 4:
		a.Verb = weir.Refund
		if len(p.receipts) > 0 && p.r.IntN(3) > 0 {
			a.ID = p.receipts[p.r.IntN(len(p.receipts))]
		}
	}
	if p.l.Algorithm.Traits()&weir.Leases != 0 {
		a.ID = 1 + p.r.Int64N(12)
	}
	return a
}

// remember keeps the receipt of what was charged, or when that was.
func (p *player) remember(a weir.Ask, d weir.Decision) {
	o := weir.Op{Limit: p.l, Cost: a.Cost, Answer: weir.Answer{Now: a.Now, Decision: d}}
	receipt := o.Receipt()
	if p.r.IntN(2) == 0 {
		undo := o.UndoRest(1 + p.r.Int64N(a.Cost))
		receipt = undo.AskID()
	}
	p.receipts = append(p.receipts, receipt)
}

// step asks algorithm and oracle, and compares.
func (p *player) step(a weir.Ask) (weir.Decision, error) {
	if a.Now<<weir.FractionBits >= p.cells[0] && p.r.IntN(4) == 0 {
		// A store may forget. Should the clock go back, nothing brings it back.
		if !p.model.untouched(a.Now) {
			return weir.Decision{}, fmt.Errorf("the stamp is over at %d and the key still remembered", a.Now)
		}
		p.cells, p.model = newRow(p.l), p.c.model(p.l)
	}
	if g, ok := p.l.Algorithm.(weir.Grower); ok {
		need := g.Room(p.cells, p.l, a)
		if need > p.l.Cells {
			return weir.Decision{}, fmt.Errorf("room for %d cells, above the %d", need, p.l.Cells)
		}
		if need > len(p.cells) {
			// Stores round up to their size classes.
			need = min(need+p.r.IntN(5), p.l.Cells)
			p.cells = append(p.cells, make([]int64, need-len(p.cells))...)
		}
	}
	before := slices.Clone(p.cells)
	d := p.l.Algorithm.Step(p.cells, p.l, a)
	p.log = append(p.log, fmt.Sprintf("  at %d %s %d (%d): left %d retry %d reset %d", a.Now, a.Verb, a.Cost, a.ID,
		d.Remaining, d.RetryAfter, d.ResetAfter))

	allowed := a.Cost == 0
	switch o, leases := p.asOracle(a).(*leaseOracle); {
	case allowed:
	case a.Verb != weir.Refund:
		allowed = p.model.passes(a.Now, a.Cost)
	default:
		allowed = !leases || o.leases[a.ID].until > a.Now
	}
	if d.Allowed() != allowed {
		return d, fmt.Errorf("allowed %v, want %v", d.Allowed(), allowed)
	}
	switch {
	case a.Cost == 0:
	case a.Verb == weir.Refund:
		p.asOracle(a).giveBack(a.Now, a.Cost, a.ID)
	case a.Verb == weir.Force, allowed && a.Verb == weir.Spend:
		p.asOracle(a).charge(a.Now, a.Cost)
		p.remember(a, d)
	default:
		if !slices.Equal(before, p.cells) && !p.mended(before[0], a.Now) {
			return d, fmt.Errorf("%s changed the cells from %v to %v", a.Verb, before, p.cells)
		}
	}
	if a.Cost == 0 && !slices.Equal(before, p.cells) && !p.mended(before[0], a.Now) {
		return d, fmt.Errorf("a cost of zero changed the cells")
	}
	return d, p.check(a, d)
}

// mended reports whether a row with the given stamp had to be brought down, as it
// lay further in the future than its limit allows.
func (p *player) mended(stamp, now int64) bool {
	b, ok := p.model.(*bucketOracle)
	return ok && stamp>>weir.FractionBits >= now+b.bound.Int64()
}

// asOracle returns the oracle, told which lease is meant where there are any.
func (p *player) asOracle(a weir.Ask) oracle {
	if m, ok := p.model.(interface{ as(id int64) }); ok {
		m.as(a.ID)
	}
	return p.model
}

// check compares every figure of d with the oracle as it is after a.
func (p *player) check(a weir.Ask, d weir.Decision) error {
	fresh := a
	fresh.ID = 0
	m, most := p.asOracle(fresh), p.c.most(p.l)
	if d.Remaining < 0 || d.Remaining > most {
		return fmt.Errorf("remaining %d is not within 0 and %d", d.Remaining, most)
	}
	if d.Remaining > 0 && !m.passes(a.Now, d.Remaining) || d.Remaining < most && m.passes(a.Now, d.Remaining+1) {
		return fmt.Errorf("remaining %d is not the largest cost that passes", d.Remaining)
	}
	reset := micros.Of(d.ResetAfter)
	if !m.untouched(a.Now+reset) || reset > 0 && m.untouched(a.Now+reset-1) {
		return fmt.Errorf("reset after %d is not when the key is as never seen", reset)
	}
	if stamp := (p.cells[0] + 1<<weir.FractionBits - 1) >> weir.FractionBits; !m.untouched(max(stamp, a.Now)) {
		return fmt.Errorf("at its expiry stamp %d the key is still remembered", stamp)
	}
	// Nor may a row outlive its key, but for the single word of a sliding counter,
	// in which the counts lie above the stamp.
	late := int64(1)
	if p.l.Algorithm == algorithm.SlidingCounter {
		late = micros.Of(p.l.Period)
	}
	if stamp := p.cells[0] >> weir.FractionBits; stamp > a.Now+reset+late {
		return fmt.Errorf("the expiry stamp comes %d after the reset", stamp-a.Now-reset)
	}
	if d.Allowed() {
		if q, ok := m.(*bucketOracle); ok && !q.meter && a.Verb == weir.Spend && a.Cost > 0 {
			return q.checkDelay(a, d)
		}
		return nil
	}
	if (a.Verb == weir.Force || a.Verb == weir.Refund) && p.l.Algorithm.Traits()&weir.Leases != 0 {
		return nil // a forced lease is held now, and could be renewed at once; one that is not held is not refunded
	}
	m = p.asOracle(a)
	if never := a.Cost > most; never || d.RetryAfter == weir.Never {
		if !never || d.RetryAfter != weir.Never {
			return fmt.Errorf("retry after %d for a cost of %d", d.RetryAfter, a.Cost)
		}
		return nil
	}
	retry := micros.Of(d.RetryAfter)
	if retry <= 0 || m.passes(a.Now+retry-1, a.Cost) || !m.passes(a.Now+retry, a.Cost) {
		return fmt.Errorf("retry after %d is not the least wait", retry)
	}
	return nil
}

// someCount returns a count of any magnitude up to max.
func someCount(r *rand.Rand, most int64) int64 {
	few := []int64{1, 2, 3, 5, 10, 60, 100, 1000, 7919}
	if r.IntN(3) > 0 {
		return min(few[r.IntN(len(few))], most)
	}
	n := int64(1) << r.IntN(54)
	return min(max(1, n-2+r.Int64N(4)), most)
}

// somePeriod returns a period of any magnitude.
func somePeriod(r *rand.Rand) time.Duration {
	some := []time.Duration{1, 2, 7, 59, 60, 61, 1000, 7919, 1e6, 1e6, 6e7, 6e7, 36e8, 864e8, 2_592e9, 31_536e9, 1<<40 + 1}
	if r.IntN(3) > 0 {
		return some[r.IntN(len(some))] * time.Microsecond
	}
	return time.Duration(1+r.Int64N(int64(1)<<r.IntN(48))) * time.Microsecond
}

// spent is units taken at an instant; until is what the oracle needs to know of
// when they cease to count.
type spent struct{ at, until, units int64 }

// refundOf takes cost units back from the spends that may give them, newest
// first.
func refundOf(all []spent, cost int64, may func(spent) bool) {
	for i := len(all) - 1; i >= 0 && cost > 0; i-- {
		if may(all[i]) {
			n := min(cost, all[i].units)
			all[i].units -= n
			cost -= n
		}
	}
}

func unitsOf(all []spent, counts func(spent) bool) int64 {
	var n int64
	for _, s := range all {
		if counts(s) {
			n += s.units
		}
	}
	return n
}

// floorTo returns the largest multiple of step that is not above n.
func floorTo(n, step int64) int64 {
	q := n / step
	if q*step > n {
		q--
	}
	return q * step
}

// fixedOracle: a list of spends, each with the end of its window.
type fixedOracle struct {
	l      *weir.Limit
	spends []spent
	end    func(now int64) int64
}

// open returns the end of the window that holds now: the latest that was ever
// opened, if it has not ended.
func (o *fixedOracle) open(now int64) (int64, bool) {
	var latest int64
	for _, s := range o.spends {
		if s.units > 0 {
			latest = max(latest, s.until)
		}
	}
	return latest, latest > now
}

func (o *fixedOracle) used(now int64) int64 {
	end, open := o.open(now)
	if !open {
		return 0
	}
	return unitsOf(o.spends, func(s spent) bool { return s.until == end })
}

func (o *fixedOracle) passes(now, cost int64) bool { return o.used(now)+cost <= o.l.Count }
func (o *fixedOracle) untouched(now int64) bool    { return o.used(now) == 0 }

func (o *fixedOracle) charge(now, cost int64) {
	end, open := o.open(now)
	if !open {
		// What was counted before is forgotten for good.
		end, o.spends = o.end(now), nil
	}
	o.spends = append(o.spends, spent{now, end, min(cost, weir.MaxCost-o.used(now))})
}

func (o *fixedOracle) giveBack(now, cost, receipt int64) {
	if end, open := o.open(now); open && (receipt == 0 || receipt == end) {
		refundOf(o.spends, cost, func(s spent) bool { return s.until == end })
	}
}

func newFixedOracle(l *weir.Limit) oracle {
	period, phase := micros.Of(l.Period), micros.Of(l.Phase)
	return &fixedOracle{l: l, end: func(now int64) int64 {
		if l.Anchor == params.AnchorFirst {
			return now + period
		}
		return floorTo(now-phase, period) + phase + period
	}}
}

func someFixed(r *rand.Rand) *weir.Limit {
	l := &weir.Limit{Algorithm: algorithm.FixedWindow, Count: someCount(r, weir.MaxCost), Period: somePeriod(r)}
	switch r.IntN(3) {
	case 0:
		l.Anchor = params.AnchorFirst
	case 1:
		l.Phase = time.Duration(r.Int64N(int64(l.Period/time.Microsecond)+1)) * time.Microsecond
	}
	return l
}

package algorithm

import (
	_ "embed"
	"fmt"
	"math/bits"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
)

// TokenBucket holds Burst tokens and gains Count of them per Period, evenly. A
// request takes as many as it costs, or is refused.
//
// Guarantee: any interval of length d admits at most Burst + floor(d*Count/Period)
// units, hence Burst + Count in any period. A request is refused exactly when
// the real-valued bucket holds less than its cost.
//
// Units given back: a refund that says when its units were charged ([weir.Op.Undo]
// does) gives back so many units less those that have flowed in since. They count
// as never spent: what was spent and not given back keeps to the bound in any
// interval. A refund that only names its spend gives back no more than was missing
// after that spend and has not flowed in since, and one that names none gives back
// all: then spends less refunds, each counted when it is made, keep to the bound. No
// refund raises a bucket above Burst. A bucket that was never full since a charge
// gets back less than it might, as it does not keep whether it was: where what
// counts is known late, at a high rate, choose a window.
//
// State: 8 bytes when Count/Period in lowest terms (microseconds) has a
// numerator of at most 1996, 16 bytes otherwise. There is no drift at any rate:
// what lies below the microsecond is kept as an exact fraction.
//
// Clock steps: however far the clock goes back, a key is locked out no longer
// than twice what Burst takes to refill; if it went back by J, at most
// J*Count/Period extra are admitted once it returns.
//
// Rule changes: what is owed in units is owed under the new numbers, from the first time
// that the key is asked for under them. What remains is Burst less that, and a key that
// owes more waits. So over any number of changes, back and forth, an interval admits at
// most the largest Burst and what flows in; each change rounds what is owed up by at most
// two microseconds of flow. A key that owes more than twice Burst after a change is locked
// out no longer than twice that and twice Burst, however far the clock goes back.
//
// Choose it for an API whose clients may burst up to a size that is yours to set
// and then keep to an even rate.
//
// Source: ITU-T I.371, virtual scheduling form of the generic cell rate
// algorithm (GCRA), of which the token bucket and the leaky bucket as a meter
// are two readings.
var TokenBucket weir.Algorithm = tokenBucket

// LeakyBucket holds Burst units and leaks Count of them per Period, evenly. A
// request is poured in if there is room for its cost, or refused. It is the
// token bucket seen from the other side and makes the same decisions.
//
// Guarantee: any interval of length d admits at most Burst +
// floor(d*Count/Period) units, hence Burst + Count in any period. A request is
// refused exactly when the real-valued bucket has less room than its cost. Units
// given back, clock steps and rule changes: as [TokenBucket].
//
// State: 8 bytes when Count/Period in lowest terms (microseconds) has a numerator
// of at most 1996, 16 bytes otherwise, without drift.
//
// Choose it where the limit is thought of as what may pile up before a server,
// and how fast the server works it off.
//
// Source: J. Turner, "New directions in communications (or which way to the
// information age?)", IEEE Communications Magazine 24(10), 1986; ITU-T I.371,
// continuous-state leaky bucket form of the GCRA.
var LeakyBucket weir.Algorithm = leakyBucket

// gcra is both buckets. It is one word: a receiver of more would push the
// arguments of Step out of the registers.
type gcra uint8

const (
	tokenBucket gcra = iota
	leakyBucket
)

// Name implements weir.Algorithm.
func (g gcra) Name() string {
	if g == leakyBucket {
		return "leaky_bucket"
	}
	return "token_bucket"
}

// What Prepare leaves in Limit.Const for the GCRA family. A span is a number
// of microseconds and a fraction over gcraParts.
const (
	gcraParts    = iota // units per gcraTime microseconds, in lowest terms
	gcraTime            // microseconds
	gcraUnit            // span of one unit, whole microseconds
	gcraUnitPart        // its fraction
	gcraFull            // span of Burst units
	gcraFullPart
	gcraMost // latest TAT after now, microseconds: the full span and as much in debt
	gcraCost // largest cost that can pass
)

// bucketLayout is that of all buckets and queues.
const bucketLayout = "tat"

// oneWordParts is the largest denominator whose fractions fit below the microsecond of the
// expiry stamp, beside the marks of rows that owe more.
const oneWordParts = 1<<weir.FractionBits - leads

// A row that owes more than gcraMost since a change has a mark in place of its fraction,
// of gcraParts or more, which stands for a microsecond: it tells the lead, the most that
// the row may owe, a power of two microseconds. In one word it is the exponent, counted
// down, else lead above the largest fraction.
const leads = 52

// maxSpan keeps TATs below 2^52 microseconds, the year 2112: shifted, they fit
// in a cell.
const maxSpan = 1 << 51

// Traits implements weir.Algorithm.
func (gcra) Traits() weir.Traits { return weir.Stamps | weir.Lends | weir.Refills }

// Prepare implements weir.Algorithm.
func (gcra) Prepare(l *weir.Limit) error {
	if err := prepareGCRA(l); err != nil {
		return err
	}
	l.Const[gcraCost] = l.Burst
	fillBound(l)
	// Burst at once, then Count over the period.
	l.Envelope = l.Burst + l.Count
	return nil
}

// fillBound fills what depends on the full span.
func fillBound(l *weir.Limit) {
	c := &l.Const
	c[gcraMost] = 2 * (c[gcraFull] + 1)
	l.Price = fmt.Sprintf("%d/%d, %d", c[gcraParts], c[gcraTime], c[gcraMost])
}

// prepareGCRA fills the constants, with a full span of Burst units.
func prepareGCRA(l *weir.Limit) error {
	period := micros.Of(l.Period)
	divisor := gcd(l.Count, period)
	c := &l.Const
	c[gcraParts], c[gcraTime] = l.Count/divisor, period/divisor
	q, r, ok := spanOfUnits(l, l.Burst)
	if !ok || q >= maxSpan/2 {
		return fmt.Errorf("%d units at %d per %s take more than %d years to flow back: lower the burst or raise the rate",
			l.Burst, l.Count, l.Period, int64(maxSpan/2)/int64(366*24*time.Hour/time.Microsecond))
	}
	c[gcraFull], c[gcraFullPart] = q, r
	c[gcraUnit], c[gcraUnitPart], _ = spanOfUnits(l, 1)
	l.Cells, l.Layout = 1, bucketLayout
	if c[gcraParts] > oneWordParts {
		l.Cells = 2
	}
	return nil
}

// spanOfUnits returns how long n units take to flow back: q microseconds and r parts.
// It reports false when that exceeds maxSpan.
func spanOfUnits(l *weir.Limit, n int64) (q, r int64, ok bool) {
	hi, lo := bits.Mul64(uint64(n), uint64(l.Const[gcraTime]))
	if hi >= uint64(l.Const[gcraParts]) {
		return maxSpan, 0, false
	}
	uq, ur := bits.Div64(hi, lo, uint64(l.Const[gcraParts]))
	if uq > maxSpan {
		return maxSpan, 0, false
	}
	return int64(uq), int64(ur), true
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// tat is a theoretical arrival time: the instant at which the bucket would be
// untouched again, us microseconds and part/gcraParts of one.
type tat struct{ us, part int64 }

// loadRow reads a row: never earlier than now, and never later than its lead allows: that
// of the limit, unless more was owed before a change.
//
// The latter holds by itself in normal running. When the clock went back it does not,
// and the row is mended at once: else the bound would move along with the clock, and a
// key stay locked out for as long as the clock went back.
func loadRow(cells []int64, l *weir.Limit, now int64) (t tat, lead int64) {
	t.us, lead = cells[0]>>weir.FractionBits, l.Const[gcraMost]
	if l.Cells == 1 {
		t.part = cells[0] & (1<<weir.FractionBits - 1)
	} else {
		t.part = cells[1]
	}
	if t.part >= l.Const[gcraParts] {
		switch { // else, of a throttle, it was written under another rate
		case l.Cells == 1:
			lead = 1 << min(oneWordParts+leads-1-t.part, leads-1)
		case t.part > weir.MaxCost:
			lead = min(t.part-weir.MaxCost, maxSpan)
		}
		t = tat{us: t.us + 1}
	}
	switch latest := now + lead; {
	case t.us < now:
		return tat{us: now}, l.Const[gcraMost]
	case t.us >= latest:
		t = tat{us: latest}
		saveRow(cells, l, t, now, lead)
	}
	return t, lead
}

// saveRow writes t to a row.
func saveRow(cells []int64, l *weir.Limit, t tat, now, lead int64) {
	if t.us-now > l.Const[gcraMost] {
		t = tat{us: t.us - 1 + min(t.part, 1), part: weir.MaxCost + lead}
		if l.Cells == 1 {
			t.part = oneWordParts + leads - int64(bits.Len64(uint64(lead)))
		}
	}
	if l.Cells == 1 {
		cells[0] = t.us<<weir.FractionBits | t.part
		return
	}
	// The stamp only has to be later than t.us when there is a fraction.
	cells[0] = t.us<<weir.FractionBits | min(t.part, 1)
	cells[1] = t.part
}

func (t tat) addSpan(l *weir.Limit, q, r int64) tat {
	t.us += q
	t.part += r
	if parts := l.Const[gcraParts]; t.part >= parts {
		t.part -= parts
		t.us++
	}
	return t
}

func (t tat) subtractSpan(l *weir.Limit, q, r int64) tat {
	t.us -= q
	t.part -= r
	if t.part < 0 {
		t.part += l.Const[gcraParts]
		t.us--
	}
	return t
}

// within reports whether t lies at most q microseconds and r parts after now.
func (t tat) within(now, q, r int64) bool {
	ahead := t.us - now
	return ahead < q || ahead == q && t.part <= r
}

// Step implements weir.Algorithm, for all of the GCRA family.
//
// Invariant: afterwards TAT <= now + the full span, unless costs were forced; a
// key never owes more than another full span.
func (gcra) Step(cells []int64, l *weir.Limit, a weir.Ask) weir.Decision {
	most := l.Const[gcraCost]
	base, lead := loadRow(cells, l, a.Now)
	q, r := l.Const[gcraUnit], l.Const[gcraUnitPart]
	if a.Cost != 1 {
		q, r, _ = spanOfUnits(l, a.Cost)
	}
	next := base.addSpan(l, q, r)
	allowed := a.Cost <= most && next.within(a.Now, l.Const[gcraFull], l.Const[gcraFullPart])

	switch {
	case a.Cost == 0:
		allowed = true
	case a.Verb == weir.Refund:
		allowed = true
		if q, r = outstanding(a, q, r); q == 0 && r == 0 {
			break
		}
		base = base.subtractSpan(l, q, r)
		if base.us < a.Now {
			base = tat{us: a.Now}
		}
		saveRow(cells, l, base, a.Now, lead)
	case a.Verb == weir.Force:
		base = next
		if latest := a.Now + lead; base.us >= latest {
			base = tat{us: latest}
		}
		saveRow(cells, l, base, a.Now, lead)
	case allowed && a.Verb == weir.Spend:
		base = next
		saveRow(cells, l, base, a.Now, lead)
	}

	d := weir.Decision{Limit: l, Remaining: unitsThatFit(l, a.Now, base), ResetAfter: resetAfter(a.Now, base)}
	if !allowed {
		d.RetryAfter = weir.Never
		if a.Cost <= most {
			d.RetryAfter = retryAfter(l, a.Now, base.addSpan(l, q, r))
		}
	}
	return d
}

// maxOwed bounds what is carried over: now and so many microseconds fit in a cell.
const maxOwed = maxSpan / 2

// Carry implements weir.Carrier.
func (gcra) Carry(cells []int64, l *weir.Limit, old []int64, was *weir.Limit, now int64) bool {
	if was.Layout != bucketLayout {
		return carryByForce(cells, l, old, was, now)
	}
	t, _ := loadRow(old, was, now)
	from, to := &was.Const, &l.Const
	ahead := min(t.us-now+min(t.part, 1), maxOwed)
	if ahead == 0 {
		return true
	}
	if from[gcraParts] != to[gcraParts] || from[gcraTime] != to[gcraTime] {
		// So many whole units, and rest/gcraTime of one.
		owed, rest := uint64(2*weir.MaxCost), uint64(0)
		hi, lo := bits.Mul64(uint64(ahead), uint64(from[gcraParts]))
		if hi < uint64(from[gcraTime]) {
			owed, rest = bits.Div64(hi, lo, uint64(from[gcraTime]))
		}
		q, r, _ := spanOfUnits(l, int64(min(owed, 2*weir.MaxCost)))
		hi, lo = bits.Mul64(rest, uint64(to[gcraTime]))
		part, more := bits.Div64(hi, lo, uint64(from[gcraTime]))
		r += int64(part + min(more, 1))
		t = tat{us: now + min(q+r/to[gcraParts], maxOwed), part: r % to[gcraParts]}
	} else if t.us-now >= maxOwed {
		t = tat{us: now + maxOwed}
	}
	saveRow(cells, l, t, now, leadOf(l, t.us-now))
	return true
}

// Spent implements weir.Carrier. What is owed counts as spent now: when it was, the row does
// not say.
func (gcra) Spent(cells []int64, l *weir.Limit, now int64, f func(at, units int64)) bool {
	t, _ := loadRow(cells, l, now)
	if ahead := t.us - now + min(t.part, 1); ahead > 0 {
		hi, lo := bits.Mul64(uint64(ahead), uint64(l.Const[gcraParts]))
		lo, carry := bits.Add64(lo, uint64(l.Const[gcraTime])-1, 0)
		owed := uint64(weir.MaxCost)
		if hi += carry; hi < uint64(l.Const[gcraTime]) {
			owed, _ = bits.Div64(hi, lo, uint64(l.Const[gcraTime]))
		}
		f(now, int64(min(owed, weir.MaxCost)))
	}
	return false
}

// leadOf returns the lead of a row that owes so much after a change: as much as the limit
// allows may come to it.
func leadOf(l *weir.Limit, ahead int64) int64 {
	return 1 << min(bits.Len64(uint64(ahead+l.Const[gcraMost])), leads-1)
}

// outstanding returns how much of the span of a refund is given back: what has
// flowed in since the charge would be there twice. Where it is not known when that
// was, no more is given back than was missing after the spend that the ID names.
func outstanding(a weir.Ask, q, r int64) (int64, int64) {
	switch {
	case a.ID < 0:
		age := a.Now + a.ID
		switch {
		case age > q:
			return 0, 0
		case age > 0: // else the clock went back, or kept units flow in first
			return q - age, r
		}
	case a.ID > 0:
		if left := max(a.ID-a.Now, 0); left <= q {
			return left, 0
		}
	}
	return q, r
}

// FlowsFrom implements weir.Refiller: a charge flows back on its own account, unit
// by unit, whatever else the bucket owes.
func (gcra) FlowsFrom(l *weir.Limit, charged, reset, kept int64) int64 {
	if reset-charged >= l.Const[gcraMost] {
		// It met the bound on what a key may owe. How much of it was charged is not
		// known: as if all had flowed back long ago.
		return 0
	}
	q, _, _ := spanOfUnits(l, kept)
	return charged + q
}

// retryAfter returns the time from now until a request that leads to next
// passes, rounded up.
func retryAfter(l *weir.Limit, now int64, next tat) time.Duration {
	wait := next.us - now - l.Const[gcraFull]
	if next.part > l.Const[gcraFullPart] {
		wait++
	}
	return micros.Duration(wait)
}

// unitsThatFit returns how many units fit between t and now plus the full span, at most
// weir.MaxCost.
func unitsThatFit(l *weir.Limit, now int64, t tat) int64 {
	us := l.Const[gcraFull] - (t.us - now)
	part := l.Const[gcraFullPart] - t.part
	if part < 0 {
		us--
		part += l.Const[gcraParts]
	}
	if us < 0 {
		return 0
	}
	if l.Const[gcraParts] == 1 {
		return us / l.Const[gcraTime]
	}
	hi, lo := bits.Mul64(uint64(us), uint64(l.Const[gcraParts]))
	lo, carry := bits.Add64(lo, uint64(part), 0)
	switch hi += carry; {
	case hi == 0:
		return int64(min(lo/uint64(l.Const[gcraTime]), weir.MaxCost))
	case hi >= uint64(l.Const[gcraTime]):
		return weir.MaxCost
	}
	n, _ := bits.Div64(hi, lo, uint64(l.Const[gcraTime]))
	return int64(min(n, weir.MaxCost))
}

// resetAfter returns the time from now until t, rounded up.
func resetAfter(now int64, t tat) time.Duration {
	us := t.us - now
	if t.part > 0 {
		us++
	}
	return micros.Duration(us)
}

//go:embed gcra.lua
var gcraLua string

// Script implements Scripted.
func (gcra) Script() Script { return Script{Name: "gcra", Text: gcraLua, Spans: 2, States: 2} }

// Consts implements Scripted.
func (gcra) Consts(dst []int64, l *weir.Limit, _ int64) ([]int64, int64) {
	return gcraConsts(dst, l, 0), forever
}

// gcraConsts appends what gcra.lua is told of l; queue is 1 if nobody may leave
// but the last.
func gcraConsts(dst []int64, l *weir.Limit, queue int64) []int64 {
	c := &l.Const
	time := c[gcraTime]
	if l.Price == "" { // rows are read alike under all numbers
		time = 0
	}
	return append(dst, c[gcraFull], c[gcraMost], c[gcraParts], c[gcraFullPart], queue, time, int64(float32(c[gcraMost])))
}

// Span implements Scripted.
func (gcra) Span(dst []int64, l *weir.Limit, cost int64) []int64 {
	q, r, _ := spanOfUnits(l, cost)
	return append(dst, q, r)
}

// Describe implements Scripted.
func (gcra) Describe(l *weir.Limit, a weir.Ask, allowed bool, state []int64) weir.Decision {
	var cells [2]int64
	saveRow(cells[:], l, tat{us: state[0], part: state[1]}, a.Now, leadOf(l, state[0]-a.Now))
	return describeCells(cells[:], l, a, allowed)
}

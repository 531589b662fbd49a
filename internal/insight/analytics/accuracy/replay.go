package accuracy

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// Replay decides arrivals under one limit, with the code that a node decides with.
// Not safe for concurrent use.
type Replay struct{ limit *weir.Limit }

// NewReplay returns a replay under a limit. The error says why the limit cannot be
// one, or why it cannot be replayed: leases end when their holders say so, lockouts
// count failures, and a sketch is shared, none of which arrivals tell.
func NewReplay(l Limit) (*Replay, error) {
	if err := l.checkBounds(); err != nil {
		return nil, err
	}
	a := algorithm.ByName(l.Algorithm)
	if a == nil {
		return nil, fmt.Errorf("accuracy: there is no algorithm %.40q", l.Algorithm)
	}
	limit, err := l.compile(a)
	if err != nil {
		return nil, fmt.Errorf("accuracy: %w", err)
	}
	if !ofRates(a, limit.Traits()) {
		return nil, fmt.Errorf("accuracy: %s does not limit a rate by what arrives alone", l.Algorithm)
	}
	return &Replay{limit}, nil
}

// DecideKey appends to dst what the limit decides on the arrivals of one key that nobody
// has seen before, in order of time. What was decided then does not matter.
func (r *Replay) DecideKey(dst, arrivals []Arrival) []Arrival {
	decided, _ := decideArrivals(dst, &row{limit: r.limit}, arrivals)
	return decided
}

// decideArrivals appends to dst what the limit of a row decides on the arrivals of its key,
// and returns how often it wrote to the row.
func decideArrivals(dst []Arrival, row *row, arrivals []Arrival) (decided []Arrival, writes int64) {
	for _, a := range arrivals {
		d := row.decideArrival(a.At, a.Cost)
		one := Arrival{At: a.At, Cost: a.Cost, Admitted: d.Allowed(), Delay: d.Delay(a.Cost).Microseconds()}
		dst = append(dst, one)
		if one.Admitted && a.Cost > 0 {
			writes++
		}
	}
	return dst, writes
}

// countWaits returns how many of the decisions that passed wait, and the longest wait.
func countWaits(decided []Arrival) (n int64, longest time.Duration) {
	for _, a := range decided {
		if a.Admitted && a.Delay > 0 {
			n++
			longest = max(longest, time.Duration(a.Delay)*time.Microsecond)
		}
	}
	return n, longest
}

// compile returns the limit with an algorithm. Its burst counts if its own algorithm has one.
func (l *Limit) compile(a weir.Algorithm) (*weir.Limit, error) {
	limit := &weir.Limit{Algorithm: a, Count: l.Allowance, Period: l.Period}
	if slices.Contains([]string{algorithm.TokenBucket.Name(), algorithm.LeakyBucket.Name(), algorithm.LeakyQueue.Name()}, l.Algorithm) {
		limit.Burst = l.Burst
	}
	return limit, limit.Compile()
}

// ofRates reports whether an algorithm limits a rate by a key's own state: leases
// end when their holders say so, lockouts count failures, and a sketch is shared.
func ofRates(a weir.Algorithm, traits weir.Traits) bool {
	return traits&(weir.Leases|weir.Sketches) == 0 && !slices.Contains(
		[]weir.Algorithm{algorithm.Concurrency, algorithm.Approximate, algorithm.Lockout}, a)
}

// row is one key's state.
type row struct {
	limit *weir.Limit
	cells []int64
	most  int64 // cells that it had at most
}

// decideArrival decides one arrival.
func (r *row) decideArrival(now, cost int64) weir.Decision {
	ask := weir.Ask{Now: now, Cost: cost}
	need := r.limit.Cells
	if g, ok := r.limit.Algorithm.(weir.Grower); ok {
		if r.cells == nil {
			r.cells = make([]int64, 1)
		}
		need = g.Room(r.cells, r.limit, ask)
	}
	for len(r.cells) < need {
		r.cells = append(r.cells, 0)
	}
	r.most = max(r.most, int64(need))
	return r.limit.Algorithm.Step(r.cells, r.limit, ask)
}

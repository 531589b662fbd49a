package weir

import (
	"context"
	"fmt"
	"time"
)

// Verb is what an [Ask] wants done.
type Verb uint8

const (
	// Spend takes the cost if all of it is there.
	Spend Verb = iota
	// Peek answers as Spend would and changes nothing.
	Peek
	// Force takes the cost whether it is there or not: a cost that was already
	// incurred. Its decision still says whether a Spend would have passed.
	Force
	// Refund gives back a cost that was spent and not used. It never raises a
	// key above untouched. It is always allowed, but for a lease that nobody holds.
	Refund
)

// String returns the verb's name.
func (v Verb) String() string {
	switch v {
	case Spend:
		return "spend"
	case Peek:
		return "peek"
	case Force:
		return "force"
	case Refund:
		return "refund"
	}
	return "verb?"
}

// Ask is what is asked of one key.
type Ask struct {
	// Now is the store's time: microseconds since the Unix epoch.
	Now int64
	// Cost is in units, never negative. A cost of zero looks and changes
	// nothing; it is always allowed.
	Cost int64
	// ID says which spend is meant. For a concurrency limit it names the lease:
	// spending again with the same ID renews it, refunding releases it. For
	// any other Refund it is the spend's receipt, see [Op.Receipt]: units of a
	// window that is over are not given back, nor more of a bucket than may be
	// missing. Below zero it is the instant of the charge, negated, see [Refiller].
	// Zero means no particular spend: all is given back.
	ID   int64
	Verb Verb
}

// Algorithm decides one limit for one key. Implementations are stateless
// values, safe for concurrent use: all state is in the cells.
//
// A store keeps for each key a row of at least l.Cells int64 words, all zero
// for a key never seen, and calls Step while it holds the row's lock. Rules for
// an implementation:
//
//   - Step is pure: its answer depends on its arguments alone.
//   - cells[0] is the key's expiry stamp: the instant, in microseconds shifted
//     left by FractionBits, from which the key is as if never seen. The low
//     bits are the algorithm's own. A store may forget a row as soon as
//     now<<FractionBits >= cells[0], without asking.
//   - A refused Spend, a Peek and a cost of zero leave the cells as they are,
//     but for one repair: what lies further in the future than the limit allows,
//     as the clock went back or the burst was lowered, may be brought down.
//   - Step must accept any cells that an earlier version of the same limit
//     left behind (counts and periods change when rules are reloaded) as long
//     as l.Layout and l.Price are the same, and any clock step in both directions.
//   - No intermediate of the admitting half exceeds 2^53 in what a store's
//     script must compute, and it divides nothing: Prepare does.
type Algorithm interface {
	// Name is the word in rules files and metrics: "token_bucket".
	Name() string
	// Traits says what is special about it, and which of the optional interfaces
	// [Grower], [Shaper], [Lender] and [Refiller] it has: others are not looked for.
	Traits() Traits
	// Prepare checks the limit and fills its compiled part: Cells, Full,
	// Layout, Const, Envelope. It is called once, by [Limit.Compile].
	Prepare(l *Limit) error
	// Step answers a and updates cells in place.
	Step(cells []int64, l *Limit, a Ask) Decision
}

// Shaper is an Algorithm that lets requests pass later instead of refusing
// them.
type Shaper interface {
	// Delay returns how long the request that got the allowed decision d for
	// cost must wait.
	Delay(d Decision, cost int64) time.Duration
}

// Grower is an Algorithm whose keys need more room as they are used. A store
// may keep a row shorter than l.Cells and must call Room before each Step.
type Grower interface {
	// Room returns how many cells the Step for a needs, at least 1 and at most
	// l.Cells. cells is the row as it is.
	Room(cells []int64, l *Limit, a Ask) int
}

// Lender is an Algorithm whose units may be charged to a key first and spent
// later, by a node that fetches them ahead.
type Lender interface {
	// SpendBy returns until when units may be spent that were charged with the
	// given receipt, see [Op.Receipt], so that they count in the time that they
	// were charged to: microseconds since the Unix epoch. Math.MaxInt64 means
	// that no time is bound to them: an interval of length d sees what one of
	// d + Limit.LeaseTTL was charged.
	SpendBy(l *Limit, receipt int64) int64
}

// Refiller is an Algorithm without windows, whose units flow back from the instant
// of their charge on. It takes back what has not flowed in since.
type Refiller interface {
	// FlowsFrom returns the instant from which units flow back that were charged at
	// charged, after the first kept of the same charge; at reset the key was to be
	// as never seen. All are in microseconds since the Unix epoch.
	FlowsFrom(l *Limit, charged, reset, kept int64) int64
}

// Carrier is an Algorithm whose rows say what is spent by the numbers of the limit: as the
// time that it takes to flow back, for example. When those change, the limit has another
// Price, and what is spent is carried over in units. A store keeps one row of a counter,
// by the price of the limit that asked last.
type Carrier interface {
	// Carry fills cells, which are zero, with the row under l of a counter whose row under
	// was is old: so many units are spent at now under l as under was. What is rounded is
	// spent. It reports whether all is in it: else l can only decide by it, and old is to
	// be charged, and kept until all is.
	Carry(cells []int64, l *Limit, old []int64, was *Limit, now int64) (whole bool)
	// Spent calls f with what the row counts, or is owed, at now, the oldest first: units,
	// and when they were spent at the latest. It reports whether that is all that counts of
	// what was spent in a period.
	Spent(cells []int64, l *Limit, now int64, f func(at, units int64)) (all bool)
}

// Traits are what is special about an algorithm, as bits: a store reads them on every
// decision, where a type assertion would cost too much.
type Traits uint8

const (
	// Grows: the algorithm is a [Grower].
	Grows Traits = 1 << iota
	// Leases: every spend is a lease with an ID that must not be zero.
	Leases
	// Shapes: it is a [Shaper].
	Shapes
	// Sketches: keys share their state in a sketch. A store that can hold one keeps
	// the sketch and decides; Step is never called.
	Sketches
	// Stamps: a row can be overestimated by its first cell alone: a row of nothing but
	// a stamp, rounded up to the whole microsecond, admits nothing that a row with that
	// stamp or an earlier one would refuse. A store that is full may keep the stamps of
	// many keys in a sketch.
	Stamps
	// Lends: it is a [Lender].
	Lends
	// Refills: it is a [Refiller].
	Refills
)

// checkMethods returns an error if an algorithm lacks the methods that its traits promise.
func (t Traits) checkMethods(a Algorithm) error {
	_, grows := a.(Grower)
	_, shapes := a.(Shaper)
	_, lends := a.(Lender)
	_, refills := a.(Refiller)
	for _, m := range [...]struct {
		trait Traits
		has   bool
		name  string
	}{{Grows, grows, "Grower"}, {Shapes, shapes, "Shaper"}, {Lends, lends, "Lender"}, {Refills, refills, "Refiller"}} {
		if t&m.trait != 0 && !m.has {
			return fmt.Errorf("algorithm %s: its Traits promise a weir.%s, which it is not", a.Name(), m.name)
		}
	}
	return nil
}

// Store keeps the cells of every key and tells the time. Implementations are
// safe for concurrent use.
type Store interface {
	// Take decides ops together and fills the answer of each. Either every op
	// that its role says must be charged is charged, or none is, see [Resolve].
	// An error means that nothing was decided, nor charged as far as the store
	// can tell.
	//
	// A store must not keep an op's Key after it has returned.
	Take(ctx context.Context, ops []Op) error
	// TakeOne is Take for a single Spend in the role Enforce.
	TakeOne(ctx context.Context, key string, l *Limit, cost int64) (Decision, error)
	// Close ends the store; calls after it return ErrClosed.
	Close() error
}

// NodeStore is an optional interface of a [Store] of several nodes, each of which counts
// some limits alone.
type NodeStore interface {
	// NodeOf names this process among the nodes, and reports whether it counts l alone.
	NodeOf(l *Limit) (node uint64, alone bool)
}

// NodeOf is the answer of s to NodeStore.NodeOf: zero and false where there are no nodes.
func NodeOf(s Store, l *Limit) (node uint64, alone bool) {
	if n, ok := s.(NodeStore); ok {
		return n.NodeOf(l)
	}
	return 0, false
}

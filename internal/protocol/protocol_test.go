package protocol

import (
	"math"
	"os"
	"testing"
	"time"
)

// soak: whole state spaces of larger machines, or a hundred million states of each.
var soak = os.Getenv("WEIR_SOAK") == "1"

const (
	short = 2_500_000
	long  = 100_000_000
	// settled is how many states the second pass has room for.
	settled = 25_000_000
)

// holds explores a machine whole and fails if an invariant does not hold, or if there are
// more states than most.
func holds[S comparable](t *testing.T, name string, m Machine[S]) {
	t.Run(name, func(t *testing.T) {
		if r := explore(t, m, short, true); !r.Whole {
			t.Fatalf("%+v\n%v", m, r)
		}
	})
}

// soaks explores a machine as far as there is room. Where it fits, it is explored again
// with the second pass.
func soaks[S comparable](t *testing.T, name string, m Machine[S]) {
	t.Run(name, func(t *testing.T) {
		if !soak {
			t.Skip("takes long: set WEIR_SOAK=1")
		}
		if r := explore(t, m, long, false); r.Whole && r.States < settled {
			explore(t, m, settled, true)
		}
	})
}

// explore fails if an invariant does not hold, and logs what was seen.
func explore[S comparable](t *testing.T, m Machine[S], most int, settles bool) Result[S] {
	t.Helper()
	began := time.Now()
	r := Explore(m, most, settles)
	if r.Broken != "" {
		t.Fatalf("%+v\n%v", m, r)
	}
	extent := "cut"
	if r.Whole {
		extent = "whole"
	}
	n := float64(r.States)
	t.Logf("%d states, %s, depth %d, second pass %t, %.1f s, %d MB, %.0e expected to be missed",
		r.States, extent, r.Depth, settles, time.Since(began).Seconds(), r.Bytes>>20, math.Ldexp(n*n, -65))
	return r
}

// caught fails unless an invariant of a machine that is broken on purpose is found not to
// hold, after as many steps.
func caught[S comparable](t *testing.T, name string, m Machine[S], depth int, broken string) {
	t.Run(name, func(t *testing.T) {
		r := Explore(m, short, false)
		if len(r.Trace)-1 != depth || r.Broken != broken {
			t.Fatalf("want %q after %d steps, got %v", broken, depth, r)
		}
	})
}

func TestLease(t *testing.T) {
	const uncounted = "the store counts less than was admitted and is held"
	holds(t, "no faults", lease{limit: 2, window: 2})
	holds(t, "drift", lease{limit: 2, window: 3, margin: 1, drift: true})
	holds(t, "suspend", lease{limit: 2, window: 3, suspend: true})
	holds(t, "crash", lease{limit: 2, window: 2, crash: true})
	holds(t, "fail over", lease{limit: 2, window: 2, failOver: true})
	soaks(t, "drift and suspend", lease{limit: 3, window: 3, margin: 1, drift: true, suspend: true})
	soaks(t, "all", lease{limit: 3, window: 3, margin: 1, drift: true, suspend: true, crash: true, failOver: true})

	caught(t, "B1 life from the answer", lease{limit: 2, window: 2, lifeFromAnswer: true}, 6, uncounted)
	caught(t, "B2 expiry looked at once", lease{limit: 2, window: 2, checkedOnce: true}, 6, uncounted)
	caught(t, "B3 drift without a margin", lease{limit: 2, window: 3, drift: true}, 7, uncounted)
	caught(t, "B3 suspend unnoticed", lease{limit: 2, window: 2, suspend: true, sleepUnnoticed: true}, 6, uncounted)
	caught(t, "a fetch outlives lost time", lease{limit: 2, window: 3, suspend: true, flightsSurvive: true}, 8, uncounted)
	caught(t, "B4 return sent again", lease{limit: 2, window: 2, resentReturn: true}, 5, uncounted)
	caught(t, "B5 return after its window", lease{limit: 2, window: 2, lateReturn: true}, 9, uncounted)
	caught(t, "return of what was fetched", lease{limit: 2, window: 2, returnedFetched: true}, 5, uncounted)
}

func TestBucket(t *testing.T) {
	const tooMuch = "more is drawn at once than the burst"
	holds(t, "burst 3", bucket{burst: 3, ttl: 1})
	holds(t, "burst 4", bucket{burst: 4, ttl: 2})
	soaks(t, "burst 7", bucket{burst: 7, ttl: 3})

	caught(t, "returns whole", bucket{burst: 4, ttl: 1, returns: allUnits}, 18, tooMuch)
	caught(t, "returns by receipt", bucket{burst: 4, ttl: 1, returns: byReceipt}, 23, tooMuch)
	caught(t, "loose", bucket{burst: 4, ttl: 1, loose: true}, 12, tooMuch)

	holds(t, "slow, burst 3", bucket{burst: 3, ttl: 1, slow: true})
	holds(t, "slow, burst 4", bucket{burst: 4, ttl: 2, slow: true})
	soaks(t, "slow, burst 7", bucket{burst: 7, ttl: 3, slow: true})
	caught(t, "slow, a lot outlives the whole bucket", bucket{burst: 3, ttl: 1, slow: true, outlives: true}, 11, tooMuch)
	caught(t, "slow, returns less inflow alone", bucket{burst: 4, ttl: 2, slow: true, late: true}, 17, tooMuch)
}

func TestPrice(t *testing.T) {
	const cheap = "less time is charged than that of units that are admitted or held"
	holds(t, "owed 3", price{most: 3})
	soaks(t, "owed 6", price{most: 6})

	caught(t, "B6 today's price", price{most: 4, todaysPrice: true}, 6, cheap)
	caught(t, "number kept over a reload", price{most: 4, keptNumber: true}, 7, cheap)
}

func TestTally(t *testing.T) {
	const over = "more is admitted than the limit, what it may be overshot by and what the store has lost"
	holds(t, "one unit", tally{limit: 1, overshoot: 1, share: 1, window: 1})
	soaks(t, "two ticks", tally{limit: 1, overshoot: 1, share: 1, window: 2})
	soaks(t, "crash", tally{limit: 1, overshoot: 2, share: 1, window: 2, crash: true})
	soaks(t, "fail over", tally{limit: 1, overshoot: 2, share: 1, window: 2, failOver: true})
	soaks(t, "all", tally{limit: 2, overshoot: 4, share: 2, window: 2, crash: true, failOver: true})

	caught(t, "B8 taken for counted", tally{limit: 1, overshoot: 2, share: 1, window: 2, takenForCounted: true}, 11, over)
	caught(t, "B9 slack outlives its window", tally{limit: 1, overshoot: 2, share: 1, window: 2, slackOutlives: true}, 18, over)
	caught(t, "B9 own count of nodes", tally{limit: 1, overshoot: 2, share: 1, window: 2, ownSlack: true}, 14, over)
	caught(t, "B10 old name", tally{limit: 1, overshoot: 1, share: 1, window: 2, crash: true, oldName: true}, 17, over)
	caught(t, "older answers believed", tally{limit: 1, overshoot: 2, share: 1, window: 2, olderBelieved: true}, 15, over)
}

func TestPermit(t *testing.T) {
	const tooMany = "more permits are held than the limit"
	holds(t, "crash", permit{limit: 2, period: 2, spare: 1, crash: true})
	soaks(t, "limit 3", permit{limit: 3, period: 2, spare: 1, crash: true})

	caught(t, "B11 handed out longer", permit{limit: 2, period: 2, spare: 1, handedOutLonger: true}, 12, tooMany)
	caught(t, "B11 lot grows", permit{limit: 2, period: 2, spare: 1, grownLot: true}, 14, tooMany)
	caught(t, "life from the answer", permit{limit: 2, period: 2, spare: 1, lifeFromAnswer: true}, 12, tooMany)
	caught(t, "name used again", permit{limit: 2, period: 2, spare: 1, usedName: true}, 9, tooMany)
}

func TestSettle(t *testing.T) {
	holds(t, "two settlers", settle{})

	const twice = "a slot is charged twice"
	caught(t, "second slot without a mark", settle{unmarked: true}, 8, twice)
	caught(t, "mark undone that may have run", settle{undone: true}, 5, twice)
	caught(t, "own cost", settle{ownCost: true}, 7, "two slots are settled with two costs")
	caught(t, "stops at a mark", settle{stops: true}, 5, "a caller hears that it is settled, and a slot is not charged")
}

func TestHoming(t *testing.T) {
	holds(t, "at home", homing{})
	holds(t, "away", homing{moved: true})

	caught(t, "comes home under its number", homing{moved: true, keeps: true}, 9, "a server charges twice")
	caught(t, "goes along", homing{strays: true}, 6, "nobody has charged what is said to be")
	if r := Explore(homing{moved: true, stays: true}, short, true); r.Broken != "no idle state can be reached" {
		t.Errorf("stays: %v", r)
	}
}

func TestOutage(t *testing.T) {
	holds(t, "limit 3", outage{limit: 3})
	soaks(t, "limit 6", outage{limit: 6})

	const (
		twice = "more is admitted by the share in one outage than was left"
		owes  = "the node owes more than it knows"
		paid  = "the store was paid more than was owed"
	)
	caught(t, "B12 share back first", outage{limit: 3, shareBackFirst: true}, 11, twice)
	caught(t, "open read as settled", outage{limit: 3, openIsPaid: true}, 5, owes)
	caught(t, "new share while owing", outage{limit: 3, newShare: true}, 11, twice)
	caught(t, "share back in use", outage{limit: 3, backWhileInUse: true}, 7, owes)
	caught(t, "paid again", outage{limit: 3, paidAgain: true}, 12, paid)
	caught(t, "paid again under another mark", outage{limit: 3, markForgotten: true}, 12, paid)
}

func TestBreaker(t *testing.T) {
	holds(t, "two failures", breaker{budget: 1, timeout: 2, failures: 2})
	soaks(t, "three failures", breaker{budget: 2, timeout: 4, failures: 3})

	const opened = "the breaker of a shard that answers is open"
	caught(t, "B12 callers count", breaker{budget: 1, timeout: 2, failures: 2, callersCount: true}, 4, opened)
	caught(t, "the queue counts", breaker{budget: 1, timeout: 2, failures: 2, queueCounts: true}, 6, opened)
	caught(t, "background by the budget", breaker{budget: 1, timeout: 2, failures: 2, backgroundByBudget: true}, 7, opened)
}

func TestNumber(t *testing.T) {
	holds(t, "limit 3", number{limit: 3})
	soaks(t, "limit 8", number{limit: 8})

	const more = "the node has more than the store counts"
	caught(t, "last asked", number{limit: 3, lastAsked: true}, 8, more)
	caught(t, "old mark", number{limit: 3, oldMark: true}, 9, more)
	caught(t, "late answer adopted", number{limit: 3, lateAdopted: true}, 7, more)
}

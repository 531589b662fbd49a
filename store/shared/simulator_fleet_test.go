package shared

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/outage"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A fleet is some nodes, servers, and the limits of which each node is asked.
type fleet struct {
	*world
	testing.TB
	layout       layout
	servers      []*server
	homes        [limits]*server // of the keys of the limits
	links        []*link         // between regions
	troubles     troubles
	nodes        []*node
	stores       []*Store      // of all nodes that ever were
	limits       []*weir.Limit // as they are now
	ids          [limits]uint64
	counts       []int64     // that they begin with
	marks        *weir.Limit // of reservations that were settled
	truths       []*truth
	shareLimits  []*weir.Limit // what a node admits at most while the server is out
	pause        int64         // between two decisions of a client
	holdFor      int64         // a permit
	often        int64         // something happens
	leastNodes   int           // that a node takes for granted
	impatient    int           // one of so many callers leaves early
	patience     int64         // within so long
	asked        []int         // the limits, by how often they are asked
	seldom       int           // one of so many decisions is of a kind that most often needs a call
	reservations []*reservation
	deliveries   []*delivery // that have arrived
	lastID       int64
	decisions    int
	degraded     int
	isOver       bool
	isHealthy    bool
	isQuick      bool // its windows and leases are short
	isStormy     bool // nodes and servers are cut off often, and more is asked for than there is
	isSet        bool // clocks are set
	failsOver    bool
}

// The limits of a fleet.
const (
	atWindow = iota
	atBucket
	atStrict
	atTally
	atPermits
	limits
)

var names = [limits]string{"window", "bucket", "strict", "tally", "permits"}

var windows = []weir.Algorithm{
	algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows, algorithm.LeakyBucket,
}

// clientsOf is how many clients a node has, who ask ten times a second together.
const clientsOf, asksASecond = 3, 10

// newFleet makes what a seed says.
func newFleet(t testing.TB, seed uint64, trace bool) *fleet {
	w := newWorld(seed)
	if trace {
		w.trace = &strings.Builder{}
	}
	f := &fleet{world: w, TB: t, pause: clientsOf * 1_000_000 / asksASecond, impatient: 8, patience: 30_000}
	f.asked = append([]int{atStrict, atPermits}, slices.Repeat([]int{atWindow, atBucket, atTally, atWindow, atBucket}, 12)...) // most decisions need no call
	f.seldom, f.often = 128, 10_000_000
	f.isStormy = seed%16 == 9 || seed%16 == 6
	if f.isQuick = seed%4 == 1 && seed%16 != 13 || f.isStormy; f.isQuick {
		f.asked, f.seldom, f.often = []int{0, 1, 2, 3, 4, 4}, 64, 2_000_000
	}
	if seed%8 == 1 {
		f.asked = []int{3, 4, 4, 4}
	}
	if f.isStormy {
		f.often = 1_000_000
	}
	f.isSet, f.failsOver = seed%4 == 3, seed%3 == 2
	f.troubles = f.draw(seed)
	f.lay(seed)
	n := 2 + f.IntN(4)
	if f.leastNodes = 1; seed%2 == 0 { // else nodes know of others what the server tells
		f.leastNodes = n
	}
	seconds, spare := 20+f.Int64N(40), int64(100+f.IntN(80))
	if f.isQuick {
		seconds, spare = 2+f.Int64N(12), int64(70+f.IntN(60))
	}
	if f.isStormy {
		spare = int64(30 + f.IntN(30))
	}
	asks := [limits]int64{} // in a second, in hundredths
	for _, at := range f.asked {
		asks[at] += int64(100 * n * asksASecond / len(f.asked))
	}
	for _, a := range asks {
		f.counts = append(f.counts, max(a*seconds*spare/8000, int64(8*n)))
	}
	if f.counts[atPermits] = int64(8*n) + f.Int64N(20); !f.isQuick {
		f.counts[atPermits] *= 3
	}
	f.limits, f.truths = make([]*weir.Limit, limits), make([]*truth, limits)
	algorithms := [limits]weir.Algorithm{windows[f.IntN(len(windows))], algorithm.TokenBucket, algorithm.FixedWindow, algorithm.FixedWindow, algorithm.Concurrency}
	for at := range limits {
		l := &weir.Limit{Name: names[at], Algorithm: algorithms[at], Count: f.counts[at], Period: time.Duration(seconds) * time.Second}
		l.Consistency.Mode, l.Consistency.OnStoreError = params.ConsistencyLeased, errorPolicies[f.IntN(len(errorPolicies))]
		switch at {
		case atStrict:
			l.Consistency.Mode = params.ConsistencyStrict
		case atWindow, atBucket:
			if f.layout != alone && f.layout != regions && f.IntN(4) == 0 {
				l.Consistency.Mode = params.ConsistencyStrict
			}
		case atTally:
			l.Consistency.Mode, l.Consistency.MaxOvershoot = params.ConsistencyEventual, l.Count/4
		case atPermits:
			l.Period = time.Duration(1+f.Int64N(3)) * time.Second
			if !f.isQuick {
				l.Period *= 5
			}
		}
		if !f.isQuick {
			l.Consistency.LeaseTTL, l.Consistency.SyncInterval, l.Consistency.Share = l.Period/4, 4*time.Second, 1+f.Int64N(2)
		}
		if f.layout == regions && at < atPermits && at != atStrict {
			l.Consistency.Mode, l.Consistency.MaxOvershoot = params.ConsistencyEventual, max(l.Count/4, 4)
		}
		f.limits[at] = f.compile(l)
		f.ids[at] = l.ID()
		f.truths[at] = newTruth(w, f.mostOf(l))
		largest := &weir.Limit{Name: l.Name, Algorithm: l.Algorithm, Count: 2 * l.Count, Period: l.Period} // by a reload
		f.shareLimits = append(f.shareLimits, f.compile(shareOf(f.compile(largest), f.partsOf(l))))
	}
	f.marks = &weir.Limit{Name: "marks", Algorithm: algorithm.FixedWindow, Count: 1, Period: time.Minute}
	f.marks.Consistency.Mode, f.marks.Consistency.OnStoreError, f.marks.Params.Anchor = params.ConsistencyStrict, params.OnErrorDeny, params.AnchorFirst
	f.marks.Consistency.Pinned = true
	f.compile(f.marks)
	f.holdFor = f.counts[atPermits] * 1_000_000 / max(asks[atPermits], 1) * int64(60+f.IntN(80))
	if f.isStormy {
		f.holdFor *= 2
	}
	f.nodes = make([]*node, n)
	for i := range f.nodes {
		f.nodes[i] = f.boot(i)
	}
	f.start(nil, 0, f.disturb)
	if f.isSet {
		f.start(nil, 0, f.setClocks)
	}
	return f
}

// lay has servers keep the keys. The clocks of several are a second apart at most.
func (f *fleet) lay(seed uint64) {
	n := 1
	if f.layout = layouts[seed%uint64(len(layouts))]; seed%8 == 1 {
		f.layout = alone // most decisions are of permits
	} else if f.layout != alone {
		n = 2 + f.IntN(2)
	}
	for i := range n {
		s := newServer(f, i)
		f.servers = append(f.servers, s)
		switch {
		case f.layout == regions:
			f.joinRegions(s)
		case i > 0 && f.IntN(2) == 0:
			s.set = f.Int64N(1_000_001) - 500_000
		}
		if f.failsOver {
			s.rows.keeps = 200_000
		}
	}
	for at, name := range names {
		f.homes[at] = f.homeOf(name)
	}
}

// isStrict reports whether servers alone decide a limit.
func (f *fleet) isStrict(at int) bool {
	return f.limits[at].Consistency.Mode == params.ConsistencyStrict
}

func (f *fleet) compile(l *weir.Limit) *weir.Limit {
	if err := l.Compile(); err != nil {
		f.Fatal(err)
	}
	return l
}

// mostOf returns what is admitted by a limit at most.
func (f *fleet) mostOf(l *weir.Limit) *weir.Limit {
	most := &weir.Limit{Name: l.Name, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period}
	switch {
	case l.Consistency.Mode != params.ConsistencyEventual:
	case l.Traits()&weir.Refills != 0:
		most.Burst = l.Burst + l.Consistency.MaxOvershoot
	default:
		most.Count += l.Consistency.MaxOvershoot
	}
	return f.compile(most)
}

// limitOf returns which limit has an ID, less than 0: none.
func (f *fleet) limitOf(id uint64) int {
	return slices.Index(f.ids[:], id)
}

// draw returns the troubles of a seed. Every fifth fleet is healthy: its server answers in
// time, and nothing stands still.
func (f *fleet) draw(seed uint64) troubles {
	some := troubles{quick: 1 + f.Int64N(3000)}
	if seed%5 == 0 {
		f.isHealthy, f.failsOver = true, false // and its callers leave before it answers
		f.impatient, f.patience = 1, 2*some.quick
		if f.isQuick {
			f.asked = []int{0, 1, 2, 2, 2, 2, 2, 3, 4}
		}
		return some
	}
	rate := func() int { return f.IntN(2) * (10 + f.IntN(100)) }
	some.loseCall, some.loseAnswer, some.slowCall, some.slowAnswer, some.repeat = rate(), rate(), rate(), rate(), rate()/4
	some.slow = []int64{30_000, 300_000, 3_000_000}[f.IntN(3)]
	return some
}

// settleAll lets the clients end, and looks whether the server has all permits when nothing
// is under way (I16).
func (f *fleet) settleAll() {
	f.isOver = true
	f.troubles = troubles{quick: 1000}
	l, last := f.limits[atPermits], f.now
	for _, s := range f.servers {
		last = max(last, s.stillUntil) // what is on its way arrives then
		s.downUntil, s.stillUntil, s.slowUntil = 0, 0, 0
	}
	for _, l := range f.links {
		l.cutUntil, l.slowUntil = 0, 0
	}
	for _, n := range f.nodes {
		n.cutOff = 0
		f.stand(n.machine, false)
	}
	f.run(max(f.now+8_000_000, last) + 3*micros.Of(l.Period))
	for _, s := range f.servers {
		ops := []weir.Op{{Key: l.Name, Limit: l, Cost: 1, Verb: weir.Peek}}
		if s.take(ops); ops[0].Decision.Remaining != l.Count {
			f.fail("%d of %d permits are left, nobody has one", ops[0].Decision.Remaining, l.Count)
		}
	}
}

// A result is what came of a seed.
type result struct {
	hash                              uint64
	events, decisions, degraded, call int
	admitted                          [limits]int
	seconds                           float64 // of all nodes
	broken, trace, how                string
}

// length is how long a fleet runs, in seconds. A quick one sees as much in less.
const length, quickLength = 360, 30

// simulate runs a seed.
func simulate(t testing.TB, seed uint64, trace bool) (r result) {
	f, seconds := newFleet(t, seed, trace), int64(length)
	if f.isQuick {
		seconds = quickLength
	}
	f.run(seconds * 1_000_000)
	if f.broken == "" {
		f.checkClocks()
		f.settleAll()
	}
	f.stopAll()
	for _, s := range f.stores { // what their pools have would live until the collection after next
		*s.queue, *s.outage, *s = transport.Queue{}, outage.Outage{}, Store{}
	}
	r = result{hash: f.hash, events: f.count, decisions: f.decisions, degraded: f.degraded, seconds: float64(min(f.now/1e6, seconds)) * float64(len(f.nodes)), broken: f.broken}
	for i, x := range f.truths {
		r.admitted[i] = x.admitted
	}
	for _, s := range f.servers {
		r.call += s.calls
	}
	r.how = fmt.Sprintf("%d nodes, %d servers laid out as %d, %s of %d in %s, %d permits for %s, %+v", len(f.nodes), len(f.servers), f.layout, f.limits[0].Algorithm.Name(), f.counts[0], f.limits[0].Period, f.counts[atPermits], f.limits[atPermits].Period, f.troubles)
	if trace {
		r.trace = f.trace.String()
	}
	return r
}

package simulator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// A fleet is some nodes, a server, and the limits of which each node is asked.
type fleet struct {
	*world
	testing.TB
	server     *server
	nodes      []*node
	limits     []*weir.Limit // the last is a concurrency limit
	truths     []*truth
	tableBytes int64
	clients    int
	pause      int64 // between two decisions of a client
	holdFor    int64 // a permit
	impatient  int   // one of so many callers leaves early
	patience   int64 // within so long
	asked      []int // the limits, by how often they are asked
	lastID     int64
	decisions  int
	isOver     bool
	isHealthy  bool
}

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
	f := &fleet{world: w, TB: t, tableBytes: 1 << 20, clients: clientsOf, pause: clientsOf * 1_000_000 / asksASecond, impatient: 8, patience: 30_000}
	f.asked = []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 4, 4, 4} // most decisions need no call
	if seed%5 == 1 {
		f.asked = []int{3, 4, 4, 4}
	}
	f.server = newServer(t, w)
	f.server.drift = f.Int64N(1001) - 500
	f.server.decided = f.decided
	f.server.faults = f.draw(seed)
	n := 2 + f.IntN(4)
	rate := int64(n*asksASecond) / 3 // of each limit, more or less
	seconds := 2 + f.Int64N(12)
	count := max(rate*seconds*int64(70+f.IntN(60))/100, int64(8*n))
	f.add("window", windows[f.IntN(len(windows))], count, seconds)
	f.add("bucket", algorithm.TokenBucket, count, seconds)
	f.add("strict", algorithm.FixedWindow, count/5, seconds)
	f.add("tally", algorithm.FixedWindow, count*2/5, seconds)
	f.add("permits", algorithm.Concurrency, int64(8*n)+f.Int64N(20), 1+f.Int64N(3))
	f.holdFor = f.permits().Count * 1_000_000 / max(rate, 1) * int64(60+f.IntN(80)) / 100
	f.nodes = make([]*node, n)
	for i := range f.nodes {
		f.nodes[i] = f.newNode(i)
	}
	f.start(nil, 0, f.disturb)
	if seed%4 == 3 {
		f.start(nil, 0, f.setClocks)
	}
	return f
}

// draw returns the faults of a seed. Every fifth fleet is healthy: its server answers in
// time, and nothing stands still.
func (f *fleet) draw(seed uint64) faults {
	some := faults{quick: 1 + f.Int64N(3000)}
	if seed%5 == 0 {
		f.isHealthy = true // and its callers leave before it answers
		f.impatient, f.patience = 1, 2*some.quick
		f.asked = []int{0, 1, 2, 2, 2, 2, 2, 3, 4}
		return some
	}
	rate := func() int { return f.IntN(2) * (10 + f.IntN(100)) }
	some.loseCall, some.loseAnswer, some.slowCall, some.slowAnswer = rate(), rate(), rate(), rate()
	some.slow = []int64{30_000, 300_000, 3_000_000}[f.IntN(3)]
	return some
}

// add adds a limit, which is counted under its name, and its oracle.
func (f *fleet) add(name string, a weir.Algorithm, count, seconds int64) {
	l := &weir.Limit{Name: name, Algorithm: a, Count: count, Period: time.Duration(seconds) * time.Second}
	l.Consistency.Mode = params.ConsistencyLeased
	most := &weir.Limit{Name: name, Algorithm: a, Count: count, Period: l.Period}
	switch name {
	case "strict":
		l.Consistency.Mode = params.ConsistencyStrict
	case "tally":
		l.Consistency.Mode, l.Consistency.MaxOvershoot = params.ConsistencyEventual, count/4
		most.Count += count / 4
	}
	for _, l := range []*weir.Limit{l, most} {
		if err := l.Compile(); err != nil {
			f.Fatal(err)
		}
	}
	f.limits, f.truths = append(f.limits, l), append(f.truths, newTruth(f.world, most))
}

// lookAtSlack looks whether all nodes together may overshoot a limit by no more than it may
// be (I9).
func (f *fleet) lookAtSlack(l *weir.Limit) {
	sum := int64(0)
	for _, n := range f.nodes {
		sum += n.slack(l)
	}
	if sum > l.Overshoot() {
		f.fail("%s: the nodes have %d of a slack of %d", l.Name, sum, l.Overshoot())
	}
}

// permits returns the concurrency limit.
func (f *fleet) permits() *weir.Limit { return f.limits[len(f.limits)-1] }

// decided notes what the server has decided for a client.
func (f *fleet) decided(c *client, o *weir.Op) {
	for i, l := range f.limits {
		if l.Name == o.Limit.Name && o.Decision.Allowed() && o.ID == 0 {
			f.truths[i].admit(o.Now, o.Cost)
		}
	}
}

// disturb lets things happen that are no fault of a single call.
func (f *fleet) disturb() {
	for !f.isOver {
		f.sleep(int64(f.ExpFloat64() * 3_000_000))
		i := f.IntN(len(f.nodes))
		n := f.nodes[i]
		us := int64(f.ExpFloat64() * 1_500_000)
		what := f.IntN(8)
		if f.isHealthy {
			what = 5 + f.IntN(3)
		}
		f.event("disturb", int64(what), int64(i), us)
		switch what {
		case 0: // the node stands still, and its clock too, or not
			f.stand(n.machine, true)
			// A shorter suspend is not noticed: leases live that much longer (docs/explanation/faults.md).
			isSuspended := f.IntN(2) == 0 && us >= 100_000
			f.sleep(us)
			if isSuspended {
				n.slept += us
			}
			// The wall clock is looked at once a millisecond: so much may be late.
			f.sleep(1010)
			n.excused = f.now + 3_000_000
			f.stand(n.machine, false)
		case 1:
			f.kill(n.machine)
			f.nodes[i] = f.newNode(i)
		case 2:
			n.cutOff = f.now + 4*us
		case 3:
			f.server.downUntil = f.now + us
		case 4:
			for _, n := range f.nodes {
				n.table.Drain(func() {})
			}
		case 5:
			n.view = 1 + f.Int64N(int64(len(f.nodes))+1)
		default: // reloaded
			at := f.IntN(len(f.limits))
			l := f.limits[at]
			v := &weir.Limit{Name: l.Name, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Consistency: l.Consistency}
			if err := v.Compile(); err != nil {
				f.fail("%v", err)
			}
			f.limits[at] = v
		}
	}
}

// setClocks sets wall clocks of nodes forward and back, by up to five seconds.
func (f *fleet) setClocks() {
	for !f.isOver {
		f.sleep(int64(f.ExpFloat64() * 5_000_000))
		n, us := f.nodes[f.IntN(len(f.nodes))], f.Int64N(10_000_001)-5_000_000
		f.event("set clock", n.index, us)
		n.wall += us
	}
}

// settle lets the clients end, and looks whether the server has all permits when nothing
// is under way (I16).
func (f *fleet) settle() {
	f.isOver = true
	f.server.faults = faults{quick: 1000}
	f.server.downUntil = 0
	for _, n := range f.nodes {
		n.cutOff = 0
		f.stand(n.machine, false)
	}
	l := f.permits()
	f.run(f.now + 3*micros.Of(l.Period) + 8_000_000)
	ops := []weir.Op{{Key: l.Name, Limit: l, Cost: 1, Verb: weir.Peek}}
	if f.server.take(ops); ops[0].Decision.Remaining != l.Count {
		f.fail("%d of %d permits are left, nobody has one", ops[0].Decision.Remaining, l.Count)
	}
}

// A result is what came of a seed.
type result struct {
	hash               uint64
	events, decisions  int
	admitted           [5]int
	seconds            float64 // of all nodes
	broken, trace, how string
}

// simulate runs a seed for some seconds.
func simulate(t testing.TB, seed uint64, seconds int64, trace bool) (r result) {
	f := newFleet(t, seed, trace)
	f.run(seconds * 1_000_000)
	if f.broken == "" {
		f.settle()
	}
	for _, n := range f.nodes {
		f.kill(n.machine)
	}
	f.end()
	r = result{hash: f.hash, events: f.count, decisions: f.decisions, seconds: float64(f.now) / 1e6 * float64(len(f.nodes)), broken: f.broken}
	for i, x := range f.truths {
		r.admitted[i] = x.admitted
	}
	r.how = fmt.Sprintf("%d nodes, %s of %d in %s, %d permits for %s, %+v", len(f.nodes), f.limits[0].Algorithm.Name(), f.limits[0].Count, f.limits[0].Period, f.permits().Count, f.permits().Period, f.server.faults)
	if trace {
		r.trace = f.trace.String()
	}
	f.server.store.Close()
	return r
}

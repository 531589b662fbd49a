package shed_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/shed"
)

// A surge is 14 seconds of a fleet's life on the store's clock: 2 as usual, 3
// in which the load grows to fifteen times that, 4 of that, 1 in which it falls
// back, and 4 as usual.
type surge struct {
	nodes []*world
	// takes is how long a request is under way, milliseconds.
	takes int

	arrived, passed  [4]int
	busy             [4]int // refused by a node
	exhausted        [4]int // refused by the fleet
	first            [4]int // millisecond of the first refusal, -1 for none
	late             int    // refusals in the last two seconds
	most             int    // under way on one node
	noisy, noisyPass int    // of the one user that asks too much
	perSecond        [][4]int
}

const surgeNodes, surgeEnd = 3, 14_000

// usual is the load by class, a second.
var usual = [4]int{20, 200, 90, 90}

// load returns the present load in percent of the usual.
func load(ms int) int {
	switch {
	case ms < 2000:
		return 100
	case ms < 5000:
		return 100 + 1400*(ms-2000)/3000
	case ms < 9000:
		return 1500
	case ms < 10_000:
		return 1500 - 1400*(ms-9000)/1000
	}
	return 100
}

// run plays the surge to a fleet of o; noisy is how many requests a second one
// user adds all the time.
func run(t *testing.T, o shed.Options, takes, noisy int) *surge {
	t.Helper()
	u := &surge{takes: takes, first: [4]int{-1, -1, -1, -1}}
	u.nodes = append(u.nodes, newWorld(t, o))
	for range surgeNodes - 1 {
		w := newWorld(t, o)
		w.store, w.lim = u.nodes[0].store, nil
		u.nodes = append(u.nodes, w)
	}
	for _, w := range u.nodes[1:] {
		w.lim = newLimiter(t, w)
	}
	rnd := rand.New(rand.NewPCG(13, 14))
	ends := make([][]func(), surgeEnd+takes+1)
	under := make([]int, surgeNodes)
	var owed [5]int // in requests * 100,000
	seq := 0
	for ms := range surgeEnd {
		u.nodes[0].store.Advance(time.Millisecond)
		for _, end := range ends[ms] {
			end()
		}
		if ms%1000 == 0 {
			u.perSecond = append(u.perSecond, [4]int{})
		}
		var now []int
		for c := range usual {
			for owed[c] += usual[c] * load(ms); owed[c] >= 100_000; owed[c] -= 100_000 {
				now = append(now, c)
			}
		}
		for owed[4] += noisy * 100; owed[4] >= 100_000; owed[4] -= 100_000 {
			now = append(now, 4)
		}
		rnd.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
		for _, c := range now {
			seq++
			node := seq % surgeNodes
			user, class := fmt.Sprint("user ", rnd.IntN(2000)), c
			if c == 4 {
				user, class = "noisy", int(shed.Default)
				u.noisy++
			} else {
				u.arrived[c]++
			}
			if end := u.serve(node, user, shed.Priority(class), seq, ms, c == 4); end != nil {
				under[node]++
				u.most = max(u.most, under[node])
				ends[ms+takes] = append(ends[ms+takes], func() { under[node]--; end() })
			}
		}
	}
	for _, rest := range ends[surgeEnd:] {
		for _, end := range rest {
			end()
		}
	}
	return u
}

// serve asks for one request as a front end does: the node first, which costs
// next to nothing, then the limits. It returns what ends the request, nil if it
// was refused.
func (u *surge) serve(node int, user string, c shed.Priority, seq, ms int, noisy bool) (end func()) {
	w, place := u.nodes[node], new(shed.Slot)
	refused := func(by *[4]int) {
		by[c]++
		if u.first[c] < 0 {
			u.first[c] = ms
		}
		if ms >= surgeEnd-2000 {
			u.late++
		}
	}
	if !w.s.Enter(place, c) {
		if !noisy {
			refused(&u.busy)
		}
		return nil
	}
	r := ask(user, c, fmt.Sprint(seq))
	d := w.decide(r)
	if !d.Allowed() {
		place.Leave()
		if _, fleet := w.s.Refused(r.Ops(), d); !fleet && !noisy {
			w.t.Errorf("%s was told 429", user)
		}
		if !noisy {
			refused(&u.exhausted)
		}
		return nil
	}
	if noisy {
		u.noisyPass++
	} else {
		u.passed[c]++
	}
	u.perSecond[len(u.perSecond)-1][c]++
	return func() {
		place.Leave()
		w.release(r)
	}
}

// check checks what holds for every surge.
func (u *surge) check(t *testing.T) {
	t.Helper()
	share := func(c int) int { return 1000 * (u.busy[c] + u.exhausted[c]) / u.arrived[c] }
	t.Logf("arrived %v, passed %v, refused by a node %v, by the fleet %v, first at %v ms, %d at most under way", u.arrived, u.passed, u.busy, u.exhausted, u.first, u.most)
	for c := range u.arrived {
		if u.arrived[c] != u.passed[c]+u.busy[c]+u.exhausted[c] {
			t.Errorf("class %d: the counts do not add up", c)
		}
	}
	if u.passed[0] != u.arrived[0] || u.arrived[0] < 1500 {
		t.Errorf("%d of %d critical requests passed", u.passed[0], u.arrived[0])
	}
	// The fleet keeps a share for critical requests and knows no other class, so
	// where it alone refuses the others fare alike, but for chance.
	if share(3) < 500 || share(3)+20 < share(2) || share(2)+20 < share(1) {
		t.Errorf("refused of a thousand: background %d, sheddable %d, default %d", share(3), share(2), share(1))
	}
	for c, first := range u.first {
		if first >= 0 && first < 2000 {
			t.Errorf("class %d was refused at the usual load", c)
		}
	}
	if u.late > 0 {
		t.Errorf("%d requests were refused though the surge was over", u.late)
	}
	var allowed, refused [4]uint64
	for _, w := range u.nodes {
		if places, over := under(w.s); places != 0 || over != 0 {
			t.Errorf("%d and %d places were not given back", places, over)
		}
		for c, st := range w.s.State().Limiters[3].Classes {
			refused[c] += st.Refused
		}
		for c, st := range w.s.State().Limiters[2].Classes {
			allowed[c] += st.Allowed
		}
	}
	for c := range refused {
		if refused[c] != uint64(u.busy[c]) {
			t.Errorf("class %d: nodes counted %d refusals, want %d", c, refused[c], u.busy[c])
		}
		if n := uint64(u.passed[c]); len(u.nodes[0].s.State().Limiters[2].Classes) > 0 && allowed[c] != n && u.noisy == 0 {
			t.Errorf("class %d: the fleet counted %d, want %d", c, allowed[c], n)
		}
	}
}

// TestSurgeOnNodes: the in-flight limiters alone shed class by class. 18 critical
// requests are under way on a node at most, and 20 places are theirs.
func TestSurgeOnNodes(t *testing.T) {
	u := run(t, onNode(200), 180, 0)
	u.check(t)
	if !(u.first[3] < u.first[2] && u.first[2] < u.first[1] && u.first[1] > 0 && u.first[0] < 0) {
		t.Errorf("first refused at %v ms: background must be first, then sheddable, then default", u.first)
	}
	for c := range 3 {
		if a, b := u.busy[c]*u.arrived[c+1], u.busy[c+1]*u.arrived[c]; 10*a > 9*b {
			t.Errorf("refused %v of %v: class %d must fare better than the next", u.busy, u.arrived, c)
		}
	}
	if u.most > 200 || u.most < 180 {
		t.Errorf("%d were under way on a node", u.most)
	}
}

// TestSurgeOnTheFleet: of 2000 a second 400 are kept, and critical requests need
// 300.
func TestSurgeOnTheFleet(t *testing.T) {
	o := onNode(2000)
	o.FleetShare.Limit = perSecond(2000)
	u := run(t, o, 50, 0)
	u.check(t)
	if u.busy != [4]int{} || u.exhausted[1] == 0 {
		t.Errorf("the nodes refused %v, the fleet %v", u.busy, u.exhausted)
	}
	for i, n := range u.perSecond {
		if sum := n[0] + n[1] + n[2] + n[3]; sum > 2000 || sum-n[0] > 1600 {
			t.Errorf("second %d: %v", i, n)
		}
	}
}

// TestSurgeOnAll: all four, and one user who asks for 400 a second all the time
// gets 50 and 100 at the start, and nobody else is told 429.
func TestSurgeOnAll(t *testing.T) {
	o := onNode(200)
	o.UserRate = shed.RateOptions{Limit: perSecond(50), Burst: 100}
	o.UserConcurrency.Limit = 40
	o.FleetShare.Limit = perSecond(3000)
	u := run(t, o, 180, 400)
	u.check(t)
	if u.most > 200 {
		t.Errorf("%d were under way on a node", u.most)
	}
	if most := 100 + 50*surgeEnd/1000; u.noisyPass > most || u.noisyPass < most/3 || u.noisy < 5000 {
		t.Errorf("of %d requests of the noisy user %d passed, %d may", u.noisy, u.noisyPass, most)
	}
}

// TestSurgeSwitchedOff: the same surge with the kill switch thrown refuses
// nothing, which shows that it is the limiters that shed.
func TestSurgeSwitchedOff(t *testing.T) {
	o := onNode(200)
	o.FleetShare.Limit = perSecond(2000)
	o.Off = true
	u := run(t, o, 180, 0)
	if u.passed != u.arrived || u.most < 300 {
		t.Errorf("arrived %v, passed %v, %d under way", u.arrived, u.passed, u.most)
	}
}

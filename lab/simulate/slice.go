package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/weirlimit/weir/internal/figures"
)

// Bounds of a slice.
const (
	maxPlayed = 1_000_000 // users
	// maxSliceRate keeps instants of requests, which are whole microseconds, apart.
	maxSliceRate = 100_000
	// leastPlayed is of how many users a slice is at least that is not the whole fleet.
	leastPlayed = 10
)

// A slice is the users that are played: every so many of the ranking, each at its own rate.
type slice struct {
	every int64
	// upTo are the requests a second of the users up to each, the most active first.
	upTo []float64
	// share is how much of the fleet's requests the slice stands for. The rest is of the
	// users who are more active than those that stand for them.
	share float64
}

// newSlice chooses the users that are played.
func newSlice(o *Options) (*slice, error) {
	wanted := float64(o.Rate) * o.For.Seconds()
	every := max(int64(math.Ceil(wanted/float64(o.Requests))), (o.Users+maxPlayed-1)/maxPlayed, (o.Rate+maxSliceRate-1)/maxSliceRate)
	s := &slice{every: every}
	n := o.Users / every
	if every > 1 && n < leastPlayed {
		return nil, fmt.Errorf("one of %s users would be played, which leaves %d of %s: raise --requests %s or shorten --for %s, or give more users for such a rate",
			figures.Thousands(every), n, figures.Thousands(o.Users), figures.Thousands(o.Requests), o.For)
	}
	all, sum := harmonic(o.Users, o.Zipf), 0.0
	for i := range n {
		rank := i*every + (every+1)/2
		sum += float64(o.Rate) * math.Pow(float64(rank), -o.Zipf) / all
		s.upTo = append(s.upTo, sum)
	}
	s.share = min(sum*float64(every)/float64(o.Rate), 1)
	return s, nil
}

// harmonic returns the sum of 1/r^s for r from 1 to n.
func harmonic(n int64, s float64) (sum float64) {
	const exact = 1000
	for r := int64(1); r <= min(n, exact); r++ {
		sum += math.Pow(float64(r), -s)
	}
	if n <= exact {
		return sum
	}
	// By Euler and Maclaurin: the integral, and half of what the ends differ by.
	from, to := float64(exact), float64(n)
	area := math.Log(to / from)
	if s != 1 {
		area = (math.Pow(to, 1-s) - math.Pow(from, 1-s)) / (1 - s)
	}
	return sum + area + (math.Pow(to, -s)-math.Pow(from, -s))/2
}

// rate returns the requests of the slice in a second.
func (s *slice) rate() float64 { return s.upTo[len(s.upTo)-1] }

// busiest returns the requests a second of the user who sends most.
func (s *slice) busiest() float64 { return s.upTo[0] }

// traffic is the requests of a slice, one after the other: the same for one seed.
type traffic struct {
	*slice
	*rand.Rand
	nodes int64
	until float64 // microseconds
	now   float64
	last  int64
}

// An arrival is a request: when it comes, in microseconds, of which user, at which node, and
// a number by which it chooses what it is for.
type arrival struct {
	at, node int64
	user     int
	choice   uint64
}

func newTraffic(s *slice, nodes int64, last time.Duration, seed uint64) *traffic {
	return &traffic{slice: s, Rand: rand.New(rand.NewPCG(seed, 1)), nodes: nodes, until: float64(last.Microseconds())}
}

// next returns the next request, and false if there is none.
func (t *traffic) next() (a arrival, ok bool) {
	t.now += t.ExpFloat64() / t.rate() * 1e6
	if t.now >= t.until {
		return a, false
	}
	t.last = max(int64(t.now), t.last+1)
	at := t.Float64() * t.rate()
	user := min(sort.Search(len(t.upTo), func(i int) bool { return t.upTo[i] > at }), len(t.upTo)-1)
	return arrival{at: t.last, node: t.Int64N(t.nodes), user: user, choice: t.Uint64()}, true
}

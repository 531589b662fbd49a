package main

import (
	"math"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

func entry(key, value string) weir.Entry { return weir.Entry{Key: key, Value: value} }

func TestHarmonic(t *testing.T) {
	for _, s := range []float64{0, 0.5, 0.8, 1, 1.5, 3} {
		for _, n := range []int64{1, 999, 1000, 1001, 100_000} {
			want := 0.0
			for r := int64(1); r <= n; r++ {
				want += math.Pow(float64(r), -s)
			}
			if got := harmonic(n, s); math.Abs(got-want) > 1e-8*want {
				t.Errorf("n %d, s %g: %.12f, want %.12f", n, s, got, want)
			}
		}
	}
}

// The users of a slice have the rates that they have in the fleet, and no more requests are
// played than were asked for.
func TestSliceKeepsRates(t *testing.T) {
	for _, o := range []Options{
		{Users: 1000, Rate: 100, Zipf: 1, For: time.Minute, Requests: 10_000},
		{Users: 100_000_000, Rate: 10_000_000, Zipf: 0.8, For: time.Minute, Requests: 300_000},
		{Users: MaxUsers, Rate: 1, Zipf: 0, For: time.Second, Requests: 1000},
		{Users: 1_000_000, Rate: MaxRate, Zipf: 0.5, For: time.Second, Requests: MaxRequests},
	} {
		s, err := newSlice(&o)
		if err != nil {
			t.Fatal(err)
		}
		n := int64(len(s.upTo))
		if s.rate()*o.For.Seconds() > float64(o.Requests)*1.01 || s.rate() > maxSliceRate*1.01 || n > maxPlayed || n != o.Users/s.every {
			t.Errorf("%+v: %d users, %.0f requests a second", o, n, s.rate())
		}
		if s.every == 1 && (s.share < 1-1e-9 || math.Abs(s.rate()-float64(o.Rate)) > 1e-6*float64(o.Rate)) {
			t.Errorf("%+v: the whole fleet sends %.3f requests a second", o, s.rate())
		}
		// The last of the slice is about the last of the fleet.
		last := s.upTo[n-1]
		if n > 1 {
			last -= s.upTo[n-2]
		}
		if want := float64(o.Rate) * math.Pow(float64(o.Users), -o.Zipf) / harmonic(o.Users, o.Zipf); last < want*0.99 || last > want*1.1 {
			t.Errorf("%+v: the least active sends %g a second, want %g", o, last, want)
		}
	}
}

// Users come as often as the slice says, at instants that grow.
func TestTrafficFollowsTheSlice(t *testing.T) {
	o := Options{Users: 50, Rate: 2000, Zipf: 1, For: 100 * time.Second, Requests: MaxRequests}
	s, err := newSlice(&o)
	if err != nil {
		t.Fatal(err)
	}
	met, perNode, last, sum := make([]float64, 50), make([]float64, 3), int64(0), 0.0
	for x := newTraffic(s, 3, o.For, 1); ; sum++ {
		a, ok := x.next()
		if !ok {
			break
		}
		if a.at <= last || a.at >= o.For.Microseconds()+1000 {
			t.Fatalf("a request at %d after one at %d", a.at, last)
		}
		last = a.at
		met[a.user]++
		perNode[a.node]++
	}
	for i, n := range met {
		want := s.upTo[i] * 100
		if i > 0 {
			want -= s.upTo[i-1] * 100
		}
		if math.Abs(n-want) > 6*math.Sqrt(want) {
			t.Errorf("user %d came %.0f times, want about %.0f", i, n, want)
		}
	}
	for i, n := range perNode {
		if math.Abs(n-sum/3) > 6*math.Sqrt(sum/3) {
			t.Errorf("node %d got %.0f of %.0f", i, n, sum)
		}
	}
}

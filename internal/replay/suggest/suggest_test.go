package suggest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A census finds what a loop over all windows finds that keeps everything.
func TestLadderAgreesWithAnOracle(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c, err := NewCensus(time.Minute, 1000)
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]map[int64]int64{}
		now := int64(1e15)
		for range 3000 {
			now += rng.Int64N(2e6)
			key := fmt.Sprint(int(rng.ExpFloat64() * 10))
			if err := c.Add(key, now); err != nil {
				t.Fatal(err)
			}
			if counts[key] == nil {
				counts[key] = map[int64]int64{}
			}
			counts[key][now/60e6]++
		}
		l := c.Ladder()
		if l.Clients != int64(len(counts)) || l.Requests != 3000 || len(l.Rungs) < 3 {
			t.Errorf("%d clients, %d requests, %d rungs", l.Clients, l.Requests, len(l.Rungs))
		}
		for _, r := range l.Rungs {
			var want Rung
			want.Limit = r.Limit
			for _, windows := range counts {
				caught := false
				for _, n := range windows {
					if n > r.Limit {
						caught = true
						want.Requests += n - r.Limit
					}
				}
				if caught {
					want.Clients++
				}
			}
			if r != want {
				t.Errorf("got %+v, want %+v", r, want)
			}
		}
		if again := c.Ladder(); fmt.Sprint(again) != fmt.Sprint(l) {
			t.Errorf("a second look sees\n%+v\nnot\n%+v", again, l)
		}
	}
}

func TestSuggestion(t *testing.T) {
	usual := func(n int) []int64 {
		var peaks []int64
		for i := range n {
			peaks = append(peaks, int64(5+i%16))
		}
		slices.Sort(peaks)
		return peaks
	}
	for _, c := range []struct {
		name  string
		peaks []int64
		limit int64
		why   string
	}{
		{"few", usual(10), 0, "too few"},
		{"alike", usual(200), 0, "nobody"},
		{"one runaway", append(usual(200), 900), 30, "sets apart"},
		{"two of a hundred", append(usual(98), 500, 600), 30, "sets apart"},
		{"heavy and heavier", append(usual(98), 100, 5000), 30, "sets apart"},
		{"many are heavy", append(usual(100), 500, 501, 502, 503, 504, 505, 506, 507), 0, "nobody"},
		{"a thousand", append(slices.Repeat([]int64{700}, 100), 9000), 1100, "sets apart"},
	} {
		limit, why := suggest(c.peaks)
		if limit != c.limit || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d, %s", c.name, limit, why)
		}
		// What is suggested catches those alone who are apart.
		if n := above(c.peaks, limit); limit > 0 && n > int64(len(c.peaks)/heavy+1) {
			t.Errorf("%s: it catches %d of %d", c.name, n, len(c.peaks))
		}
	}
}

func TestRound(t *testing.T) {
	for n, want := range map[int64]int64{1: 1, 7: 7, 19: 19, 21: 25, 96: 100, 101: 110, 199: 200, 201: 250, 1234: 1300, 2001: 2500, 99999: 100000} {
		if got := round(n); got != want {
			t.Errorf("%d is rounded to %d, want %d", n, got, want)
		}
	}
}

func TestCensusIsBounded(t *testing.T) {
	c, err := NewCensus(time.Second, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, nil, ErrKeys} {
		if err := c.Add(fmt.Sprint(i), 1); !errors.Is(err, want) {
			t.Errorf("client %d: %v", i, err)
		}
	}
	if err := c.Add("0", 2); err != nil {
		t.Errorf("one that is known: %v", err)
	}
	if _, err := NewCensus(0, 1); err == nil {
		t.Error("windows without length")
	}
	empty, err := NewCensus(time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	if l := empty.Ladder(); l.Why == "" || len(l.Rungs) > 0 {
		t.Errorf("%+v", l)
	}
}

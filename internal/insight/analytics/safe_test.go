package analytics

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/insight/event"
)

// minuteOf is a minute with so many requests, answers that took as many milliseconds,
// and server errors among them.
func minuteOf(admitted int64, ms int, errors uint64) *moment {
	m := &moment{admitted: admitted}
	n := uint64(admitted)
	m.responses.add(&event.ResponseTotals{OK: n - errors, ServerError: errors,
		Times: []event.LatencyCount{{Bucket: event.LatencyBucket(time.Duration(ms) * time.Millisecond), Count: n}}})
	return m
}

func TestSafeRate(t *testing.T) {
	// rising are minutes with 60, 120, ... requests, of which those above so many are
	// answered late.
	rising := func(n int, calm int64) (out []*moment) {
		for i := range n {
			admitted, ms := int64(i+1)*60, 20
			if admitted > calm {
				ms = 400
			}
			out = append(out, minuteOf(admitted, ms, 0))
		}
		return out
	}
	for _, c := range []struct {
		name    string
		moments []*moment
		given   float64
		want    string // basis, rate, judged, strained, moments and strained ones above, and within
		reason  string
	}{
		{"late above 15 a second", rising(20, 900), 0, "inferred 15 20 5 5/5 15/0", ""},
		{"errors", append(rising(12, 1e6), minuteOf(1000, 20, 10), minuteOf(1100, 20, 300)), 0, "inferred 12 14 2 2/2 12/0", ""},
		{"an error in a hundred is too many", append(rising(12, 1e6), minuteOf(1000, 20, 9)), 0, "at_least 16.666666666666668 13 0 0/0 13/0", ""},
		{"one bad minute at night", append(rising(20, 900), minuteOf(40, 900, 0)), 0, "inferred 15 21 6 5/5 16/1", ""},
		{"only the one at night", append(rising(20, 1e6), minuteOf(40, 900, 0)), 0, "unknown 0 21 1 0/0 0/0", "in 1 of 21 moments, at rates at which"},
		{"of two that tell as well the lower", func() (out []*moment) {
			for i := range int64(12) {
				errors := uint64(0)
				if i == 5 || i > 6 {
					errors = 60
				}
				out = append(out, minuteOf((i+1)*60, 20, errors))
			}
			return out
		}(), 0, "inferred 5 12 6 7/6 5/0", ""},
		{"never strained", rising(10, 1e6), 0, "at_least 10 10 0 0/0 10/0", ""},
		{"too few", rising(9, 1e6), 0, "unknown 0 9 0 0/0 0/0", "not enough data: 9 moments of 60 s"},
		{"nothing", nil, 0, "unknown 0 0 0 0/0 0/0", "not enough data: 0 moments"},
		{"too few answers", append(rising(9, 1e6), minuteOf(19, 20, 0)), 0, "unknown 0 9 0 0/0 0/0", "not enough data: 9"},
		{"twenty answers", append(rising(9, 1e6), minuteOf(20, 20, 0)), 0, "at_least 9 10 0 0/0 10/0", ""},
		{"all strained", func() (out []*moment) {
			for i := range int64(12) {
				out = append(out, minuteOf(100+i, 20, 50))
			}
			return out
		}(), 0, "unknown 0 12 12 0/0 0/0", "in all 12 moments"},
		{"given", rising(20, 900), 18, "given 18 20 5 2/2 18/3", ""},
		{"given, without data", rising(2, 1e6), 1, "given 1 2 0 1/0 1/0", ""},
		// Minutes in which nothing came are no part of the time; those without an answer
		// are, and are not judged.
		{"idle", append(rising(10, 1e6), &moment{}, &moment{admitted: 6000}), 0, "at_least 10 10 0 1/0 10/0", ""},
	} {
		s := safeRate(c.moments, 60, c.given)
		got := fmt.Sprint(s.Basis, s.PerSecond, s.Classified, s.Strained) + fmt.Sprintf(" %d/%d %d/%d", s.Above.Moments, s.Above.Strained, s.Within.Moments, s.Within.Strained)
		got = strings.Replace(got, s.Basis, s.Basis+" ", 1)
		if got != c.want || !strings.Contains(s.Reason, c.reason) || (c.reason == "") != (s.Reason == "") {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, got, s.Reason, c.want, c.reason)
		}
	}
	s := safeRate(rising(20, 900), 60, 0)
	if s.Separation != 1 || s.Above.Share != 0.25 || s.Within.Share != 0.75 || s.Above.P99MS < 400 || s.Above.P99MS > 450 || s.Within.P99MS < 20 || s.Within.P50MS > 22.5 || s.UsualP99MS > 22.5 {
		t.Errorf("%+v", s)
	}
	if s := safeRate(nil, 3600, 5); s.Above.P99MS != -1 || s.Within.P99MS != -1 || s.StepS != 3600 {
		t.Errorf("of nothing: %+v", s)
	}
}

// The inferred rate is the one that a search through all of them finds, the moments
// above it and the others are all, and their order does not matter.
func TestSafeRateIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var moments []*moment
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			admitted := rapid.Int64Range(20, 60).Draw(t, "admitted")
			chance := rapid.IntRange(0, 60).Draw(t, "luck")
			ms := 10
			if int64(chance) < admitted-20 {
				ms = 100
			}
			moments = append(moments, minuteOf(admitted, ms, 0))
		}
		got := safeRate(moments, 60, 0)
		slices.Reverse(moments)
		if again := safeRate(moments, 60, 0); again != got {
			t.Fatalf("in another order %+v, not %+v", again, got)
		}
		var strained, calm int
		for _, m := range moments {
			if m.strained {
				strained++
			} else {
				calm++
			}
		}
		if got.Basis == "at_least" != (strained == 0 && len(moments) >= SafeMoments) {
			t.Fatalf("%v strained: %+v", strained, got)
		}
		if got.Basis != "unknown" && got.Above.Moments+got.Within.Moments != int64(len(moments)) {
			t.Fatalf("%+v is of %d", got, len(moments))
		}
		if strained == 0 || calm == 0 || len(moments) < SafeMoments {
			return
		}
		best, rate := -1, 0.0
		for at := int64(20); at <= 60; at++ {
			above, within := 0, 0
			for _, m := range moments {
				if m.strained && m.admitted > at {
					above++
				}
				if !m.strained && m.admitted <= at {
					within++
				}
			}
			if j := above*calm + within*strained - strained*calm; j > best {
				best, rate = j, float64(at)/60
			}
		}
		switch {
		case math.Abs(got.Separation-float64(max(best, 0))/float64(strained*calm)) > 1e-9:
			t.Fatalf("separation %v, want %v", got.Separation, best)
		case (got.Basis == "inferred") != (got.Separation >= SafeSeparation), got.Basis == "inferred" && got.PerSecond != rate:
			t.Fatalf("%+v, want %v", got, rate)
		}
	})
}

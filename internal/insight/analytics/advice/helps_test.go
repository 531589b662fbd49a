package advice_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics/advice"
	"github.com/weirlimit/weir/internal/testing/traffic"
)

// Whoever follows advice is helped: the same clients under what is proposed are
// hardly refused any more. Where they were refused in bursts it takes a second
// look, for who is refused asks for less than he would.
func TestAdviceHelps(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   traffic.Kind
		limit  func() *weir.Limit
		actors map[string]int
		want   advice.Kind
		follow func(advice.Advice) (traffic.Kind, *weir.Limit)
	}{
		{"a flash sale", traffic.Account,
			func() *weir.Limit {
				return &weir.Limit{Algorithm: algorithm.SlidingCounter, Count: 60, Period: time.Minute}
			},
			map[string]int{"shopper": 50}, advice.TokenBucket,
			func(a advice.Advice) (traffic.Kind, *weir.Limit) {
				return traffic.Account, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 60, Period: time.Minute, Burst: a.Burst}
			}},
		{"customers who need more", traffic.Account,
			func() *weir.Limit {
				return &weir.Limit{Algorithm: algorithm.SlidingCounter, Count: 60, Period: time.Minute}
			},
			map[string]int{"customer": 10}, advice.Relax,
			func(a advice.Advice) (traffic.Kind, *weir.Limit) {
				return traffic.Account, &weir.Limit{Algorithm: algorithm.SlidingCounter, Count: a.Allowance, Period: time.Minute}
			}},
		{"offices", traffic.Address,
			func() *weir.Limit {
				return &weir.Limit{Algorithm: algorithm.SlidingCounter, Count: 100, Period: time.Minute}
			},
			map[string]int{"office": 4}, advice.KeyByUser,
			func(advice.Advice) (traffic.Kind, *weir.Limit) {
				return traffic.Account, &weir.Limit{Algorithm: algorithm.SlidingCounter, Count: 100, Period: time.Minute}
			}},
	} {
		// The actors' rates are those under the first limit, whatever the second is.
		play := func(kind traffic.Kind, l *weir.Limit) *advice.Figures {
			return figures(t, &traffic.Cast{Seed: 3, Rules: []*traffic.Rule{traffic.NewRule("rule", kind, l)}, Units: 60, Period: time.Minute, Actors: c.actors}, "rule")
		}
		before := play(c.kind, c.limit())
		got := advice.Advise(before)
		if len(got.Advice) != 1 || got.Advice[0].Kind != c.want {
			t.Errorf("%s: advice %+v", c.name, got.Advice)
			continue
		}
		kind, limit := c.follow(got.Advice[0])
		after := play(kind, limit)
		t.Logf("%s: %d refusals, then %d of %d: %s", c.name, before.Refused, after.Refused, after.Allowed+after.Refused, got.Advice[0].Text)
		if again := advice.Advise(after); len(again.Advice) > 0 {
			if again.Advice[0].Kind != advice.RaiseBurst || after.Refused >= before.Refused {
				t.Errorf("%s: advice after advice: %+v", c.name, again.Advice)
			}
			after = play(c.follow(again.Advice[0]))
			t.Logf("%s: then %d of %d: %s", c.name, after.Refused, after.Allowed+after.Refused, again.Advice[0].Text)
		}
		if 10*after.Refused > before.Refused {
			t.Errorf("%s: %d refusals, and still %d by the advice", c.name, before.Refused, after.Refused)
		}
	}
}

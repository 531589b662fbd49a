package answer_test

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
)

// No response has the name or a number of a hidden limit, whatever its mode, while it
// allows and when it refuses; those of a limit beside it stay.
func TestHiddenIsNotTold(t *testing.T) {
	const count = 7777
	secret := func(a weir.Algorithm) *weir.Limit { return named("secret", weir.PerMinute(count, a)) }
	modes := map[string]*weir.Limit{"ban": secret(algorithm.FixedWindow), "soft": secret(algorithm.SlidingWindow), "elastic": secret(algorithm.FixedWindow),
		"ceiling": secret(algorithm.TokenBucket), "concurrency": named("secret", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 1, Period: time.Minute})}
	modes["ban"].Ban = named("secret ban", &weir.Limit{Algorithm: algorithm.Lockout, Count: 1, Period: 10 * time.Minute})
	modes["soft"].Excess = 10
	for _, mode := range []string{"elastic", "ceiling"} {
		modes[mode].Mode = weir.Mode{Pool: named("secret pool", weir.PerMinute(17777, algorithm.FixedWindow)), PoolKey: "all"}
	}
	modes["ceiling"].Ceiling = 9777
	for _, a := range algorithm.All {
		if a.Name() != "concurrency" {
			modes[a.Name()] = secret(a)
		}
	}
	for mode, l := range modes {
		for _, sets := range [][]string{{answer.IETF08, answer.IETF06, answer.XRateLimitReset}, {answer.IETF07, answer.XRateLimit}} {
			l.Hidden = true
			open := named("open", weir.PerMinute(999_999, algorithm.FixedWindow))
			c := newClient(t, weir.Limits{l, open}, sets...)
			for _, cost := range []int64{1, count, count, count, count, 1} {
				r, d := c.decide(cost)
				c.now.Add(1) // each a lease of its own
				rec := httptest.NewRecorder()
				if d.Allowed() {
					c.w.Header(rec.Header(), r.Ops(), d, c.now.Load())
				} else {
					c.w.Refuse(rec, answer.OverLimit, r.Ops(), d, c.now.Load())
				}
				said := fmt.Sprint(rec.Header(), rec.Body, answer.Detail(r.Ops(), d))
				if strings.Contains(said, "secret") || strings.Contains(said, "777") || !strings.Contains(said, "999999") {
					t.Errorf("%s: %s", mode, said)
				}
				if wait, err := strconv.ParseInt(rec.Header().Get("Retry-After"), 10, 64); !d.Allowed() && d.RetryAfter != weir.Never && (err != nil || wait < answer.Seconds(d.RetryAfter) && mode != "concurrency") {
					t.Errorf("%s: wait %d, want %s, %v", mode, wait, d.RetryAfter, err)
				}
			}
		}
	}
}

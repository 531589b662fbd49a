package rules_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/testing/clocked"
	seeding "github.com/weirlimit/weir/internal/testing/seeds"
)

// waitRules writes the limits of one rule: one to three of any algorithm and mode.
func waitRules(r *rand.Rand) string {
	limit := func(i int) string {
		algorithm := pick(r, "sliding_window", "sliding_window", "sliding_window", "fixed_window", "token_bucket", "leaky_bucket",
			"sliding_counter", "sliding_subwindows", "sliding_log", "approximate", "leaky_queue")
		count := pick(r, 1, 2, 3, 5, 20, 21, 100, 7919)
		if algorithm == "sliding_log" {
			count = min(count, 100)
		}
		l := fmt.Sprintf("{name: l%d, limit: %d/%s, algorithm: %s", i, count, pick(r, "1s", "7s", "minute", "hour"), algorithm)
		switch {
		case algorithm == "approximate":
			l += ", sketch: {width: 4096, depth: 4, bloom_bits: 16384, bloom_hashes: 3}"
		case algorithm == "leaky_queue":
		case r.IntN(4) == 0:
			l += ", mode: soft, exceed: 30%"
		case r.IntN(4) == 0 && count >= 5:
			l += ", headroom: [0, 1, 50%]"
		case r.IntN(4) == 0 && i == 0: // two of a request would draw on one pool, which a look does not add up
			l += ", mode: elastic, pool: spare"
			if r.IntN(2) == 0 {
				l += fmt.Sprintf(", ceiling: %d", count+pick(r, 1, 3))
			}
		case r.IntN(5) == 0:
			l += fmt.Sprintf(", ban: {after: %d, for: %s}", 1+r.IntN(4), pick(r, "3s", "2m"))
		}
		if r.IntN(6) == 0 {
			l += fmt.Sprintf(", cost: %d", min(count, 1+r.IntN(3)))
		}
		if strings.Contains(algorithm, "bucket") && r.IntN(2) == 0 {
			l += fmt.Sprintf(", burst: %d", max(count, 3)+r.IntN(5))
		}
		return l + "}"
	}
	var all []string
	for i := range 1 + r.IntN(3) {
		all = append(all, limit(i))
	}
	return "domain: d\npools: {spare: {limit: 7/minute, algorithm: " + pick(r, "sliding_window", "token_bucket", "fixed_window") + "}}\ndescriptors:\n- {key: k, limits: [" + strings.Join(all, ", ") + "]}\n"
}

// TestFamilyWaitsAreTrue: whatever limits a request meets, one that is refused is
// refused a microsecond before the wait that it is given, and passes after it.
func TestFamilyWaitsAreTrue(t *testing.T) {
	r := rand.New(rand.NewPCG(seeding.Of(t), 0))
	rounds := 300
	if os.Getenv("WEIR_SOAK") == "1" {
		rounds = 5000
	}
	waits := 0
	for range rounds {
		text := waitRules(r)
		set := parse(t, text)
		store := clocked.New(t)
		lim, err := weir.New(store, set, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		decide := func(verb weir.Verb, cost int64, priority int) weir.Decision {
			req := request("d", "k=v")
			req.Verb, req.Cost, req.Priority = verb, cost, priority
			d, err := lim.Decide(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for range 60 {
			store.Now.Add(r.Int64N(pick(r, int64(1000), 200_000, 5_000_000)))
			cost, priority := int64(1+r.IntN(2)*r.IntN(4)), r.IntN(3)*r.IntN(2)
			d := decide(weir.Spend, cost, priority)
			if d.Allowed() || d.RetryAfter == weir.Never || r.IntN(3) == 0 {
				continue
			}
			// A refusal may begin a ban, which the refused is told of when it asks again.
			first := d
			d = decide(weir.Peek, cost, priority)
			if d.Allowed() {
				t.Errorf("cost %d, priority %d: %s, then a look says %s\n%s", cost, priority, first, d, text)
				break
			}
			waits++
			store.Now.Add(micros.Of(d.RetryAfter) - 1)
			early := decide(weir.Peek, cost, priority)
			store.Now.Add(1)
			if after := decide(weir.Peek, cost, priority); early.Allowed() || !after.Allowed() {
				t.Errorf("cost %d, priority %d: %s (spend said %s); a microsecond earlier %s; then %s\n%s", cost, priority, d, first, early, after, text)
				break
			}
		}
	}
	if waits < 3*rounds {
		t.Errorf("%d waits only", waits)
	}
}

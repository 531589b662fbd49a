package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/params"
)

// promised is a guarantee as it is printed.
type promised struct {
	Exact  bool   `json:"exact"`
	AtMost *int64 `json:"at_most"`
}

// An assault spends under one limit over the API, when and as much as the answers
// say, and keeps the books.
type assault struct {
	t      *testing.T
	srv    *server
	store  *clocked.Store
	period int64
	spent  []struct{ at, units int64 }
	most   int64 // the most that any period saw
	least  int64 // the smallest number that was printed
	held   bool  // a number was printed
	prompt bool  // no wait is longer than a period
}

// check spends units of one of the keys, and returns what is left and the wait, in
// microseconds, negative for never.
func (a *assault) check(key int, units int64, peek bool) (left, wait int64) {
	a.t.Helper()
	path := "/v1/check"
	if peek {
		path = "/v1/peek"
	}
	rec := httptest.NewRecorder()
	a.srv.api.ServeHTTP(rec, httptest.NewRequest("POST", path, strings.NewReader(
		fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":{"user":"%d"}}],"cost":%d}`, key, units))))
	var d struct {
		Allowed    bool
		Remaining  *int64
		RetryAfter *float64 `json:"retry_after"`
		Limit      *struct{ Count int64 }
		Guarantee  promised
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &d); err != nil || rec.Code != 200 {
		a.t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if d.Guarantee.AtMost != nil {
		a.least, a.held = min(a.least, *d.Guarantee.AtMost), true
	}
	if d.Guarantee.Exact && d.Limit != nil && (d.Guarantee.AtMost == nil || *d.Guarantee.AtMost > d.Limit.Count) {
		a.t.Fatalf("exact, and above the count: %s", rec.Body)
	}
	if d.Allowed && !peek {
		now := a.store.Now.Load()
		a.spent = append(a.spent, struct{ at, units int64 }{now, units})
		var sum int64
		for i := len(a.spent) - 1; i >= 0 && a.spent[i].at > now-a.period; i-- {
			sum += a.spent[i].units
		}
		a.most = max(a.most, sum)
	}
	if a.prompt && d.RetryAfter != nil && int64(*d.RetryAfter*1e6+0.5) > a.period {
		a.t.Fatalf("a wait of more than a period: %s", rec.Body)
	}
	if d.Limit == nil && d.Guarantee.Exact {
		a.t.Fatalf("exact, and no limit applies: %s", rec.Body)
	}
	if d.Remaining != nil {
		left = *d.Remaining
	}
	if wait = -1; d.RetryAfter != nil {
		wait = int64(*d.RetryAfter*1e6 + 0.5)
	}
	return left, wait
}

// run is one assault: it spends what is left, waits as told, or until just before or
// after an edge.
func (a *assault) run(r *rand.Rand, steps int) {
	for range steps {
		now := a.store.Now.Load()
		switch r.IntN(7) {
		case 0, 1:
			left, _ := a.check(0, 1, true)
			for left > 0 {
				n := min(r.Int64N(left)+1, 1<<20)
				if left, _ = a.check(0, n, false); r.IntN(4) == 0 {
					break
				}
			}
		case 2:
			a.check(0, 1, false)
		case 3: // the next unit as soon as it is free
			left, _ := a.check(0, 1, true)
			if _, wait := a.check(0, left+1, false); wait > 0 {
				a.store.Now.Store(now + min(wait, 2*a.period))
				a.check(0, left+1, false)
			}
		case 4: // around the next edge
			step := []int64{a.period, a.period / 60, a.period / 2}[r.IntN(3)]
			a.store.Now.Store(max(now, now+step-now%step+r.Int64N(3)-1))
		case 5:
			a.store.Now.Store(now + r.Int64N(a.period+1))
		case 6:
			a.store.Now.Store(now + a.period + r.Int64N(3) - 1)
		}
	}
}

// TestFamilyAtMost: the number that answers print is never exceeded by traffic that
// knows the algorithm, whatever the algorithm, the mode and the consistency, and
// nothing is called exact whose number is above its count. Refusals print the same.
func TestFamilyAtMost(t *testing.T) {
	steps, rounds := 60, 1
	if os.Getenv("WEIR_SOAK") != "" {
		steps, rounds = 300, 5
	}
	modes := map[string]func(*weir.Limit){
		"hard":     func(*weir.Limit) {},
		"burst":    func(l *weir.Limit) { l.Burst = 3 * l.Count },
		"small":    func(l *weir.Limit) { l.Burst = 1 },
		"calendar": func(l *weir.Limit) { l.Anchor, l.Period = params.AnchorCalendar, 24*time.Hour },
		"first":    func(l *weir.Limit) { l.Anchor = params.AnchorFirst },
		"weighted": func(l *weir.Limit) { l.Form = params.Weighted },
		"lenient":  func(l *weir.Limit) { l.Form = params.Lenient },
		"soft":     func(l *weir.Limit) { l.Excess = 30 },
		"shadow":   func(l *weir.Limit) { l.Shadow = true },
		"rollout":  func(l *weir.Limit) { l.Rollout = 50 },
		"penalize": func(l *weir.Limit) { l.Penalize = true },
		"reserve":  func(l *weir.Limit) { l.Headroom = []int64{2} },
		"ban":      func(l *weir.Limit) { l.Ban = &weir.Limit{Algorithm: algorithm.Lockout, Count: 3, Period: time.Minute} },
		"elastic": func(l *weir.Limit) {
			l.Pool, l.PoolKey = weir.PerMinute(15, algorithm.FixedWindow), "p"
			l.Pool.Name = "pool"
		},
		"ceiling": func(l *weir.Limit) {
			l.Pool, l.PoolKey = weir.PerMinute(15, algorithm.TokenBucket), "p"
			l.Pool.Name, l.Ceiling = "pool", l.Count+4
		},
		"denied": func(l *weir.Limit) {},
		"quick":  func(l *weir.Limit) { l.Period = 100 * time.Microsecond },
		"one":    func(l *weir.Limit) { l.Count = 1 },
		"many":   func(l *weir.Limit) { l.Count = 1000 },
		"long":   func(l *weir.Limit) { l.Period = 30 * 24 * time.Hour },
		"free":   func(l *weir.Limit) { l.Free = 3 },
	}
	consistencies := map[string]params.Consistency{
		"strict": {Mode: params.ConsistencyStrict}, "default": {}, "leased": {Mode: params.ConsistencyLeased}, "loose": {Mode: params.ConsistencyLeased, Loose: true},
		"eventual": {Mode: params.ConsistencyEventual, MaxOvershoot: 2}, "local": {Mode: params.ConsistencyLocal},
	}
	// Of these every unit is back after a period.
	whole := map[weir.Algorithm]bool{algorithm.SlidingWindow: true, algorithm.SlidingLog: true, algorithm.FixedWindow: true}
	seed, attacked := seeds.Of(t), 0
	for _, alg := range algorithm.All {
		if alg.Name() == algorithm.Concurrency.Name() {
			continue // it bounds what is held at once
		}
		for _, mode := range slices.Sorted(maps.Keys(modes)) {
			for _, word := range slices.Sorted(maps.Keys(consistencies)) {
				l := weir.PerMinute(10, alg)
				if alg.Name() == algorithm.Approximate.Name() {
					l.Sketch = params.SketchOptions{Width: 1024, Depth: 2, BloomBits: 1 << 12, BloomHashes: 2}
				}
				l.Name, l.Consistency = "limit", consistencies[word]
				modes[mode](l)
				written := l.Count
				if l.Compile() != nil {
					continue // the algorithm does not know the mode, or not in this consistency
				}
				attacked++
				for round := range rounds {
					a := &assault{t: t, store: clocked.New(t), period: micros.Of(l.Period), least: weir.Unbounded}
					a.prompt = whole[alg] && l.Mode.Excess == 0 && l.Pool == nil && l.Ban == nil
					a.srv = serve(t, a.store, weir.Limits{l}, httpapi.Options{})
					a.run(rand.New(rand.NewPCG(seed+uint64(round), uint64(attacked))), steps)
					if a.held && a.most > a.least {
						t.Errorf("%s, %s, %s: %d in a period, and answers say at most %d", alg.Name(), mode, word, a.most, a.least)
					}
					if mode != "shadow" && !a.held && mode != "elastic" && mode != "ceiling" && mode != "rollout" {
						t.Errorf("%s, %s, %s: no number was printed", alg.Name(), mode, word)
					}
					a.refusal(l, written)
					a.srv.Close()
				}
			}
		}
	}
	if attacked < 200 {
		t.Errorf("%d limits were attacked", attacked)
	}
}

// refusal checks what the body of a refusal by l says, and that an exact guarantee of l is the
// limit that was written.
func (a *assault) refusal(l *weir.Limit, written int64) {
	w, err := answer.New(answer.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	w.Refuse(rec, answer.OverLimit, nil, weir.Decision{Limit: l, RetryAfter: time.Second}, a.store.Now.Load())
	var body struct {
		Detail string
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
		a.t.Fatal(err)
	}
	if g := l.Guarantee(); g.Exact && g.AtMost > written {
		a.t.Errorf("exact, and %d of %d in a period: %s", g.AtMost, written, rec.Body)
	}
	if want := "the limit limit is exhausted; try again in 1 second"; body.Detail != want {
		a.t.Errorf("the detail is %q, want %q", body.Detail, want)
	}
}

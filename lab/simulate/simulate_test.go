package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/internal/testing/race"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// small is a fleet that is played in no time: its users send more than their limits allow.
func small(limit string) Options {
	text := "domain: api\ndescriptors:\n  - key: user\n    " + strings.ReplaceAll(limit, "\n", "\n    ") + "\n"
	return Options{
		Rules: "test", Load: func(o rules.Options) (*limits.Set, error) { return rules.Parse("test", []byte(text), o) },
		Nodes: 4, Users: 20, Rate: 400, Zipf: 1, For: 20 * time.Second, Requests: 10_000, Seed: 1, StoreLatency: time.Millisecond,
	}
}

// playFor plays a fleet in the given modes, none means all.
func playFor(t *testing.T, o Options, only ...string) (*Report, []way) {
	t.Helper()
	if race.Enabled {
		t.Skip("a play takes a hundred times as long under the race detector: tasks take turns, and none runs beside another")
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	s, err := newSlice(&o)
	if err != nil {
		t.Fatal(err)
	}
	ways, err := findWays(&o)
	if err != nil {
		t.Fatal(err)
	}
	if len(only) > 0 {
		ways = slices.DeleteFunc(ways, func(w way) bool { return !slices.Contains(only, w.name) })
	}
	r, err := play(t.Context(), ways, s, &o)
	if err != nil {
		t.Fatal(err)
	}
	return r, ways
}

func modeOf(t *testing.T, r *Report, name string) *Mode {
	t.Helper()
	i := slices.IndexFunc(r.Modes, func(m Mode) bool { return m.Mode == name })
	if i < 0 {
		t.Fatalf("mode %s was not played: %+v", name, r.Modes)
	}
	return &r.Modes[i]
}

// One seed is one run, and another seed is another.
func TestSeedRepeatsRun(t *testing.T) {
	text := func(seed uint64) string {
		o := small("limit: 200/minute")
		o.Seed = seed
		r, _ := playFor(t, o)
		r.Machine, r.Played.Seed = Machine{}, 0
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := text(1)
	if again := text(1); again != first {
		t.Errorf("one seed: %s\nand %s", first, again)
	}
	if text(2) == first {
		t.Error("another seed plays the same requests")
	}
}

// A store that answers at once decides in strict mode what one node decides that gets all
// requests, whatever counts.
func TestStrictIsExact(t *testing.T) {
	for _, a := range []string{"fixed_window", "sliding_window", "sliding_counter", "sliding_subwindows", "sliding_log", "token_bucket", "leaky_bucket"} {
		o := small("limit: 60/6s\nalgorithm: " + a)
		o.StoreLatency = 0
		r, _ := playFor(t, o, "strict")
		m := modeOf(t, r, "strict")
		if m.TooMany != 0 || m.Missing != 0 || m.Allowed != r.Modes[0].Allowed {
			t.Errorf("%s: strict allows %d too many and %d too few of %d", a, m.TooMany, m.Missing, r.Modes[0].Allowed)
		}
		if m.Refused < 1000 || m.Allowed < 1000 || m.OnNode == 0 && a != "sliding_log" {
			t.Errorf("%s: nothing is tested: %+v", a, m)
		}
	}
}

// In no mode a user gets more than the mode promises, and where each node counts alone more
// than the limit.
func TestModesKeepPromises(t *testing.T) {
	const limit, over, nodes = 200, 24, 4
	for _, x := range []struct {
		algorithm string
		inflow    int64 // in the time played
	}{{"fixed_window", 0}, {"sliding_window", 0}, {"token_bucket", 2}} {
		o := small(fmt.Sprintf("limit: %d/hour\nalgorithm: %s\nconsistency: {mode: eventual, max_overshoot: %d}", limit, x.algorithm, over))
		r, ways := playFor(t, o)
		if r.Modes[1].Mode != asWritten || r.Modes[1].Allowed != modeOf(t, r, "eventual").Allowed {
			t.Errorf("%s: the rules say eventual, and play as %+v", x.algorithm, r.Modes[1])
		}
		s, _ := newSlice(&o)
		for _, w := range ways {
			f, err := playFleet(t.Context(), w.asks, s, &o)
			if err != nil {
				t.Fatal(err)
			}
			most := map[string]int64{"strict": limit, "leased": limit, "eventual": limit + over, asWritten: limit + over, "local": nodes * (limit + x.inflow)}[w.name]
			got := int64(slices.Max(f.admitted))
			if got > most+x.inflow {
				t.Errorf("%s, %s: a user got %d, promised are %d", x.algorithm, w.name, got, most)
			}
			if least := map[string]int64{"strict": limit, "leased": limit * 3 / 4, "local": limit + 1}[w.name]; got < least {
				t.Errorf("%s, %s: no user got more than %d", x.algorithm, w.name, got)
			}
		}
	}
}

// What is on the screen adds up.
func TestNumbersAddUp(t *testing.T) {
	o := small("limit: 200/minute")
	o.Users, o.Rate, o.Zipf = 4000, 4000, 0.5
	r, _ := playFor(t, o)
	if r.Played.Every != 8 || r.Played.Users != 500 || len(r.Modes) != 5 || r.Modes[0].Mode != "exact" {
		t.Fatalf("%+v, %d modes", r.Played, len(r.Modes))
	}
	exact := r.Modes[0].Allowed
	for i := range r.Modes {
		m := &r.Modes[i]
		if m.Requests != r.Played.Requests || m.Allowed+m.Refused != m.Requests || m.Allowed-exact != m.TooMany-m.Missing || m.OnNode > m.Requests || m.WorstMany > m.TooMany {
			t.Errorf("%+v, exact allows %d of %d", m, exact, r.Played.Requests)
		}
		if m.Mode == "exact" {
			continue
		}
		w := &r.Whole[i-1]
		// The nodes run for 20 seconds and the life of a lease before the first request.
		rate := float64(r.Fleet.Rate) / float64(m.Requests)
		renewals := w.Calls - float64(m.Calls-m.Returns)*rate - min(float64(m.Returns)*rate, 4*1000)
		if w.Mode != m.Mode || w.HeldKeys != m.HeldKeys*8 || math.Abs(w.InFlight-w.Calls*0.001) > 1e-9 || math.Abs(renewals-float64(m.Renewals)/41) > 1e-6 {
			t.Errorf("%+v does not follow from %+v", w, m)
		}
	}
	if m := modeOf(t, r, "local"); m.Calls != 0 || m.OnNode != m.Requests {
		t.Errorf("each node alone asks the store: %+v", m)
	}
}

// Where users send much, leases save most of the calls.
func TestLeasesSaveCalls(t *testing.T) {
	r, _ := playFor(t, small("limit: 2000/minute"), "leased")
	if m := modeOf(t, r, "leased"); m.Calls == 0 || m.Calls >= m.Requests/2 || m.OnNode < m.Requests/2 || m.HeldKeys == 0 || m.HeldBytes == 0 {
		t.Errorf("leases save nothing: %+v", m)
	}
}

// A limit is said to be too small for so many nodes where leases save no calls of requests
// that are allowed.
func TestSmallLimitsAskEachTime(t *testing.T) {
	for units, isSmall := range map[int]bool{31: true, 32: false} {
		r, _ := playFor(t, small(fmt.Sprintf("limit: %d/hour", units)), "leased")
		if m := modeOf(t, r, "leased"); (len(r.Played.Small) > 0) != isSmall || (m.HeldKeys == 0) != isSmall || isSmall && m.OnNode > m.Refused {
			t.Errorf("%d units on 4 nodes: %v, %d of %d on the node, %d refused", units, r.Played.Small, m.OnNode, m.Requests, m.Refused)
		}
	}
}

// What a bucket forgets soon is not left at the end, but counts for all users at once.
func TestMemoryOfAllUsersForgetsNone(t *testing.T) {
	for _, x := range []struct {
		algorithm string
		forgets   bool
	}{{"token_bucket", true}, {"sliding_window", false}} {
		o := small("limit: 600/minute\nalgorithm: " + x.algorithm)
		o.Nodes, o.Users, o.Rate, o.Zipf, o.Requests = 1, 10_000_000, 10_000, 0, 300_000
		r, _ := playFor(t, o, "strict")
		m := &r.Machine
		if m.BytesAtOnce < 8 || m.AllBytes != m.BytesAtOnce*1e7 {
			t.Errorf("%s: %.1f bytes just after a request, %.0f for all", x.algorithm, m.BytesAtOnce, m.AllBytes)
		}
		if isLess := m.BytesPerUser < m.BytesAtOnce*0.9; isLess != x.forgets {
			t.Errorf("%s: %.1f bytes at the end, %.1f just after a request", x.algorithm, m.BytesPerUser, m.BytesAtOnce)
		}
	}
}

// A slow store is an outage, and it is told.
func TestSlowStoreIsTold(t *testing.T) {
	o := small("limit: 200/minute")
	o.StoreLatency = 50 * time.Millisecond
	r, _ := playFor(t, o, "strict")
	text := r.Text()
	if m := modeOf(t, r, "strict"); m.Degraded == 0 || !strings.Contains(text, "strict: "+figures.Thousands(int64(m.Degraded))+" decisions by on_store_error") {
		t.Errorf("%+v\n%s", m, text)
	}
}

// Limits that cannot be shown in a slice are told.
func TestLimitsOfAllAreTold(t *testing.T) {
	o := small("limit: 50/minute")
	const text = "domain: api\ndescriptors:\n  - {key: user, limit: 50/minute}\n  - {key: path, limit: 100/second}\n  - {key: job, algorithm: concurrency, limit: 3, ttl: 30s}\n"
	o.Load = func(opt rules.Options) (*limits.Set, error) { return rules.Parse("test", []byte(text), opt) }
	o.Users, o.Rate, o.Requests = 2000, 2000, 5000
	r, _ := playFor(t, o, "strict")
	if !slices.Equal(r.Played.Common, []string{"path"}) || !slices.Equal(r.Played.LeftOut, []string{"job"}) || r.Played.Every < 2 {
		t.Errorf("%+v", r.Played)
	}
}

// A play ends when it is interrupted.
func TestInterrupt(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Run(ctx, small("limit: 200/minute")); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// What cannot be played is told, with the flag that it is about.
func TestOptionsAreBounded(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"--nodes 0 must":                        func(o *Options) { o.Nodes = 0 },
		"--nodes 1,001 must":                    func(o *Options) { o.Nodes = 1001 },
		"--users -1 must":                       func(o *Options) { o.Users = -1 },
		"--users 10,000,000,001":                func(o *Options) { o.Users = 10_000_000_001 },
		"--rate 0 must":                         func(o *Options) { o.Rate = 0 },
		"--requests 999 must":                   func(o *Options) { o.Requests = 999 },
		"--zipf NaN":                            func(o *Options) { o.Zipf = math.NaN() },
		"--zipf -1":                             func(o *Options) { o.Zipf = -1 },
		"--for 0s":                              func(o *Options) { o.For = 0 },
		"--for 24h0m1s":                         func(o *Options) { o.For = 24*time.Hour + time.Second },
		"1,000 nodes for 2h0m0s":                func(o *Options) { o.Nodes, o.For = 1000, 2*time.Hour },
		"--store-latency -1s":                   func(o *Options) { o.StoreLatency = -time.Second },
		"leaves 0 of 20: raise":                 func(o *Options) { o.Rate = MaxRate },
		"no rule of domain api looks at plan":   func(o *Options) { o.Entries = append(o.Entries, entry("plan", "x")) },
		"--without plan: no rule":               func(o *Options) { o.Without = []string{"plan"} },
		"no rule of domain api is left to play": func(o *Options) { o.Without = []string{"user"} },
		`no domain "shop"`:                      func(o *Options) { o.Domain = "shop" },
	} {
		o := small("limit: 200/minute")
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

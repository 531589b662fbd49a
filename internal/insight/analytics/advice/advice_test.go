package advice_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics/advice"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/traffic"
)

// figures plays a cast and puts together what a service knows of one rule. All
// keys are in the sample.
func figures(t *testing.T, c *traffic.Cast, rule string) *advice.Figures {
	t.Helper()
	s := c.Make()
	var table traffic.Table
	minutes := map[int64]bool{}
	var decisive int64
	recorder := traffic.Recorder{Sample: 1, Emit: func(r *event.Record) {
		table.Add(r)
		refused := r.Outcome == weir.Refused.String() || r.Outcome == weir.ShadowRefused.String()
		if r.Rule == rule {
			m := r.First.Unix() / 60
			minutes[m] = minutes[m] || refused
			if refused {
				decisive += r.Decisive
			}
		}
	}}
	if err := recorder.Record(s); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.Rules, func(r *traffic.Rule) bool { return r.Name == rule })
	l := s.Rules[i].Limit
	from, to := s.Range()
	f := &advice.Figures{Algorithm: l.Algorithm.Name(), Allowance: l.Count, Period: l.Period, Burst: l.Burst,
		Kind: verdict.Kind(s.Rules[i].Kind), Shadow: l.Shadow, From: from, To: to,
		Allowed: int64(l.Counters().Load(weir.Allowed)), Refused: int64(l.Counters().Load(weir.Refused)),
		ShadowRefused: int64(l.Counters().Load(weir.ShadowRefused)), Decisive: decisive}
	var peaks []int64
	for _, c := range table.Cases(s) {
		if c.Rule.Name != rule {
			continue
		}
		peaks = append(peaks, c.Evidence.Peak)
		if c.Evidence.Refused > 0 {
			f.Clients = append(f.Clients, advice.Client{Evidence: c.Evidence, Verdict: verdict.Classify(c.Evidence)})
		}
	}
	if n := len(peaks); n > 0 {
		slices.Sort(peaks)
		at := func(p int) int64 { return peaks[(n*p+99)/100-1] }
		f.Sample = advice.Quantiles{Clients: int64(n), P95: at(95), Max: at(100)}
	}
	was := false
	for m := from.Unix() / 60; m < to.Unix()/60; m++ {
		tripped, met := minutes[m]
		if met {
			f.Minutes++
		}
		if tripped {
			f.Tripped++
			if !was {
				f.Trips++
			}
		}
		was = tripped
	}
	return f
}

func perMinute(name string, kind traffic.Kind, n int64, a weir.Algorithm) *traffic.Rule {
	return traffic.NewRule(name, kind, &weir.Limit{Algorithm: a, Count: n, Period: time.Minute})
}

func kinds(a advice.Answer) (out []advice.Kind) {
	for _, x := range a.Advice {
		out = append(out, x.Kind)
	}
	return out
}

// On traffic in which it is known what is wrong, that is what is said, and nothing
// else.
func TestAdviceOnKnownTraffic(t *testing.T) {
	shadow := perMinute("tried", traffic.Address, 5, algorithm.SlidingWindow)
	shadow.Limit.Shadow = true
	bad := perMinute("tried", traffic.Address, 5, algorithm.SlidingWindow)
	bad.Limit.Shadow = true
	for _, c := range []struct {
		name   string
		cast   traffic.Cast
		rule   string
		badges []advice.Badge
		advice []advice.Kind
		says   []string
	}{
		{"a flash sale under a fixed window",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("user", traffic.Account, 80, algorithm.FixedWindow)}, Actors: map[string]int{"shopper": 60, "visitor": 20}},
			"user", []advice.Badge{advice.TooTight}, []advice.Kind{advice.TokenBucket}, []string{"look legitimate", "token bucket", "80 per minute"}},
		{"a flash sale under a token bucket",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("user", traffic.Account, 80, algorithm.TokenBucket)}, Actors: map[string]int{"shopper": 60}},
			"user", []advice.Badge{advice.TooTight}, []advice.Kind{advice.RaiseBurst}, []string{"raise the burst from 80"}},
		{"customers who need more",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("user", traffic.Account, 60, algorithm.SlidingWindow)}, Actors: map[string]int{"customer": 12}},
			"user", []advice.Badge{advice.TooTight}, []advice.Kind{advice.Relax}, []string{"Relax", "60 per minute"}},
		{"offices behind one address",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("address", traffic.Address, 100, algorithm.SlidingWindow)}, Actors: map[string]int{"office": 5}},
			"address", []advice.Badge{advice.SharedAddress}, []advice.Kind{advice.KeyByUser}, []string{"at least", "users", "Count by user"}},
		{"the same limit twice",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("address", traffic.Address, 60, algorithm.SlidingWindow), perMinute("again", traffic.Address, 60, algorithm.SlidingWindow)},
				Actors: map[string]int{"script": 3, "scanner": 2}},
			"again", []advice.Badge{advice.NeverDecides}, []advice.Kind{advice.Remove}, []string{"never the answer", "always stricter"}},
		{"a limit that nobody comes near",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("address", traffic.Address, 5000, algorithm.SlidingWindow)}, Units: 6, Period: time.Minute, Length: 26 * time.Hour,
				Actors: map[string]int{"visitor": 1, "prober": 21}},
			"address", []advice.Badge{advice.NeverHit, advice.TooLoose}, []advice.Kind{advice.Tighten}, []string{"refused nothing", "26 hours", "5000 per minute"}},
		{"a limit that is met but not hit",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("address", traffic.Address, 400, algorithm.SlidingWindow)}, Units: 60, Period: time.Minute, Length: 26 * time.Hour,
				Actors: map[string]int{"visitor": 2}},
			"address", []advice.Badge{advice.NeverHit}, []advice.Kind{advice.Remove}, []string{"refused nothing"}},
		{"a shadow that would hit attackers alone",
			traffic.Cast{Rules: []*traffic.Rule{shadow}, Length: 26 * time.Hour, Actors: map[string]int{"scanner": 2, "stuffer": 3, "prober": 3}},
			"tried", []advice.Badge{advice.ShadowReady}, []advice.Kind{advice.Enforce}, []string{"would have refused", "5 clients", "Enforce"}},
		{"a limit that lets attackers pass",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("address", traffic.Address, 600, algorithm.FixedWindow)}, Units: 450, Period: time.Minute, Length: 40 * time.Minute,
				Actors: map[string]int{"scraper": 2, "scanner": 1, "household": 120}},
			"address", []advice.Badge{advice.TooLoose}, []advice.Kind{advice.Tighten}, []string{"Tighten", "600 per minute"}},

		// Where nothing must be said.
		{"a limit that does what it is for",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("address", traffic.Address, 60, algorithm.SlidingWindow)}, Actors: map[string]int{"scanner": 3, "script": 2, "prober": 5}},
			"address", nil, nil, []string{"nothing in the figures"}},
		{"too few refusals",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("address", traffic.Address, 60, algorithm.TokenBucket)}, Length: 10 * time.Minute, Actors: map[string]int{"household": 2, "visitor": 1}},
			"address", nil, nil, []string{"too few"}},
		{"not hit for an hour",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("address", traffic.Address, 5000, algorithm.SlidingWindow)}, Units: 60, Period: time.Minute, Actors: map[string]int{"visitor": 30}},
			"address", nil, nil, []string{"takes a day"}},
		{"three legitimate clients are no pattern",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("user", traffic.Account, 60, algorithm.SlidingWindow)}, Length: 30 * time.Minute, Actors: map[string]int{"customer": 3}},
			"user", nil, nil, []string{"nothing in the figures"}},
		{"a shadow that would hit people",
			traffic.Cast{Rules: []*traffic.Rule{bad}, Length: 26 * time.Hour, Actors: map[string]int{"scanner": 1, "visitor": 1}},
			"tried", nil, nil, []string{"nothing in the figures"}},
		{"nobody",
			traffic.Cast{Rules: []*traffic.Rule{perMinute("user", traffic.Account, 60, algorithm.SlidingWindow)}, Actors: map[string]int{"prober": 2}},
			"user", nil, nil, []string{"nothing met"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seeds := uint64(2)
			switch large := c.cast.Length > 0 || c.cast.Units > 0; {
			case large && testing.Short():
				t.Skip("-short: it takes long under the race detector")
			case large || testing.Short():
				seeds = 1
			}
			for seed := range seeds {
				cast := c.cast
				cast.Seed = seed
				cast.Rules = nil
				for _, r := range c.cast.Rules { // a limit is compiled once
					cast.Rules = append(cast.Rules, traffic.NewRule(r.Name, r.Kind, &weir.Limit{
						Algorithm: r.Limit.Algorithm, Count: r.Limit.Count, Period: r.Limit.Period, Mode: r.Limit.Mode}))
				}
				f := figures(t, &cast, c.rule)
				got := advice.Advise(f)
				if !slices.Equal(got.Badges, c.badges) || !slices.Equal(kinds(got), c.advice) {
					t.Errorf("seed %d: badges %v and advice %v, want %v and %v", seed, got.Badges, got.Advice, c.badges, c.advice)
				}
				said := got.NoAdvice
				for _, a := range got.Advice {
					said += a.Text
				}
				for _, want := range c.says {
					if !strings.Contains(said, want) {
						t.Errorf("seed %d: no %q in %q", seed, want, said)
					}
				}
				if len(got.Advice) > 0 == (got.NoAdvice != "") {
					t.Errorf("advice %v, and silent for %q", got.Advice, got.NoAdvice)
				}
				t.Logf("%s; %d refused %d of %d clients: %+v", said, f.Refused+f.ShadowRefused, len(f.Clients), f.Sample.Clients, f.Sample)
			}
		})
	}
}

package advice_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics/advice"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
)

// client is a limited client of which only what advice reads is told.
func client(c verdict.Class, refused, allowed, peak int64, users int64) advice.Client {
	e := &verdict.Evidence{Kind: verdict.Address, From: start, To: start.Add(time.Hour), Allowance: 100, Period: time.Minute,
		Demand: refused + allowed, Refused: refused, Allowed: allowed, Units: refused + allowed, Peak: peak, Burst: peak, Users: users}
	return advice.Client{Evidence: e, Verdict: verdict.Verdict{Class: c}}
}

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// busy returns figures of a limit that refused a thousand times, of clients.
func busy(clients ...advice.Client) advice.Figures {
	return advice.Figures{Algorithm: algorithm.SlidingWindow.Name(), Allowance: 100, Period: time.Minute, Burst: 100,
		Kind: verdict.Address, From: start, To: start.Add(48 * time.Hour), Allowed: 10_000, Refused: 1000, Decisive: 1000,
		Clients: clients, Minutes: 1000, Tripped: 900, Trips: 3}
}

func repeat(n int, c advice.Client) (out []advice.Client) {
	for range n {
		out = append(out, c)
	}
	return out
}

// Each piece of advice is given where its need is just met, and not where it is
// just missed.
func TestNeeds(t *testing.T) {
	with := func(f advice.Figures, change func(*advice.Figures)) advice.Figures {
		change(&f)
		return f
	}
	idle := advice.Figures{Allowance: 100, Period: time.Minute, From: start, To: start.Add(24 * time.Hour), Allowed: 1000}
	near := advice.Quantiles{Clients: 20, P95: 81, Max: 99}
	abusers := busy(client(verdict.Abusive, 1000, 4000, 200, 0))
	ordinary := advice.Quantiles{Clients: 100, P95: 24, Max: 99}
	legit := func(n int, refused int64) advice.Figures {
		return busy(append(repeat(n, client(verdict.Legitimate, refused, 100, 130, 1)), client(verdict.Abusive, 1000-int64(n)*refused, 100, 900, 0))...)
	}
	sustained := func() advice.Figures {
		f := busy(repeat(10, client(verdict.Legitimate, 100, 5900, 160, 1))...)
		return f
	}
	addresses := func(share int64, users int64) advice.Figures {
		return busy(client(verdict.Shared, share, 100, 130, users), client(verdict.Abusive, 1000-share, 100, 900, 0))
	}
	tried := func(wrong, open int64) advice.Figures {
		f := busy(client(verdict.Abusive, 1000-wrong-open, 100, 900, 0), client(verdict.Legitimate, wrong, 100, 130, 1), client(verdict.Undecided, open, 100, 130, 1))
		f.Shadow, f.Refused, f.ShadowRefused, f.Decisive = true, 0, 1000, 0
		return f
	}
	twice := with(busy(client(verdict.Abusive, 1000, 1, 900, 0)), func(f *advice.Figures) { f.Decisive = 0 })
	flaps := with(busy(client(verdict.Abusive, 1000, 1, 900, 0)), func(f *advice.Figures) { f.Trips, f.Tripped, f.Minutes = 10, 50, 101 })

	for _, c := range []struct {
		name   string
		f      advice.Figures
		badges []advice.Badge
		advice []advice.Kind
		says   string
	}{
		{"never hit", idle, []advice.Badge{advice.NeverHit}, []advice.Kind{advice.Remove}, "It refused nothing in 1000 decisions of 1 day"},
		{"never hit, too few decisions", with(idle, func(f *advice.Figures) { f.Allowed = 999 }), nil, nil, "too few"},
		{"never hit, too short", with(idle, func(f *advice.Figures) { f.To = f.To.Add(-time.Second) }), nil, nil, "a day to tell"},
		{"nobody near", with(idle, func(f *advice.Figures) { f.Sample = advice.Quantiles{Clients: 20, Max: 9} }),
			[]advice.Badge{advice.NeverHit, advice.TooLoose}, []advice.Kind{advice.Tighten}, "used 9 % of the 100 per minute. Lower it to 18"},
		{"nobody near, too few clients", with(idle, func(f *advice.Figures) { f.Sample = advice.Quantiles{Clients: 19, Max: 9} }),
			[]advice.Badge{advice.NeverHit}, []advice.Kind{advice.Remove}, "It refused nothing"},
		{"somebody near", with(idle, func(f *advice.Figures) { f.Sample = advice.Quantiles{Clients: 20, Max: 10} }),
			[]advice.Badge{advice.NeverHit}, []advice.Kind{advice.Remove}, "It refused nothing"},
		{"about to be hit", with(idle, func(f *advice.Figures) { f.Sample = near }), []advice.Badge{advice.TooTight, advice.NeverHit}, nil, "one sampled client in twenty"},

		{"never decisive", twice, []advice.Badge{advice.NeverDecides}, []advice.Kind{advice.Remove}, "other limits are always stricter"},
		{"decisive once", with(twice, func(f *advice.Figures) { f.Decisive = 1 }), nil, nil, "nothing in the figures"},
		{"few refusals", with(twice, func(f *advice.Figures) { f.Refused = 99 }), nil, nil, "99 refusals, too few"},

		{"most is not known of whom", with(legit(5, 40), func(f *advice.Figures) { f.Clients[5].Evidence.Refused -= 101 }), nil, nil, "is known of 90 % of the refusals only"},
		{"bursts", legit(5, 40), []advice.Badge{advice.TooTight}, []advice.Kind{advice.TokenBucket}, "5 of the 6 clients that it refused look legitimate, with 20 % of the refusals. 5 of these"},
		{"bursts of too few", legit(4, 60), nil, nil, "nothing in the figures"},
		{"bursts that are a small part", legit(5, 39), nil, nil, "nothing in the figures"},
		{"a bucket that is too small", with(legit(5, 40), func(f *advice.Figures) { f.Algorithm = algorithm.LeakyBucket.Name() }),
			[]advice.Badge{advice.TooTight}, []advice.Kind{advice.RaiseBurst}, "raise the burst from 100 to 300"},
		{"sustained", sustained(), []advice.Badge{advice.TooTight}, []advice.Kind{advice.Relax}, "Relax it: 160 instead of 100 per minute"},
		{"near", with(abusers, func(f *advice.Figures) { f.Sample = near }), []advice.Badge{advice.TooTight}, nil, "one sampled client in twenty"},
		{"not near", with(abusers, func(f *advice.Figures) { f.Sample = near; f.Sample.P95 = 80 }), nil, nil, "nothing in the figures"},

		{"shared", addresses(200, 12), []advice.Badge{advice.SharedAddress}, []advice.Kind{advice.KeyByUser}, "1 address that many share had 20 % of the refusals; behind one of them are at least 12 users"},
		{"shared, nobody signed in", addresses(200, 0), []advice.Badge{advice.SharedAddress}, []advice.Kind{advice.KeyByUser}, "Count by user or API key where there is one"},
		{"shared, a small part", addresses(199, 12), nil, nil, "nothing in the figures"},
		{"shared, but counted by user", with(addresses(200, 12), func(f *advice.Figures) { f.Kind = verdict.Account }), []advice.Badge{advice.SharedAddress}, nil, "nothing in the figures"},

		{"loose", with(abusers, func(f *advice.Figures) { f.Sample = ordinary }), []advice.Badge{advice.TooLoose}, []advice.Kind{advice.Tighten},
			"40 % of what it lets pass is of 1 client that look"},
		{"loose, too few clients", with(abusers, func(f *advice.Figures) { f.Sample = ordinary; f.Sample.Clients = 99 }), nil, nil, "nothing in the figures"},
		{"loose, but used", with(abusers, func(f *advice.Figures) { f.Sample = ordinary; f.Sample.P95 = 25 }), nil, nil, "nothing in the figures"},
		{"loose, but little passes", with(abusers, func(f *advice.Figures) { f.Sample = ordinary; f.Allowed = 20_001 }), nil, nil, "nothing in the figures"},

		{"a shadow is ready", tried(10, 50), []advice.Badge{advice.ShadowReady}, []advice.Kind{advice.Enforce}, "In 2 days it would have refused 1000 requests, 94 % of them of the 1 client"},
		{"a shadow that is wrong", tried(11, 0), nil, nil, "nothing in the figures"},
		{"a shadow that cannot be judged", tried(0, 51), nil, nil, "nothing in the figures"},
		{"a shadow of a few hours", with(tried(0, 0), func(f *advice.Figures) { f.To = f.From.Add(23 * time.Hour) }), nil, nil, "nothing in the figures"},

		{"flapping", flaps, []advice.Badge{advice.Flapping}, nil, "nothing in the figures"},
		{"tripping a few times", with(flaps, func(f *advice.Figures) { f.Trips, f.Tripped = 9, 45 }), nil, nil, ""},
		{"tripping for long", with(flaps, func(f *advice.Figures) { f.Tripped, f.Minutes = 51, 200 }), nil, nil, ""},
		{"tripping most of the time", with(flaps, func(f *advice.Figures) { f.Minutes = 100 }), nil, nil, ""},
	} {
		got := advice.Advise(&c.f)
		said := got.NoAdvice
		for _, a := range got.Advice {
			said += a.Text
		}
		if !slices.Equal(got.Badges, c.badges) || !slices.Equal(kinds(got), c.advice) || !strings.Contains(said, c.says) {
			t.Errorf("%s: badges %v, advice %v, %q; want %v, %v, %q", c.name, got.Badges, kinds(got), said, c.badges, c.advice, c.says)
		}
	}
}

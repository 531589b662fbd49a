package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// evidence is of a client that is somewhat above 100 a minute for half an hour.
func evidence(change func(*verdict.Evidence)) *verdict.Evidence {
	e := &verdict.Evidence{Kind: verdict.Address, From: noon, To: noon.Add(time.Hour), Allowance: 100, Period: time.Minute,
		Demand: 4500, Allowed: 3000, Refused: 1500, Units: 4500, Peak: 160, Early: 900, Spans: 30, Active: 30, Spread: 0.5,
		Span: time.Minute, Busiest: 5, SpanPeak: 160, Identified: true, Paths: 10, Agents: 1, Agent: "python", Addresses: 1,
		Answers: &verdict.Answers{Count: 3000, OK: 2900, Denied: 100}}
	change(e)
	return e
}

// Each rule of thumb decides where its threshold is just met, and not where it is
// just missed. The reasons quote the figures.
func TestRulesOfThumb(t *testing.T) {
	denied := func(n int64) func(*verdict.Evidence) {
		return func(e *verdict.Evidence) { e.Answers = &verdict.Answers{Count: 3000, OK: 3000 - n, Denied: n} }
	}
	loop := func(e *verdict.Evidence) { e.Paths, e.Spread, e.Path = 1, 0.05, "/v1/sync" }
	flood := func(e *verdict.Evidence) {
		e.Units, e.Peak, e.Spread, e.Refused, e.Early = 45_000, 2000, 0.5, 42_000, 42_000
		e.Path, e.Paths = "/", 1
	}
	scrape := func(e *verdict.Evidence) { e.Paths, e.Spread = 30, 0.35 }
	for _, c := range []struct {
		name   string
		first  func(*verdict.Evidence)
		change func(*verdict.Evidence)
		want   verdict.Class
		says   string
	}{
		{"never refused", nil, func(e *verdict.Evidence) { e.Refused, e.Early = 0, 0 }, verdict.Legitimate, "it was never refused"},
		{"never refused, guessing", denied(2000), func(e *verdict.Evidence) { e.Refused, e.Early = 0, 0 }, verdict.Abusive, "2000 of 3000 answers were 401, 403 or 404"},
		{"half denied", denied(1500), nil, verdict.Abusive, "1500 of 3000 answers were 401, 403 or 404"},
		{"less than half denied", denied(1499), func(e *verdict.Evidence) { e.Users = 1 }, verdict.Undecided, "refused 1500 of 4500 times"},
		{"denied, but of nine", nil, func(e *verdict.Evidence) { e.Answers = &verdict.Answers{Count: 9, Denied: 9} }, verdict.Undecided, ""},
		{"denied, of ten", nil, func(e *verdict.Evidence) { e.Answers = &verdict.Answers{Count: 10, Denied: 10} }, verdict.Abusive, "10 of 10"},
		{"three users", nil, func(e *verdict.Evidence) { e.Users = 3 }, verdict.Shared, "at least 3 users behind it"},
		{"two users", nil, func(e *verdict.Evidence) { e.Users = 2 }, verdict.Legitimate, ""},
		{"three agents", nil, func(e *verdict.Evidence) { e.Agents = 3 }, verdict.Shared, "at least 3 different agents"},
		{"three agents of an account", nil, func(e *verdict.Evidence) { e.Agents, e.Kind = 3, verdict.Account }, verdict.Legitimate, "it is signed in"},
		{"a key of everybody", nil, func(e *verdict.Evidence) { e.Kind, e.Users, e.Addresses = verdict.Unknown, 40, 3 }, verdict.Undecided, "the key is no client's: at least 3 addresses"},
		{"a key of somebody", nil, func(e *verdict.Evidence) { e.Kind, e.Users, e.Addresses = verdict.Unknown, 40, 2 }, verdict.Shared, ""},
		{"an account at many addresses", nil, func(e *verdict.Evidence) { e.Kind, e.Users, e.Addresses = verdict.Account, 1, 16 }, verdict.Legitimate, ""},
		{"a flood", flood, nil, verdict.Abusive, "15 times the limit's rate, and for 2000, 20 times the limit, at its peak"},
		{"nearly a flood", flood, func(e *verdict.Evidence) { e.Peak = 1999 }, verdict.Runaway, ""},
		{"a flood of somebody who is known", flood, func(e *verdict.Evidence) { e.Users = 1 }, verdict.Runaway, ""},
		{"takes everything", scrape, nil, verdict.Abusive, "some 30 different paths"},
		{"takes nearly everything", scrape, func(e *verdict.Evidence) { e.Paths = 29 }, verdict.Undecided, ""},
		{"takes everything, signed in", scrape, func(e *verdict.Evidence) { e.Users = 1 }, verdict.Legitimate, ""},
		{"takes everything by many names", scrape, func(e *verdict.Evidence) { e.Agents = 5 }, verdict.Shared, ""},
		{"takes everything by many names, evenly", scrape, func(e *verdict.Evidence) { e.Agents, e.Spread = 5, 0.2 }, verdict.Abusive, ""},
		{"takes everything and waits", scrape, func(e *verdict.Evidence) { e.Early = 75 }, verdict.Legitimate, "it waits when it is told to: of its requests 75 came too early, against 1500 refusals"},
		{"tries doors", loop, func(e *verdict.Evidence) { e.Path, e.Answers = "/Account/LogIn", nil }, verdict.Abusive, "it asks for /Account/LogIn only"},
		{"tries a door that opens", loop, func(e *verdict.Evidence) { e.Path = "/login" }, verdict.Runaway, ""},
		{"a loop", loop, nil, verdict.Runaway, "of its requests 900 came too early, against 1500 refusals"},
		{"a loop of a browser", loop, func(e *verdict.Evidence) { e.Agent, e.Spread = "browser", 0.36 }, verdict.Legitimate, "browser"},
		{"an even loop of one path", loop, func(e *verdict.Evidence) { e.Spread = 0.35 }, verdict.Runaway, "varies by 35 %"},
		{"demand that gives way", loop, func(e *verdict.Evidence) { e.Spread = 0.36 }, verdict.Legitimate, "its demand gives way: it varies by 36 %"},
		{"rushes", loop, func(e *verdict.Evidence) { e.Spread, e.Busiest, e.Users = 0.3, 8, 1 }, verdict.Undecided, ""},
		{"steady rushes", loop, func(e *verdict.Evidence) { e.Busiest = 8 }, verdict.Runaway, ""},
		{"asks for little, in vain", loop, func(e *verdict.Evidence) { e.Units = 1499 }, verdict.Legitimate, ""},
		{"five times what is allowed", nil, func(e *verdict.Evidence) { e.Units, e.Peak = 15_000, 600 }, verdict.Runaway, "5.0 times what is allowed"},
		{"bursts", nil, func(e *verdict.Evidence) { e.Units, e.Peak = 2999, 300 }, verdict.Legitimate, "it comes in bursts: at its peak it asked for 300, but in the 30 minutes in which it came for no more than 100 %"},
		{"comes and goes", nil, func(e *verdict.Evidence) { e.Spread = 0.7 }, verdict.Legitimate, "its demand comes and goes: it varies by 70 %"},
		{"gone", nil, func(e *verdict.Evidence) { e.Spans, e.Active, e.Answers, e.Units = 5, 5, nil, 700 }, verdict.Legitimate, "it was gone after 5 minutes"},
		{"refused nine times", nil, func(e *verdict.Evidence) { e.Refused, e.Early, e.Answers = 9, 9, nil }, verdict.Legitimate, "it was refused only 9 times"},
		{"nothing known but counts", nil, func(e *verdict.Evidence) { e.Identified, e.Answers, e.Agent, e.Paths, e.Agents = false, nil, "", 0, 0 }, verdict.Undecided, ""},
	} {
		e := evidence(func(e *verdict.Evidence) {
			if c.first != nil {
				c.first(e)
			}
			if c.change != nil {
				c.change(e)
			}
		})
		v := verdict.Classify(e)
		if v.Class != c.want || !strings.Contains(strings.Join(v.Reasons, "; "), c.says) || len(v.Reasons) == 0 {
			t.Errorf("%s: %s because %q, want %s because %q", c.name, v.Class, v.Reasons, c.want, c.says)
		}
		if (v.Confidence == 0) != (v.Class == verdict.Undecided) || v.Confidence > 0.97 {
			t.Errorf("%s: confidence %v in %s", c.name, v.Confidence, v.Class)
		}
	}
}

// What is missing is said, and lowers the confidence.
func TestMissing(t *testing.T) {
	full := verdict.Classify(evidence(func(e *verdict.Evidence) {
		e.Early, e.Users, e.History, e.HistorySpan, e.Usual, e.Before, e.Sampled = 0, 1, 10, time.Hour, 80, 100*time.Hour, true
	}))
	if full.Class != verdict.Legitimate || len(full.Missing) != 0 || !slices.ContainsFunc(full.Reasons, func(r string) bool {
		return strings.Contains(r, "usually stays below the limit: 95 in 100 of its periods had at most 80 of 100")
	}) {
		t.Errorf("%+v", full)
	}
	less := verdict.Classify(evidence(func(e *verdict.Evidence) { e.Early, e.Identified, e.Answers, e.Agent, e.Paths = 0, false, nil, "", 0 }))
	if less.Class != full.Class || less.Confidence >= full.Confidence || len(less.Missing) != 3 {
		t.Errorf("%+v", less)
	}
	// A shadow does not tell clients that it refuses them: that none is early says
	// nothing.
	shadow := verdict.Classify(evidence(func(e *verdict.Evidence) { e.Early, e.Shadowed = 0, e.Refused }))
	if shadow.Class == verdict.Legitimate && strings.Contains(fmt.Sprint(shadow.Reasons), "waits") || !strings.Contains(fmt.Sprint(shadow.Missing), "shadow mode") {
		t.Errorf("%+v", shadow)
	}
	// Somebody who was not told of before is new only if it would have been.
	for _, sampled := range []bool{false, true} {
		v := verdict.Classify(evidence(func(e *verdict.Evidence) { e.Paths, e.Spread, e.Sampled, e.Before = 30, 0.1, sampled, 50*time.Hour }))
		if strings.Contains(fmt.Sprint(v.Reasons), "not seen in the 2 days before") != sampled {
			t.Errorf("sampled %t: %v", sampled, v.Reasons)
		}
	}
}

// TestFamilyShadowIsNoRefusal looks at every sentence that counts refusals: what was
// let pass in shadow mode is never said to have been refused, and the rest is counted
// as it was.
func TestFamilyShadowIsNoRefusal(t *testing.T) {
	bases := map[string]func(*verdict.Evidence){
		"plain":     func(*verdict.Evidence) {},
		"undecided": func(e *verdict.Evidence) { e.Users, e.Answers = 1, nil },
		"few":       func(e *verdict.Evidence) { e.Refused, e.Early, e.Answers = 9, 0, nil },
		"once":      func(e *verdict.Evidence) { e.Refused, e.Early, e.Answers = 1, 0, nil },
		"goes on":   func(e *verdict.Evidence) { e.Ongoing, e.Run = true, 3 },
		"cut":       func(e *verdict.Evidence) { e.Cut, e.Run = true, 3 },
		"loop":      func(e *verdict.Evidence) { e.Paths, e.Spread = 1, 0.05 },
		"shared":    func(e *verdict.Evidence) { e.Users = 12 },
	}
	refused, would := regexp.MustCompile(`was refused (?:only )?(once|\d+)`), regexp.MustCompile(`would have been refused (?:only )?(once|\d+)`)
	counted := func(n int64) []string {
		return []string{strconv.FormatInt(n, 10), map[bool]string{true: "once", false: "-"}[n == 1]}
	}
	var all, some int
	for name, base := range bases {
		total := evidence(base).Refused
		for _, shadowed := range []int64{0, 1, total / 2, total - 1, total} {
			e := evidence(base)
			e.Shadowed = max(0, min(shadowed, total))
			e.Early = min(e.Early, e.Enforced())
			v := verdict.Classify(e)
			for _, text := range slices.Concat(v.Reasons, v.Against) {
				if m := refused.FindStringSubmatch(text); m != nil {
					some++
					if !slices.Contains(counted(e.Enforced()), m[1]) || e.Enforced() == 0 {
						t.Errorf("%s, %d of %d in shadow mode: %s", name, e.Shadowed, total, text)
					}
				}
				if m := would.FindStringSubmatch(text); m != nil {
					all++
					if !slices.Contains(counted(e.Shadowed), m[1]) || e.Shadowed == 0 || !strings.Contains(text, "in shadow mode") {
						t.Errorf("%s, %d of %d in shadow mode: %s", name, e.Shadowed, total, text)
					}
				}
				if e.Enforced() == 0 && strings.Contains(text, "was refused") {
					t.Errorf("%s, all %d in shadow mode: %s", name, total, text)
				}
				if e.Shadowed > 0 && strings.Contains(text, "was refused") && !strings.Contains(text, "shadow mode") {
					t.Errorf("%s, %d of %d in shadow mode: %s", name, e.Shadowed, total, text)
				}
				if e.Shadowed == 0 && strings.Contains(text, "shadow") {
					t.Errorf("%s, none in shadow mode: %s", name, text)
				}
			}
		}
	}
	if all < 5 || some < 5 {
		t.Errorf("%d sentences count refusals and %d those in shadow mode", some, all)
	}
}

// What speaks against a verdict is told too: a shared address behind which
// something asks evenly.
func TestAgainst(t *testing.T) {
	v := verdict.Classify(evidence(func(e *verdict.Evidence) { e.Users, e.Spread = 12, 0.05 }))
	if v.Class != verdict.Shared || !strings.Contains(fmt.Sprint(v.Against), "its demand is even") {
		t.Errorf("%+v", v)
	}
}

func row(minute int, change func(*verdict.Row)) *verdict.Row {
	r := &verdict.Row{At: noon.Add(time.Duration(minute) * time.Minute), Span: time.Minute}
	change(r)
	return r
}

func TestGatherer(t *testing.T) {
	g := verdict.NewGatherer(verdict.Address, 100, 2*time.Minute, noon, noon.Add(time.Hour), noon.Add(-30*time.Hour))
	for m, units := range []int64{10, 60, 90, 0, 20, 30} {
		if units == 0 {
			continue
		}
		g.Add(row(m, func(r *verdict.Row) {
			r.Cost, r.Allowed, r.Refused, r.Early = units, units-units/30, units/30, units/60
			r.User, r.Path, r.Agent, r.Agents, r.Identified = fmt.Sprint("u", m), "/a", "browser", int64(m), true
			r.Answers = verdict.Answers{Count: 2, OK: 1, Denied: 1}
		}))
	}
	for h := 1; h <= 20; h++ { // the week before, by hours
		g.Add(&verdict.Row{At: noon.Add(-time.Duration(h) * time.Hour), Span: time.Hour, Cost: int64(30 * h), User: "old"})
	}
	// Left out: after the range, and before the week.
	g.Add(row(60, func(r *verdict.Row) { r.Cost, r.Refused = 1000, 1000 }))
	g.Add(&verdict.Row{At: noon.Add(-verdict.Week - time.Hour), Span: time.Hour, Cost: 1})
	g.Add(&verdict.Row{At: noon, Cost: 5})
	e := g.Evidence()
	want := verdict.Evidence{Kind: verdict.Address, From: noon, To: noon.Add(time.Hour), Allowance: 100, Period: 2 * time.Minute,
		Demand: 210, Allowed: 204, Refused: 6, Early: 2, Units: 210, Peak: 150, Burst: 100, Spans: 6, Active: 5, SpanPeak: 90,
		Span: time.Minute, Identified: true, Users: 5, Agents: 5, Paths: 1, Path: "/a", Agent: "browser",
		FirstSeen: noon.Add(-20 * time.Hour), History: 20, HistorySpan: time.Hour, Usual: 19, Before: 30 * time.Hour}
	answers := verdict.Answers{Count: 10, OK: 5, Denied: 5}
	if e.Answers == nil || *e.Answers != answers {
		t.Errorf("answers %+v", e.Answers)
	}
	// Of 60, 90, 0, 20: the first and the last minute are cut.
	if e.Spread < 0.821 || e.Spread > 0.822 {
		t.Errorf("spread %v", e.Spread)
	}
	e.Answers, e.Spread = nil, 0
	if *e != want {
		t.Errorf("got\n%+v, want\n%+v", *e, want)
	}
}

// A client that is not in the sample is told of from its first refusal on: what it
// was let pass before is at least what the limit holds. Peaks of seconds count
// where the period is one.
func TestGathererOfThin(t *testing.T) {
	g := verdict.NewGatherer(verdict.Account, 1000, time.Hour, noon, noon.Add(time.Hour), time.Time{})
	for m := range 10 {
		g.Add(row(30+m, func(r *verdict.Row) { r.Cost, r.Refused, r.Allowed = 50, 40, 10 }))
	}
	if e := g.Evidence(); e.Unseen != 900 || e.Peak != 1400 || e.Overshoot() != 1.4 || e.Before != 0 || e.Pace() != 3 {
		t.Errorf("%+v: pace %v", e, e.Pace())
	}
	g = verdict.NewGatherer(verdict.Account, 10, time.Second, noon, noon.Add(time.Hour), time.Time{})
	g.Add(row(0, func(r *verdict.Row) { r.Cost, r.Refused, r.Busiest = 120, 30, 35 }))
	g.Add(row(1, func(r *verdict.Row) { r.Cost, r.Allowed, r.Busiest = 600, 600, 12 }))
	if e := g.Evidence(); e.Peak != 35 || e.Unseen != 0 || e.Rush() != 3.5 || e.Pressure() != 0.6 {
		t.Errorf("%+v: rush %v, pressure %v", e, e.Rush(), e.Pressure())
	}
	if e := verdict.NewGatherer(verdict.Account, 10, time.Second, noon, noon, time.Time{}).Evidence(); e.Demand != 0 || verdict.Classify(e).Class != verdict.Legitimate {
		t.Errorf("nothing: %+v", e)
	}
}

// Whatever the figures are, there is a verdict with a reason.
func TestJudgeOfAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	any := func() int64 {
		switch rng.IntN(5) {
		case 0:
			return 0
		case 1:
			return -rng.Int64N(100)
		case 2:
			return rng.Int64()
		}
		return rng.Int64N(50)
	}
	for range 20_000 {
		e := &verdict.Evidence{Kind: []verdict.Kind{verdict.Address, verdict.Account, verdict.Unknown}[rng.IntN(3)], From: noon, To: noon.Add(time.Duration(any())),
			Allowance: any(), Period: time.Duration(any()), Demand: any(), Allowed: any(), Refused: any(), Shadowed: any(), Early: any(),
			Units: any(), Unseen: any(), Peak: any(), Spans: any(), Active: any(), Spread: float64(any()), Busiest: any(), SpanPeak: any(),
			Span: time.Duration(any()), Identified: rng.IntN(2) == 0, Users: any(), Agents: any(), Paths: any(), Addresses: any(),
			Sampled: rng.IntN(2) == 0, History: any(), HistorySpan: time.Duration(any()), Usual: float64(any()), Before: time.Duration(any())}
		if rng.IntN(2) == 0 {
			e.Answers = &verdict.Answers{Count: any(), OK: any(), Redirect: any(), Denied: any()}
		}
		v := verdict.Classify(e)
		if !slices.Contains(verdict.Classes(), v.Class) || len(v.Reasons) == 0 || v.Confidence < 0 || v.Confidence > 0.97 {
			t.Fatalf("%+v of %+v", v, e)
		}
	}
}

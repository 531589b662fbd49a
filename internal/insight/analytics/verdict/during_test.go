package verdict_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/testing/traffic"
)

// ranges are those that people look at while something goes on.
var ranges = []time.Duration{time.Minute, 3 * time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour}

// A verdict that is judged in the middle of an incident is the one that is judged when it
// is over, or undecided, whatever the range: of a thousand, fewer than two are others, of
// clients that come again after they had left. Nobody is said to be gone who is refused
// in this minute, and no attacker is called legitimate in his first minutes.
func TestFamilyVerdictDuring(t *testing.T) {
	files := uint64(2)
	if os.Getenv("WEIR_SOAK") != "" {
		files = heldFiles
	}
	of, undecided, other, wrong := 0, 0, 0, 0
	for seed := range files {
		s := traffic.Held(heldFrom + seed)
		var table traffic.Table
		c := traffic.Recorder{Sample: []uint64{1000, 4}[seed%2], Emit: table.Add}
		if err := c.Record(s); err != nil {
			t.Fatal(err)
		}
		from, to := s.Range()
		final := map[string]verdict.Class{}
		for _, c := range table.Cases(s) {
			final[c.Rule.Name+" "+c.Key] = verdict.Classify(c.Evidence).Class
		}
		for now := from.Add(time.Minute); !now.After(to); now = now.Add(time.Minute) {
			for _, r := range ranges {
				since := now.Add(-r)
				if since.Before(from) {
					since = from
				}
				for _, c := range table.During(s, since, now) {
					if c.Evidence.Refused == 0 {
						continue
					}
					want, got := final[c.Rule.Name+" "+c.Key], verdict.Classify(c.Evidence)
					of++
					switch got.Class {
					case verdict.Undecided:
						undecided++
						if got.Certainty != verdict.None || len(got.Reasons) == 0 {
							t.Errorf("%s: undecided with a confidence of %s, since %q", c.Key, got.Certainty, got.Reasons)
						}
					case want:
					default:
						other++
						t.Logf("%s of %s, %s: %s at %s in the last %s, %s in the end", c.Who.Actor, s.Name, c.Key, got.Class, now.Format(time.TimeOnly), r, want)
					}
					attacks := c.Who.Label == traffic.Runaway || c.Who.Label == traffic.Abusive
					if attacks && want != verdict.Legitimate && got.Class == verdict.Legitimate && c.Evidence.Ongoing {
						wrong++
					}
					if c.Evidence.Ongoing && strings.Contains(strings.Join(got.Reasons, " "), "gone after") {
						t.Errorf("%s is said to be gone at %s, and is there", c.Key, now.Format(time.TimeOnly))
					}
				}
			}
		}
	}
	t.Logf("of %d verdicts %d were undecided, and %d others than in the end", of, undecided, other)
	if other*1000 > of*2 || wrong > 0 {
		t.Errorf("of %d verdicts %d were others than in the end, and %d called an attacker legitimate who was at it", of, other, wrong)
	}
	if undecided*10 > of*9 {
		t.Errorf("%d of %d verdicts were undecided", undecided, of)
	}
}

// What is refused in this second was not gone a minute ago, whatever range is asked for,
// and however evenly it comes.
func TestFamilyNotGone(t *testing.T) {
	to := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	for minutes := 1; minutes <= 60; minutes++ {
		for _, refused := range []int64{1, 9, 100, 900} {
			from := to.Add(-time.Duration(minutes) * time.Minute).Truncate(time.Minute)
			g := verdict.NewGatherer(verdict.Address, 600, time.Minute, from, to, time.Time{})
			g.InProgress(to)
			for at := from; at.Before(to); at = at.Add(time.Minute) {
				g.Add(&verdict.Row{At: at, Span: time.Minute, Allowed: 600, Refused: refused, Cost: 600 + refused, Busiest: 25, Early: refused,
					Identified: true, Agents: 1, Paths: 1, Addresses: 1, Path: "/poll", Agent: "python"})
			}
			v := verdict.Classify(g.Evidence())
			if said := strings.Join(append(v.Reasons, v.Against...), "; "); strings.Contains(said, "it was gone") {
				t.Errorf("after %d minutes with %d refusals each: %s", minutes, refused, said)
			}
			if v.Class == verdict.Legitimate && minutes < 29 {
				t.Errorf("after %d minutes with %d refusals each, of which the last is half a minute old: %s, since %q", minutes, refused, v.Class, v.Reasons)
			}
		}
	}
}

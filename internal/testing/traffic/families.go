package traffic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// family is a sort of scenario.
type family struct {
	name string
	make func(s *Scenario, m *mix)
}

// Families of scenarios that thresholds may be tuned on.
var tuned = []family{
	{"api", func(s *Scenario, m *mix) {
		s.some(m, 8, 14, (*Scenario).customer, (*Scenario).batch, (*Scenario).hooks, (*Scenario).uploader, (*Scenario).script, (*Scenario).loop, (*Scenario).sync)
		s.some(m, 10, 20, (*Scenario).visitor, (*Scenario).app, (*Scenario).household)
		s.some(m, 1, 3, (*Scenario).crawler, (*Scenario).scraper, (*Scenario).scanner)
		s.prober()
	}},
	{"shop", func(s *Scenario, m *mix) {
		at := s.Start + (20 * time.Minute).Microseconds()
		for range 30 + s.rng.IntN(30) {
			s.shopper(m, at)
		}
		s.some(m, 20, 40, (*Scenario).visitor)
		s.some(m, 3, 6, (*Scenario).office, (*Scenario).carrier, (*Scenario).scraper, (*Scenario).crawler, (*Scenario).flooder)
		s.some(m, 1, 3, (*Scenario).stuffer, (*Scenario).slow)
		s.prober()
	}},
	{"offices", func(s *Scenario, m *mix) {
		s.some(m, 3, 6, (*Scenario).office)
		s.some(m, 1, 2, (*Scenario).carrier)
		s.some(m, 20, 40, (*Scenario).visitor, (*Scenario).household)
		s.some(m, 1, 2, (*Scenario).strayed)
		s.some(m, 3, 6, (*Scenario).batch, (*Scenario).script, (*Scenario).loop, (*Scenario).crawler)
	}},
	{"attack", func(s *Scenario, m *mix) {
		s.some(m, 8, 16, (*Scenario).stuffer, (*Scenario).slow, (*Scenario).scanner, (*Scenario).flooder, (*Scenario).scraper)
		s.some(m, 10, 20, (*Scenario).visitor)
		s.some(m, 1, 3, (*Scenario).customer, (*Scenario).batch, (*Scenario).script)
	}},
	{"outage", func(s *Scenario, m *mix) {
		from := s.Start + (25 * time.Minute).Microseconds()
		s.outage = [2]int64{from, from + (4 * time.Minute).Microseconds()}
		s.some(m, 15, 30, (*Scenario).retrier)
		s.some(m, 2, 5, (*Scenario).loop, (*Scenario).script)
		s.some(m, 10, 20, (*Scenario).visitor, (*Scenario).app, (*Scenario).batch)
	}},
	{"days", func(s *Scenario, m *mix) {
		s.days(m)
		s.some(m, 12, 20, (*Scenario).visitor, (*Scenario).app)
		s.some(m, 1, 2, (*Scenario).office)
		for _, a := range s.actors {
			a.from = s.Start
			a.act = daily(7+a.rng.Int64N(3), 5+a.rng.Int64N(6), a.act)
		}
		s.latecomers(m)
	}},
	// A campus: people behind few addresses of whom most are not signed in, and a
	// sale.
	{"campus", func(s *Scenario, m *mix) {
		shared := *m
		m = &shared
		m.signedIn = span{0.05, 0.25}
		s.some(m, 4, 7, (*Scenario).office, (*Scenario).office, (*Scenario).strayed)
		for range 25 + s.rng.IntN(15) {
			s.shopper(m, s.Start+(35*time.Minute).Microseconds())
		}
		s.some(m, 2, 4, (*Scenario).scraper, (*Scenario).stuffer, (*Scenario).loop)
		s.prober()
	}},
	// Partners: programs only, some of which went astray after an outage.
	{"partners", func(s *Scenario, m *mix) {
		from := s.Start + (12 * time.Minute).Microseconds()
		s.outage = [2]int64{from, from + (9 * time.Minute).Microseconds()}
		s.some(m, 12, 20, (*Scenario).batch, (*Scenario).customer, (*Scenario).retrier, (*Scenario).hooks, (*Scenario).uploader)
		s.some(m, 3, 6, (*Scenario).script, (*Scenario).loop, (*Scenario).sync)
		s.some(m, 1, 3, (*Scenario).scanner, (*Scenario).slow)
	}},
	// A night: hardly anybody but machines.
	{"night", func(s *Scenario, m *mix) {
		s.some(m, 4, 8, (*Scenario).visitor, (*Scenario).household)
		s.some(m, 3, 5, (*Scenario).crawler, (*Scenario).batch)
		s.some(m, 6, 10, (*Scenario).scanner, (*Scenario).stuffer, (*Scenario).scraper, (*Scenario).flooder, (*Scenario).slow)
		s.some(m, 2, 4, (*Scenario).script)
		s.prober()
	}},
}

// some adds between least and most actors, of the makers at random.
func (s *Scenario) some(m *mix, least, most int, makers ...func(*Scenario, *mix)) {
	for range least + s.rng.IntN(most-least+1) {
		makers[s.rng.IntN(len(makers))](s, m)
	}
}

// Tuning returns the scenario of a seed that thresholds may be tuned on.
func Tuning(seed uint64) *Scenario {
	m := &narrow
	if seed%2 == 1 {
		m = &wide
	}
	return build(tuned, m, seed, 1)
}

// Held returns the scenario of a seed that thresholds are judged by. There are
// families and actors in it that Tuning does not have, and every range is another.
func Held(seed uint64) *Scenario { return build(slices.Concat(heldOut, tuned), &fresh, seed, 3) }

// build makes a scenario. Families take turns by seed.
func build(families []family, m *mix, seed, stream uint64) *Scenario {
	f := families[seed%uint64(len(families))]
	s := &Scenario{Name: fmt.Sprintf("%s-%d", f.name, seed), rng: rand.New(rand.NewPCG(seed, stream)),
		truth: map[Kind]map[string]Who{Address: {}, Account: {}}, below: map[string][]string{}}
	s.Start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC).UnixMicro()
	s.End = s.Start + time.Hour.Microseconds()
	s.From = s.Start
	s.rules()
	f.make(s, m)
	return s
}

// rules draws the limits: one for each address, one for each user, and on some
// services one for logins.
func (s *Scenario) rules() {
	pick := func(of ...rate) rate { return of[s.rng.IntN(len(of))] }
	algo := func() weir.Algorithm {
		return []weir.Algorithm{algorithm.SlidingCounter, algorithm.FixedWindow, algorithm.TokenBucket, algorithm.SlidingSubwindows}[s.rng.IntN(4)]
	}
	add := func(name string, kind Kind, path string, r rate) {
		s.Rules = append(s.Rules, &Rule{name, kind, path,
			&weir.Limit{Name: name, Scope: name, Algorithm: algo(), Count: r.units, Period: r.period}})
	}
	s.base = pick(rate{60, time.Minute}, rate{100, time.Minute}, rate{2, time.Second}, rate{30, 20 * time.Second}, rate{180, time.Minute}, rate{2000, time.Hour})
	add("address", Address, "", s.base)
	add("user", Account, "", rate{max(s.base.units*8/10, 1), s.base.period})
	if s.rng.IntN(3) > 0 {
		add("login", Address, "/login", pick(rate{10, time.Minute}, rate{5, time.Minute}, rate{20, time.Minute}))
	}
}

// days makes a scenario of a day and an hour, of which the hour is judged.
func (s *Scenario) days(m *mix) {
	s.From = s.Start
	s.Start -= (24 * time.Hour).Microseconds()
}

// latecomers come in the last hour only.
func (s *Scenario) latecomers(m *mix) {
	first := len(s.actors)
	start := s.Start
	s.Start = s.From
	s.some(m, 6, 12, (*Scenario).customer, (*Scenario).script, (*Scenario).stuffer, (*Scenario).scanner, (*Scenario).scraper, (*Scenario).flooder, (*Scenario).shopperNow)
	s.Start = start
	for _, a := range s.actors[first:] {
		a.from = max(a.from, s.From)
	}
}

func (s *Scenario) shopperNow(m *mix) { s.shopper(m, s.Start+(15*time.Minute).Microseconds()) }

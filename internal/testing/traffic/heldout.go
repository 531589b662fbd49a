package traffic

import "time"

// heldOut are the families that nothing is tuned on.
var heldOut = []family{
	// Films: players that fetch the next part every few seconds, a premiere, and who
	// takes the films away.
	{"films", func(s *Scenario, m *mix) {
		s.some(m, 15, 25, (*Scenario).player)
		for range 15 + s.rng.IntN(15) {
			s.shopper(m, s.Start+(28*time.Minute).Microseconds())
		}
		s.some(m, 3, 6, (*Scenario).scraper, (*Scenario).flooder, (*Scenario).crawler)
		s.some(m, 2, 4, (*Scenario).carrier, (*Scenario).office)
	}},
	// Devices that report every so often, all at the full minute, and some whose
	// program is broken.
	{"devices", func(s *Scenario, m *mix) {
		s.some(m, 20, 40, (*Scenario).device)
		s.some(m, 3, 7, (*Scenario).script, (*Scenario).loop, (*Scenario).sync)
		s.some(m, 1, 3, (*Scenario).scanner, (*Scenario).stuffer)
		s.some(m, 4, 8, (*Scenario).app)
	}},
	// A forum that hardly anybody signs in to, read through offices and telephones.
	{"forum", func(s *Scenario, m *mix) {
		shared := *m
		shared.signedIn = span{0.1, 0.4}
		s.some(&shared, 3, 5, (*Scenario).office, (*Scenario).carrier)
		s.some(&shared, 25, 40, (*Scenario).visitor, (*Scenario).household)
		s.some(&shared, 3, 6, (*Scenario).scraper, (*Scenario).crawler, (*Scenario).scanner)
		s.some(&shared, 1, 3, (*Scenario).stuffer, (*Scenario).slow)
	}},
	// A trade between companies: jobs, hooks and new customers, offices with their
	// scripts, and an outage.
	{"trade", func(s *Scenario, m *mix) {
		from := s.Start + (40 * time.Minute).Microseconds()
		s.outage = [2]int64{from, from + (2 * time.Minute).Microseconds()}
		s.some(m, 10, 18, (*Scenario).batch, (*Scenario).hooks, (*Scenario).customer, (*Scenario).retrier)
		s.some(m, 2, 4, (*Scenario).strayed, (*Scenario).office)
		s.some(m, 3, 6, (*Scenario).script, (*Scenario).sync, (*Scenario).loop)
		s.some(m, 1, 2, (*Scenario).slow, (*Scenario).scanner)
	}},
}

// player shows a film: a part every few seconds, a few at once where it begins.
func (s *Scenario) player(m *mix) {
	a := s.person(m, "player")
	if a.rng.Float64() < 0.6 {
		a.user = s.userID()
	}
	a.reaction = backsOff
	a.paths, a.many = []string{"/film/part"}, 3000
	every := seconds(2 + 4*a.rng.Float64())
	left := 0
	a.act = func(s *Scenario, a *actor, now int64) time.Duration {
		if left == 0 { // a film begins, or somebody jumps
			left = 40 + a.rng.IntN(300)
			for range m.parts.whole(a.rng) {
				a.send(s, now, a.between(0, 500*time.Millisecond))
			}
		}
		left--
		a.send(s, now, 0)
		return a.between(every*9/10, every*11/10)
	}
	s.add(a, Legitimate, Legitimate)
}

// device reports what it measured in the last minutes, at the full minute.
func (s *Scenario) device(m *mix) {
	a := s.actor("device", []reaction{obeys, backsOff}[s.rng.IntN(2)])
	a.user, a.tier = s.userID(), "device"
	a.paths = []string{"/v1/measurements"}
	reports := 1 + int(0.9*m.batch.draw(s.rng)*float64(s.base.units)/4)
	took := s.base.every(12)
	minutes := 1 + a.rng.Int64N(6)
	left := reports
	a.act = func(s *Scenario, a *actor, now int64) time.Duration {
		a.send(s, now, 0)
		if left--; left <= 0 {
			left = reports
			next := (now/60e6 + minutes) * 60e6
			return time.Duration(next-now)*time.Microsecond + a.between(0, 2*time.Second)
		}
		return a.between(took/2, took*3/2)
	}
	s.add(a, Legitimate, Legitimate)
}

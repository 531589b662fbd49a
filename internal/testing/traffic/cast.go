package traffic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// Cast is a scenario that is put together by hand.
type Cast struct {
	Seed  uint64
	Rules []*Rule
	// Units in Period is what the actors' rates are multiples of. Zero means the
	// first rule's limit.
	Units  int64
	Period time.Duration
	// Length of the scenario. Zero means an hour.
	Length time.Duration
	// Actors is how many there are of each, by the word of the maker.
	Actors map[string]int
}

// makers are the actors that a cast can have.
var makers = map[string]func(*Scenario, *mix){
	"visitor": (*Scenario).visitor, "household": (*Scenario).household, "office": (*Scenario).office, "carrier": (*Scenario).carrier,
	"customer": (*Scenario).customer, "batch": (*Scenario).batch, "crawler": (*Scenario).crawler, "script": (*Scenario).script,
	"loop": (*Scenario).loop, "stuffer": (*Scenario).stuffer, "scanner": (*Scenario).scanner, "flooder": (*Scenario).flooder,
	"scraper": (*Scenario).scraper, "app": (*Scenario).app,
	"shopper": func(s *Scenario, m *mix) { s.shopper(m, s.Start+(s.End-s.Start)/3) },
	"prober":  func(s *Scenario, _ *mix) { s.prober() },
}

// Make puts a scenario together.
func (c *Cast) Make() *Scenario {
	s := &Scenario{Name: fmt.Sprintf("cast-%d", c.Seed), Rules: c.Rules, rng: rand.New(rand.NewPCG(c.Seed, 4)),
		truth: map[Kind]map[string]Who{Address: {}, Account: {}}, below: map[string][]string{}}
	length := c.Length
	if length == 0 {
		length = time.Hour
	}
	s.Start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC).UnixMicro()
	s.From, s.End = s.Start, s.Start+length.Microseconds()
	s.base = rate{c.Units, c.Period}
	if c.Units == 0 {
		s.base = rate{c.Rules[0].Limit.Count, c.Rules[0].Limit.Period}
	}
	for _, word := range slices.Sorted(maps.Keys(c.Actors)) {
		for range c.Actors[word] {
			makers[word](s, &narrow)
		}
	}
	return s
}

// NewRule returns a rule with a limit of its name.
func NewRule(name string, kind Kind, l *weir.Limit) *Rule {
	l.Name, l.Scope = name, name
	return &Rule{Name: name, Kind: kind, Limit: l}
}

package traffic

import (
	"math"
	"math/rand/v2"
)

// span is a range that a parameter is drawn from, evenly on a logarithmic scale.
type span [2]float64

func (p span) draw(rng *rand.Rand) float64 {
	return p[0] * math.Pow(p[1]/p[0], rng.Float64())
}

func (p span) whole(rng *rand.Rand) int { return int(math.Round(p.draw(rng))) }

// mix is the ranges that parameters of actors are drawn from. Rates are multiples
// of what the limit for everything allows.
type mix struct {
	// parts of a page, and seconds between pages of people.
	parts, look span
	// people behind an office's address and a carrier's; the share that signs in.
	office, carrier, signedIn span
	// rates of a script, a scanner, a flood, a scraper, a stuffer (of the login's
	// limit) and a slow abuser (of the login's limit).
	script, scanner, flood, scraper, stuffer, slow span
	// what is denied of a stuffer, a scanner; what is missing of a crawler.
	stuffed, scanned, crawled span
	// rate of a crawler, of a new customer, size of a batch (of the allowance).
	crawler, customer, batch span
	// jitter of a script.
	jitter span
	// share of people's requests that fail.
	failed span
	// how much the rate of machines changes.
	wobble span
	// names of software that a scraper takes turns with.
	names span
}

// narrow and wide are what thresholds may be chosen by, fresh what they are judged
// by: other numbers of people, other rates, other manners.
var (
	narrow = mix{
		parts: span{3, 12}, look: span{4, 15},
		office: span{8, 40}, carrier: span{50, 150}, signedIn: span{0.5, 1},
		script: span{1.6, 8}, scanner: span{1, 10}, flood: span{25, 60}, scraper: span{1.5, 6},
		stuffer: span{1.2, 8}, slow: span{0.7, 1.1},
		stuffed: span{0.92, 0.99}, scanned: span{0.85, 0.98}, crawled: span{0.02, 0.08},
		crawler: span{0.8, 1.5}, customer: span{1.1, 2.5}, batch: span{1.5, 6},
		jitter: span{0.01, 0.2}, failed: span{0.005, 0.03}, wobble: span{0.01, 0.25}, names: span{1, 4},
	}
	wide = mix{
		parts: span{5, 18}, look: span{3, 12},
		office: span{5, 70}, carrier: span{40, 250}, signedIn: span{0.3, 0.9},
		script: span{1.4, 14}, scanner: span{0.8, 15}, flood: span{20, 90}, scraper: span{1.3, 9},
		stuffer: span{1.1, 12}, slow: span{0.6, 1.3},
		stuffed: span{0.85, 0.995}, scanned: span{0.75, 0.99}, crawled: span{0.01, 0.15},
		crawler: span{0.7, 2.5}, customer: span{1.05, 4}, batch: span{1.2, 10},
		jitter: span{0.005, 0.3}, failed: span{0.002, 0.06}, wobble: span{0.005, 0.4}, names: span{1, 7},
	}
	fresh = mix{
		parts: span{2, 22}, look: span{2.5, 20},
		office: span{6, 55}, carrier: span{60, 300}, signedIn: span{0.35, 0.95},
		script: span{1.5, 12}, scanner: span{0.9, 20}, flood: span{22, 120}, scraper: span{1.4, 8},
		stuffer: span{1.05, 15}, slow: span{0.5, 1.2},
		stuffed: span{0.8, 0.99}, scanned: span{0.7, 0.97}, crawled: span{0.005, 0.2},
		crawler: span{0.6, 3}, customer: span{1.02, 3.2}, batch: span{1.1, 14},
		jitter: span{0.002, 0.5}, failed: span{0.001, 0.08}, wobble: span{0.002, 0.5}, names: span{1, 9},
	}
)

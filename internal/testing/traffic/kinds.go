package traffic

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

func number(n int) string { return strconv.Itoa(n) }

// browsers are names of software as people have it.
var browsers = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0", "Mozilla/5.0 (Windows NT 10.0; rv:143.0) Firefox/143.0",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) Safari/605", "Mozilla/5.0 (X11; Linux x86_64) Chrome/139.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6) Safari/604", "Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) Edg/140.0", "Mozilla/5.0 (Linux; Android 14; SM-S921B) Chrome/138.0 Mobile",
	"Mozilla/5.0 (iPad; CPU OS 18_5) Safari/604", "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_1) Firefox/142.0",
}

var programs = []string{"python-requests/2.32", "Go-http-client/2.0", "axios/1.12", "okhttp/5.1", "curl/8.15"}

// mixed answers with one status for a share of requests, and well else.
func mixed(share float64, status int) func(*rand.Rand) int {
	return func(rng *rand.Rand) int {
		switch x := rng.Float64(); {
		case x < share:
			return status
		case x < share+0.01:
			return 304
		}
		return 200
	}
}

// actor returns an actor that is there for all of the scenario.
func (s *Scenario) actor(name string, react reaction) *actor {
	rng := rand.New(rand.NewPCG(s.rng.Uint64(), s.rng.Uint64()))
	return &actor{name: name, rng: rng, reaction: react, from: s.Start, to: s.End,
		addresses: []string{s.address()}, agents: []string{programs[rng.IntN(len(programs))]},
		paths: []string{"/v1/orders"}, status: mixed(0.01, 404)}
}

// address makes one up.
func (s *Scenario) address() string {
	return fmt.Sprintf("10.%d.%d.%d", s.rng.IntN(256), s.rng.IntN(256), s.rng.IntN(256))
}

func (s *Scenario) userID() string { return fmt.Sprintf("user-%06x", s.rng.IntN(1<<24)) }

// person makes somebody with a browser.
func (s *Scenario) person(m *mix, name string) *actor {
	a := s.actor(name, leaves)
	a.agents = []string{browsers[a.rng.IntN(len(browsers))]}
	a.paths = []string{"/", "/products", "/cart", "/account", "/search", "/assets/app.js", "/assets/app.css", "/v1/orders", "/v1/prices", "/img"}
	a.many = 8
	a.status = mixed(m.failed.draw(s.rng), 404)
	a.from += a.between(0, time.Duration(s.End-s.Start)*time.Microsecond/2).Microseconds()
	a.act = pages(m.parts.whole(s.rng), seconds(m.look.draw(s.rng)), 4*time.Minute, 12*time.Minute)
	return a
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// visitor is somebody alone behind an address, signed in or not.
func (s *Scenario) visitor(m *mix) {
	a := s.person(m, "visitor")
	if a.rng.Float64() < m.signedIn.draw(s.rng) {
		a.user, a.tier = s.userID(), "free"
	}
	s.add(a, Legitimate, Legitimate)
}

// shopper comes to a flash sale: for some minutes it loads the page again and
// again.
func (s *Scenario) shopper(m *mix, at int64) {
	a := s.person(m, "flash_sale_shopper")
	a.user = s.userID()
	a.paths, a.many = []string{"/sale", "/v1/stock", "/cart", "/assets/app.js"}, 0
	a.from = at + a.around(20*time.Second).Microseconds()
	a.to = a.from + a.between(time.Minute, 5*time.Minute).Microseconds()
	a.act = pages(m.parts.whole(s.rng), seconds(m.look.draw(s.rng)/3), time.Hour, 0)
	s.add(a, Legitimate, Legitimate)
}

// crowd is many people behind few addresses.
func (s *Scenario) crowd(m *mix, name string, people, addresses int, look float64) {
	shared := make([]string, addresses)
	for i := range shared {
		shared[i] = s.address()
	}
	signed := m.signedIn.draw(s.rng)
	for range people {
		a := s.person(m, name)
		a.addresses = shared[a.rng.IntN(addresses):][:1]
		if a.rng.Float64() < signed {
			a.user = s.userID()
		}
		a.act = pages(m.parts.whole(s.rng), seconds(look*m.look.draw(s.rng)), 6*time.Minute, 20*time.Minute)
		s.add(a, Shared, Legitimate)
	}
}

// office is a company behind one address.
func (s *Scenario) office(m *mix) {
	s.crowd(m, "office", m.office.whole(s.rng), 1, 1.5)
}

// carrier is a mobile network behind a few addresses.
func (s *Scenario) carrier(m *mix) {
	s.crowd(m, "carrier_nat", m.carrier.whole(s.rng), 1+s.rng.IntN(3), 4)
}

// customer is new, signed in, in earnest, and waits when it is told to.
func (s *Scenario) customer(m *mix) {
	a := s.actor("launch_customer", []reaction{obeys, backsOff}[s.rng.IntN(2)])
	a.user, a.tier = s.userID(), "pro"
	a.paths, a.many = []string{"/v1/orders", "/v1/prices", "/v1/stock", "/v1/customers"}, 5
	a.from += a.between(0, 20*time.Minute).Microseconds()
	a.act = ramp(s.base.every(m.customer.draw(s.rng)), 15*time.Minute)
	s.add(a, Legitimate, Legitimate)
}

// batch is a job that has much to do and does it as fast as it may.
func (s *Scenario) batch(m *mix) {
	a := s.actor("polite_batch", []reaction{obeys, backsOff}[s.rng.IntN(2)])
	if a.rng.IntN(4) > 0 {
		a.user = s.userID()
	}
	a.paths, a.many = []string{"/v1/export"}, 1+30*a.rng.IntN(2)
	n := max(int(m.batch.draw(s.rng)*float64(s.base.units)), 5)
	a.from += a.between(0, 15*time.Minute).Microseconds()
	a.act = batches(n, s.base.every(20), 10*time.Minute)
	s.add(a, Legitimate, Legitimate)
}

// crawler is a search engine's: many paths, and it waits when told to.
func (s *Scenario) crawler(m *mix) {
	a := s.actor("crawler", obeys)
	a.agents = []string{"ExampleBot/2.1 (+https://bot.example/about)"}
	a.paths, a.many = []string{"/products", "/articles", "/tags"}, 4000
	a.status = mixed(m.crawled.draw(s.rng), 404)
	a.act = waves(s.base.every(m.crawler.draw(s.rng)), 25*time.Minute)
	s.add(a, Legitimate, Legitimate)
}

// prober looks every few seconds whether the service is there.
func (s *Scenario) prober() {
	a := s.actor("health_check", ignores)
	a.agents, a.paths = []string{"kube-probe/1.33"}, []string{"/healthz"}
	a.act = steady(s.base.every(0.15+0.4*a.rng.Float64()), 0.02, 0)
	s.add(a, Legitimate, Legitimate)
}

// retrier is an application that retries with back-off when the upstream fails.
func (s *Scenario) retrier(m *mix) {
	a := s.actor("retry_storm", backsOff)
	a.user = s.userID()
	a.paths, a.many = []string{"/v1/orders", "/v1/prices", "/v1/stock"}, 4
	a.act = waves(s.base.every(0.35+0.5*a.rng.Float64()), 17*time.Minute)
	s.add(a, Legitimate, Legitimate)
}

// script runs away: one route, the same rate, whatever it is told.
func (s *Scenario) script(m *mix) {
	a := s.actor("runaway_script", ignores)
	if a.rng.IntN(2) == 0 {
		a.user = s.userID()
	}
	a.paths, a.many = []string{[]string{"/v1/orders", "/v1/status", "/v1/search"}[a.rng.IntN(3)]}, 0
	switch a.rng.IntN(4) {
	case 0:
		a.status = mixed(0.9, 409)
	case 1:
		a.status = mixed(0.5, 422)
	}
	s.part(a)
	a.act = steady(s.base.every(m.script.draw(s.rng)), m.jitter.draw(s.rng), m.wobble.draw(s.rng))
	s.add(a, Runaway, Runaway)
}

// loop runs away: it repeats what was refused until it passes.
func (s *Scenario) loop(m *mix) {
	a := s.actor("retry_loop", insists)
	if a.rng.IntN(2) == 0 {
		a.user = s.userID()
	}
	a.paths, a.many = []string{"/v1/sync"}, 0
	s.part(a)
	a.act = steady(s.base.every(m.script.draw(s.rng)), 0.2, m.wobble.draw(s.rng))
	s.add(a, Runaway, Runaway)
}

// sync runs away: it goes through everything that its account has, again and again.
func (s *Scenario) sync(m *mix) {
	a := s.actor("runaway_sync", ignores)
	a.user, a.tier = s.userID(), "pro"
	a.paths, a.many = []string{"/v1/orders", "/v1/customers"}, 2000
	s.part(a)
	a.act = steady(s.base.every(m.script.draw(s.rng)), m.jitter.draw(s.rng), 0.3*m.wobble.draw(s.rng))
	s.add(a, Runaway, Runaway)
}

// household is two people behind one address.
func (s *Scenario) household(m *mix) {
	a, b := s.person(m, "household"), s.person(m, "household")
	b.addresses = a.addresses
	a.user = s.userID()
	if a.rng.IntN(2) == 0 {
		b.user = s.userID()
	}
	s.add(a, Legitimate, Legitimate)
	s.add(b, Legitimate, Legitimate)
}

// app is one on a telephone: it asks for several things when it is opened, and
// now and then while it is.
func (s *Scenario) app(m *mix) {
	a := s.actor("mobile_app", backsOff)
	a.agents, a.user, a.tier = []string{"okhttp/5.1"}, s.userID(), "free"
	a.paths, a.many = []string{"/v1/feed", "/v1/me", "/v1/prices", "/v1/messages", "/v1/ads", "/v1/config"}, 0
	a.act = pages(m.parts.whole(s.rng), seconds(m.look.draw(s.rng)), 3*time.Minute, 15*time.Minute)
	s.add(a, Legitimate, Legitimate)
}

// hooks sends what happens elsewhere to one route, when it happens.
func (s *Scenario) hooks(m *mix) {
	a := s.actor("webhooks", backsOff)
	a.user = s.userID()
	a.paths = []string{"/v1/hooks"}
	n := max(int(m.batch.draw(s.rng)*float64(s.base.units)/3), 5)
	a.act = batches(n, s.base.every(10), 4*time.Minute)
	s.add(a, Legitimate, Legitimate)
}

// uploader has a queue of things to send, never empty for long, and backs off.
func (s *Scenario) uploader(m *mix) {
	a := s.actor("uploader", backsOff)
	a.user = s.userID()
	a.paths = []string{"/v1/upload"}
	s.part(a)
	n := max(int(m.batch.draw(s.rng)*float64(s.base.units)), 5)
	a.act = batches(n, s.base.every(3), time.Minute)
	s.add(a, Legitimate, Legitimate)
}

// strayed is an office behind whose address a script runs away. Of the address it
// is true that it is shared; of the script's account, if it has one, that it ran
// away.
func (s *Scenario) strayed(m *mix) {
	s.crowd(m, "office_and_script", m.office.whole(s.rng), 1, 1.5)
	addresses := s.actors[len(s.actors)-1].addresses
	s.script(m)
	a := s.actors[len(s.actors)-1]
	delete(s.truth[Address], a.addresses[0])
	a.addresses = addresses
}

// part lets an actor be there for a part of the time, a quarter at least.
func (s *Scenario) part(a *actor) {
	length := time.Duration(s.End-s.Start) * time.Microsecond
	a.from += a.between(0, length/2).Microseconds()
	a.to = min(a.from+a.between(length/4, length).Microseconds(), s.End)
}

// stuffer tries passwords.
func (s *Scenario) stuffer(m *mix) {
	a := s.actor("credential_stuffer", []reaction{ignores, ignores, obeys}[s.rng.IntN(3)])
	if a.rng.IntN(2) == 0 {
		a.agents = browsers[:2+a.rng.IntN(len(browsers)-2)]
	}
	a.paths, a.status = []string{"/login"}, mixed(m.stuffed.draw(s.rng), 401)
	s.part(a)
	a.act = steady(s.login().every(m.stuffer.draw(s.rng)), 0.3, m.wobble.draw(s.rng))
	s.add(a, Abusive, Abusive)
}

// slow tries passwords as fast as the limit lets it.
func (s *Scenario) slow(m *mix) {
	a := s.actor("slow_abuser", obeys)
	a.paths, a.status = []string{"/login"}, mixed(m.stuffed.draw(s.rng), 401)
	a.act = steady(s.login().every(m.slow.draw(s.rng)), 0.4, m.wobble.draw(s.rng))
	s.add(a, Abusive, Abusive)
}

// scanner looks for what is not meant to be found.
func (s *Scenario) scanner(m *mix) {
	a := s.actor("path_scanner", ignores)
	a.paths, a.many = []string{"/.git", "/wp-admin", "/backup", "/admin", "/.env", "/cgi-bin"}, 900
	a.status = mixed(m.scanned.draw(s.rng), []int{404, 404, 403}[a.rng.IntN(3)])
	s.part(a)
	a.act = steady(s.base.every(m.scanner.draw(s.rng)), 0.5, m.wobble.draw(s.rng))
	s.add(a, Abusive, Abusive)
}

// flooder sends far more than is allowed.
func (s *Scenario) flooder(m *mix) {
	a := s.actor("flooder", ignores)
	a.from += a.between(0, 30*time.Minute).Microseconds()
	a.to = min(a.from+a.between(3*time.Minute, 10*time.Minute).Microseconds(), s.End)
	a.act = steady(s.base.every(m.flood.draw(s.rng)), 0.9, m.wobble.draw(s.rng))
	s.add(a, Abusive, Abusive)
}

// scraper takes all there is, and does not wait.
func (s *Scenario) scraper(m *mix) {
	a := s.actor("scraper", ignores)
	a.agents = browsers[:m.names.whole(s.rng)]
	a.paths, a.many = []string{"/products", "/articles"}, 20000
	a.status = mixed(m.crawled.draw(s.rng), 404)
	s.part(a)
	a.act = steady(s.base.every(m.scraper.draw(s.rng)), 0.6, m.wobble.draw(s.rng))
	s.add(a, Abusive, Abusive)
}

// login is the rate of the rule for logins, or of everything.
func (s *Scenario) login() rate {
	for _, r := range s.Rules {
		if r.Path == "/login" {
			return rate{r.Limit.Count, r.Limit.Period}
		}
	}
	return s.base
}

package demo

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// crowd is all clients. Not safe for concurrent use.
type crowd struct {
	rng *rand.Rand
	// start is when the demo starts; clients come before and after it.
	start   time.Time
	clients []*client
}

// newCrowd makes the clients of a demo that starts at an instant. One seed makes the same
// choices.
func newCrowd(start time.Time, seed uint64) *crowd {
	c := &crowd{rng: rand.New(rand.NewPCG(seed, 1)), start: start}
	c.addPeople()
	c.addOffice()
	c.addPrograms()
	c.addAttackers()
	return c
}

// addClient adds a client that comes so long before the start, up to two seconds later.
func (c *crowd) addClient(address, agent string, before time.Duration) *client {
	one := &client{address: address, agent: agent, rng: rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64()))}
	one.at = c.start.Add(-before).Add(one.between(0, 2*time.Second))
	c.clients = append(c.clients, one)
	return one
}

// addPeople adds those who read the shop and are never refused, one of them over IPv6, and
// those who come for a sale.
func (c *crowd) addPeople() {
	for i := range 16 {
		address := fmt.Sprintf("192.0.2.%d", 10+i)
		if i == 15 {
			address = "2001:db8:10::1"
		}
		person := c.addClient(address, browsers[i%len(browsers)], history-time.Duration(i)*time.Minute)
		person.ask, person.wait = getting("/", "/products", "/products/7", "/cart", "/search", "/img/logo.png"), reading(4, 8*time.Second)
	}
	for i := range 6 {
		person := c.addClient(fmt.Sprintf("192.0.2.%d", 60+i), browsers[(i+2)%len(browsers)], saleBefore)
		person.ask = getting("/sale", "/stock", "/cart", "/img/sale.png")
		person.wait = visiting(person.at, person.between(3*time.Minute, 5*time.Minute), 12, time.Second)
	}
}

// addOffice adds people behind one address, all of whom are signed in.
func (c *crowd) addOffice() {
	for i := range 24 {
		person := c.addClient(officeAddress, browsers[i%len(browsers)], history)
		person.user = fmt.Sprintf("office-%02d", 1+i)
		person.ask, person.wait = getting("/", "/orders", "/products", "/products/7", "/cart", "/account"), reading(5, 7*time.Second)
	}
}

// addPrograms adds a health check, a partner near its limit who waits when told to, and a
// script that does not.
func (c *crowd) addPrograms() {
	check := c.addClient("192.0.2.5", "kube-probe/1.33", history)
	check.ask, check.wait = getting("/healthz"), ignoring(5*time.Second)

	partner := c.addClient(partnerAddress, "okhttp/5.1", history)
	partner.user = "partner-17"
	partner.ask, partner.wait = getting("/orders", "/stock", "/prices"), pacing(475*time.Millisecond)

	script := c.addClient(scriptAddress, "python-requests/2.32", 38*time.Minute)
	script.ask, script.wait = posting("/orders"), ignoring(125*time.Millisecond)
}

// addAttackers adds those who guess passwords from several addresses, and one who takes
// every product.
func (c *crowd) addAttackers() {
	for i := range 6 {
		address := fmt.Sprintf("198.51.100.%d", guesserFrom+i)
		if i == 5 {
			address = "2001:db8:bad::1"
		}
		guesser := c.addClient(address, "Go-http-client/2.0", 14*time.Minute)
		// The node's counters begin at the start: what came in the minute before would let
		// these have more than a sliding window allows.
		guesser.ask, guesser.wait = posting("/login"), pausing(c.start, ignoring(1200*time.Millisecond))
	}
	scraper := c.addClient(scraperAddress, "curl/8.15", 20*time.Minute)
	scraper.ask, scraper.wait = taking(), ignoring(140*time.Millisecond)
}

const (
	// history is how long before the start the first clients come, saleBefore a sale.
	history    = time.Hour
	saleBefore = 26 * time.Minute

	officeAddress  = "203.0.113.7"
	partnerAddress = "192.0.2.80"
	scriptAddress  = "198.51.100.23"
	scraperAddress = "2001:db8:5c::1"
	guesserFrom    = 130
)

// browsers are names of software as people have it.
var browsers = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0", "Mozilla/5.0 (Windows NT 10.0; rv:143.0) Firefox/143.0",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 15_1) Safari/605", "Mozilla/5.0 (X11; Linux x86_64) Chrome/139.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6) Safari/604", "Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile",
}

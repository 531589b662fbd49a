package chromium

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"
)

// What the screenshots in docs/images/ are of.
const shownRules = `domain: api
descriptors:
  - key: client_id
    limit: 100/minute
    algorithm: sliding_window
  - key: remote_address
    limit: 60/minute
    algorithm: token_bucket
    burst: 90
  - key: auth
    value: login
    descriptors:
      - key: remote_address
        limit: 10/minute
        algorithm: fixed_window
        mode: shadow
  - key: export
    limit: 10/hour
    algorithm: leaky_bucket
`

// TestScreenshots lets all kinds of clients come for some minutes and takes the
// screenshots of docs/reference/dashboard.md.
func TestScreenshots(t *testing.T) {
	if !*update {
		t.Skip("takes minutes, and changes docs/images/: only with -update")
	}
	n := serveRules(t, shownRules, "--events-sample", "1", "WEIR_EVENTS_REGION=eu-west")
	begin := time.Now()
	var coming sync.WaitGroup
	coming.Go(func() { crowd(n, 11*time.Minute) })
	defer coming.Wait()
	b := browse(t, n.admin)
	b.width(wide)
	b.open("/?utc=1")
	type list struct{ Total int64 }
	n.awaitFor(12*time.Minute, "nine minutes of throttled clients", func() bool {
		return time.Since(begin) > 9*time.Minute && admins[list](n, "/v1/analytics/clients", url.Values{"from": {"-1h"}}).Total > 3
	})
	from := "&from=" + url.QueryEscape(begin.UTC().Format(time.RFC3339))
	// The first has been open all the time: its stream is of the last two minutes.
	b.press(".bar", "15m")
	b.until(`location.search.includes("from=-15m") && ` + settled)
	b.shot("dashboard-overview.png", true)
	for _, s := range []struct {
		path, colours, name string
		width               int64
		whole               bool
	}{
		{"/rules?utc=1&live=0", "dark", "dashboard-rules.png", wide, true},
		{"/rule?utc=1&live=0&domain=api&rule=client_id&limit=client_id&line=140&replay=1", "light", "dashboard-rule.png", wide, true},
		{"/clients?utc=1&live=0", "light", "dashboard-clients.png", wide, true},
		{"/accuracy?utc=1&live=0", "dark", "dashboard-accuracy.png", wide, false},
		{"/?utc=1&live=0", "dark", "dashboard-phone.png", narrow, false},
	} {
		b.media(map[string]string{"prefers-color-scheme": s.colours})
		b.width(s.width)
		b.open(s.path + from)
		b.shot(s.name, s.whole)
	}
	b.media(map[string]string{"prefers-color-scheme": "light"})
	b.width(wide)
	b.open("/rule?utc=1&live=0&domain=api&rule=auth%3Dlogin%2Fremote_address" + from)
	b.press("[aria-label='Change the mode']", "10 %")
	b.fill("#action-reason", "a week as a shadow caught nobody but the attacker")
	b.press("dialog .actions", "Enforce for 10 %")
	b.until(`document.querySelector("dialog [data-test=done]")`)
	b.shot("dashboard-action.png", false)
}

// crowd sends the traffic of people, programs, an office and an attacker.
func crowd(n *node, last time.Duration) {
	begin := time.Now()
	var all sync.WaitGroup
	// every sends at a mean rate a second, which may change with the time that has
	// passed.
	every := func(rate func(passed time.Duration) float64, send func()) {
		all.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				passed := time.Since(begin)
				if passed > last || n.t.Context().Err() != nil {
					return
				}
				if rand.Float64() < rate(passed)*0.05 {
					send()
				}
			}
		})
	}
	steady := func(r float64) func(time.Duration) float64 { return func(time.Duration) float64 { return r } }
	during := func(r float64, from, to time.Duration) func(time.Duration) float64 {
		return func(d time.Duration) float64 {
			if d < from || d > to {
				return 0
			}
			return r
		}
	}
	for i := range 24 {
		name := fmt.Sprintf("customer-%d", i)
		every(steady(0.05+0.06*float64(i)), func() { n.spend(name, 1) })
	}
	for _, p := range []struct {
		name string
		rate func(time.Duration) float64
	}{{"nightly-sync", steady(6)}, {"partner-shop", during(4, 3*time.Minute, 5*time.Minute)}, {"mobile-app", steady(2.2)}} {
		every(p.rate, func() { n.spend(p.name, 1) })
	}
	paths := []string{"/", "/items", "/items/7", "/cart", "/search"}
	agents := []string{"Mozilla/5.0 (X11; Linux) Firefox/130.0", "Mozilla/5.0 (Windows NT 10.0) Chrome/131.0", "Mozilla/5.0 (iPhone) Safari/605.1", "okhttp/4.12"}
	for i := range 12 {
		address := fmt.Sprintf("198.51.100.%d", i+1)
		every(steady(0.2), func() { n.visit(address, paths[rand.IntN(len(paths))], agents[i%3], 1) })
	}
	every(steady(2.4), func() { n.visit("203.0.113.10", paths[rand.IntN(len(paths))], agents[rand.IntN(len(agents))], 1) })
	every(during(5, 2*time.Minute, 6*time.Minute), func() {
		n.visit("192.0.2.66", []string{"/login", "/login", "/missing/admin", "/missing/.env"}[rand.IntN(4)], "curl/8.5", 1)
	})
	every(steady(0.4), func() { n.visit("198.51.100.3", "/login", agents[0], 1) })
	all.Wait()
}

package chromium

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// awaitAnalytics waits until what events tell has come to the analytics: roll-ups
// come by the minute.
func (n *node) awaitAnalytics(what string, cond func() bool) {
	n.t.Helper()
	n.awaitFor(5*time.Minute, what, cond)
}

func (n *node) awaitFor(most time.Duration, what string, cond func() bool) {
	n.t.Helper()
	end := time.Now().Add(most)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(end) {
			n.t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}

type totals struct {
	Decisions int64
	Counts    map[string]int64
}

// TestFigures compares what pages show with the traffic that was sent, and with
// what the service answers.
func TestFigures(t *testing.T) {
	t.Parallel()
	n := serve(t, "--events-sample", "1", "--events-unhashed")
	// 100 a day, all at once: of client-0 to -5 the first 100 pass.
	sent := map[string]int64{}
	for i := range 6 {
		client := fmt.Sprintf("client-%d", i)
		sent[client] = int64(60 + i*20)
		n.spend(client, int(sent[client]))
	}
	var allowed, refused int64
	for _, s := range sent {
		allowed += min(s, 100)
		refused += max(s-100, 0)
	}
	// 20 pass of an address, the logins of which a shadow would refuse all but 5.
	n.visit("192.0.2.1", "/login", "curl/8", 30)
	n.visit("192.0.2.2", "/items", "Mozilla/5.0 Firefox/130", 10)

	type overview struct {
		Totals totals
		Keys   int64 `json:"keys_limited"`
	}
	hour := url.Values{"from": {"-1h"}}
	var told overview
	n.awaitAnalytics("the decisions of the clients", func() bool {
		told = admins[overview](n, "/v1/analytics/overview", url.Values{"from": {"-1h"}, "rule": {"client_id"}})
		return told.Totals.Decisions == allowed+refused
	})
	if told.Totals.Counts["refused"] != refused || told.Totals.Counts["allowed"] != allowed {
		t.Fatalf("the service says %v, sent were %d allowed and %d refused", told.Totals.Counts, allowed, refused)
	}

	// What the gateway passed on, of both addresses, and how it was answered.
	type answered struct {
		Total struct{ Count, OK int64 }
		Times struct{ Measured int64 } `json:"response_times"`
	}
	n.awaitAnalytics("the answers of the upstream", func() bool {
		return admins[answered](n, "/v1/analytics/upstream", hour).Total.Count == 30
	})
	if u := admins[answered](n, "/v1/analytics/upstream", hour); u.Total.OK != 30 || u.Times.Measured != 30 {
		t.Errorf("30 requests were served, the service says %+v", u)
	}

	b := browse(t, n.admin)
	for _, width := range []int64{wide, narrow} {
		b.width(width)
		b.open("/?live=0&rule=client_id")
		if got := b.figure("decisions"); got != allowed+refused {
			t.Errorf("overview: %d decisions of %d", got, allowed+refused)
		}
		if got := b.figure("keys_limited"); got != 3 {
			t.Errorf("overview: %d clients limited, want 3", got)
		}
		// What the chart draws, as its table.
		b.press(".legend", "Decisions over time: as a table")
		b.until(`document.querySelector(".table-of-chart tbody tr")`)
		type sums struct{ Allowed, Refused int64 }
		drawn := js[sums](b, `(() => {
			const t = document.querySelector(".table-of-chart");
			const heads = [...t.querySelectorAll("thead th")].map((e) => e.textContent);
			const sum = (name) => [...t.querySelectorAll("tbody tr")].reduce((n, r) => n + Number(r.children[heads.indexOf(name)].textContent.replaceAll(",", "")), 0);
			return { Allowed: sum("Allowed"), Refused: sum("Refused") } })()`)
		if drawn.Allowed != allowed || drawn.Refused != refused {
			t.Errorf("the chart has %+v", drawn)
		}
		b.open("/?live=0")
		if top := js[string](b, `document.querySelector("[data-test=top-keys] tbody").innerText`); !strings.Contains(top, "client-5") {
			t.Errorf("clients refused most: %s", top)
		}
		if top := js[string](b, `document.querySelector("[data-test=top-paths]")?.innerText ?? ""`); !strings.Contains(top, "/login") {
			t.Errorf("paths refused most: %s", top)
		}
		if incidents := js[string](b, `document.querySelector("[data-test=incidents]").innerText`); !strings.Contains(incidents, "client_id") || !strings.Contains(incidents, fmt.Sprint(refused)) {
			t.Errorf("incidents: %s", incidents)
		}

		// The table of rules: each cell against the answer.
		type ruleList struct {
			Rules []struct {
				totals
				Rule string
				Keys int64 `json:"keys_limited"`
			}
		}
		b.open("/rules?live=0")
		for _, r := range admins[ruleList](n, "/v1/analytics/rules", hour).Rules {
			row := js[string](b, fmt.Sprintf(`[...document.querySelectorAll("[data-test=rules] tbody tr")].find((r) => r.querySelector("th a")?.title === %s)?.textContent ?? "none"`, quote(r.Rule)))
			for _, want := range []int64{r.Decisions, r.Counts["refused"], r.Keys} {
				if !strings.Contains(row, written(want)) {
					t.Errorf("the row of %s has no %s: %s", r.Rule, written(want), row)
				}
			}
		}
		if rows := js[string](b, `document.querySelector("[data-test=rules]").textContent`); !strings.Contains(rows, "not met in this time") || !strings.Contains(rows, "export") {
			t.Errorf("the rule that nobody met is not told: %s", rows)
		}
		b.open("/rule?live=0&domain=api&rule=client_id")
		if d, r := b.figure("decisions"), b.figure("refused"); d != allowed+refused || r != refused {
			t.Errorf("the rule's page: %d decisions, %d refused", d, r)
		}

		// Throttled clients, and one of them.
		type clientList struct {
			Total   int64
			Clients []struct {
				totals
				Key string
			}
		}
		b.open("/clients?live=0&rule=client_id")
		clients := admins[clientList](n, "/v1/analytics/clients", url.Values{"from": {"-1h"}, "rule": {"client_id"}})
		if rows := js[int64](b, `document.querySelectorAll("[data-test=clients] tbody tr").length`); rows != clients.Total || rows != 3 {
			t.Errorf("%d clients are listed of %d, 3 were limited", rows, clients.Total)
		}
		for _, c := range clients.Clients {
			row := js[string](b, fmt.Sprintf(`[...document.querySelectorAll("[data-test=clients] tbody tr")].find((r) => r.querySelector("th a")?.textContent === %s)?.textContent ?? "none"`, quote(c.Key)))
			if want := written(sent[c.Key] - 100); !strings.Contains(row, want+" of "+written(sent[c.Key])) && !strings.Contains(row, want+" rest unknown") {
				t.Errorf("the row of %s: %s", c.Key, row)
			}
		}
		b.open("/clients?live=0&verdict=abusive")
		b.open("/client?live=0&key=client-5")
		b.until(`document.querySelector("main").innerText.includes("Overshoot")`)
		b.open("/accuracy?live=0")
		b.until(`document.querySelector("[data-test=accuracy] table")`)
		b.open("/upstream?live=0")
		if a, d := b.figure("answers"), b.figure("admitted"); a != 30 || d != 30 {
			t.Errorf("upstream: %d answers, %d admitted, 30 were sent", a, d)
		}
		b.open("/system?live=0")
		b.until(`document.querySelector("[data-test=sources]")?.textContent.includes("edge-1")`)
	}

	t.Run("act", func(t *testing.T) { acts(t, n, b) })
	t.Run("export", func(t *testing.T) { exports(t, n, b) })
	t.Run("zoom", func(t *testing.T) { zooms(b) })
}

// written is a whole number as the page writes it.
func written(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// acts resets a client, whose key is told as it is, from its row.
func acts(t *testing.T, n *node, b *tab) {
	b.width(wide)
	b.open("/clients?live=0&key=client-5")
	b.choose("[data-test=client-actions]", "Reset the count")
	b.until(`document.querySelector("#action-entries")?.value === "client_id=client-5"`)
	b.act("Reset a client's count", "our own probe")
	if left := n.explain("client-5").Decision.Remaining; left != 100 {
		t.Errorf("after the reset %d are left", left)
	}
}

// exports follows every link to a file.
func exports(t *testing.T, n *node, b *tab) {
	for _, path := range []string{"/", "/rules", "/rule?domain=api&rule=client_id&limit=client_id", "/clients", "/accuracy", "/upstream", "/system"} {
		b.open(path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "live=0")
		links := js[[]string](b, `[...document.querySelectorAll("a[data-test=export]")].map((a) => a.href)`)
		if len(links) == 0 {
			t.Errorf("%s has no link to a file", path)
		}
		for _, link := range links {
			if data := string(n.ask("GET", link, "")); !strings.HasPrefix(data, "{") || strings.Contains(data, `"status":4`) {
				t.Errorf("%s answers %.300s", link, data)
			}
		}
	}
}

// zooms drags over a chart.
func zooms(b *tab) {
	b.width(wide)
	b.open("/?live=0")
	b.until(`document.querySelector(".u-over")`)
	b.do(`document.querySelector(".u-over").scrollIntoView({ block: "center" })`)
	type box struct{ X, Y, W, H float64 }
	at := js[box](b, `(() => { const r = document.querySelector(".u-over").getBoundingClientRect(); return { X: r.x, Y: r.y, W: r.width, H: r.height } })()`)
	b.drag(at.X+at.W*0.4, at.Y+at.H/2, at.X+at.W*0.8, at.Y+at.H/2)
	b.until(`/from=\d{4}-/.test(location.search) && /to=\d{4}-/.test(location.search) && document.querySelector(".bar .anchor button[aria-pressed=true]")`)
	b.until(settled)
}

// TestLimitsInWords looks at limits that stand on the command line: their words are
// their names.
func TestLimitsInWords(t *testing.T) {
	t.Parallel()
	n := serve(t, "--limit", "7/day by ip using token_bucket", "--events-sample", "1")
	n.visit("192.0.2.7", "/items", "curl/8", 12)
	b := browse(t, n.admin)
	b.width(wide)
	b.open("/rules?live=0")
	b.until(`[...document.querySelectorAll("[data-test=rules] tbody tr")].some((r) => r.textContent.includes("7/day by ip") && r.textContent.includes("enforced"))`)
	n.awaitAnalytics("the refusals", func() bool {
		type overview struct{ Totals totals }
		return admins[overview](n, "/v1/analytics/overview", url.Values{"from": {"-1h"}, "limit": {"7/day by ip using token_bucket"}}).Totals.Counts["refused"] == 5
	})
	b.open("/rule?live=0&domain=api&rule=remote_address&limit=" + url.QueryEscape("7/day by ip using token_bucket"))
	if got := b.figure("refused"); got != 5 {
		t.Errorf("%d refused, want 5", got)
	}
	b.press("[aria-label='Change the mode']", "Shadow")
	b.act("Make it a shadow", "trying words")
	b.until(`document.querySelector("[data-test=mode]")?.textContent === "shadow"`)
}

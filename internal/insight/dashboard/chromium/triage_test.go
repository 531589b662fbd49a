package chromium

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTriage reads off the first page which limits refused, how many requests of how many
// clients, and goes from an incident to the clients and to the rule that it is about.
func TestTriage(t *testing.T) {
	t.Parallel()
	events, span := throttled(time.Now().Truncate(time.Minute))
	n := serve(t, "--analytics", "sqlite:"+filled(t, events))
	b := browse(t, n.admin)
	for _, width := range []int64{wide, phone} {
		b.width(width)
		b.open("/?live=0" + span)
		says := js[string](b, `document.querySelector("[data-test=triage]").textContent`)
		if want := regexp.MustCompile(`^3 limits refused in this time\. 1,000 requests of 4 clients refused; (none|\d) of them (look|looks) legitimate or shares? an address\.$`); !want.MatchString(says) {
			t.Errorf("at %d: %q", width, says)
		}
		// Of one node it is not known whose requests they were.
		b.open("/?live=0&node=edge-2" + span)
		if says := js[string](b, `document.querySelector("[data-test=triage]").textContent`); strings.Contains(says, "client") {
			t.Errorf("of one node: %q", says)
		}
		b.open("/?live=0" + span)
		type row struct {
			Text, Look     string
			Spark, Verdict bool
		}
		rows := js[[]row](b, `[...document.querySelectorAll("[data-test=incidents] tbody tr")].map((r) => ({ Text: r.textContent, Look: r.querySelector("a.button").search, Spark: !!r.querySelector(".spark rect:not(.span)"), Verdict: !!r.querySelector("a.badge") }))`)
		if len(rows) != 3 {
			t.Fatalf("%d incidents", len(rows))
		}
		for _, r := range rows {
			rule := regexp.MustCompile(`rule=(\w+)`).FindStringSubmatch(r.Look)
			if !r.Spark || !r.Verdict || len(rule) != 2 || !strings.Contains(r.Text, rule[1]) || !strings.Contains(r.Look, "from=") || !strings.Contains(r.Look, "to=") {
				t.Errorf("incident %+v", r)
			}
		}
		b.press("[data-test=incidents]", js[string](b, `document.querySelector("[data-test=incidents] a.badge").textContent`))
		b.until(`location.pathname === "/ui/clients" && location.search.includes("verdict=") && ` + settled + ` && document.querySelector("[data-test=clients] tbody tr")`)
		b.open("/?live=0" + span)
		b.do(`document.querySelector("[data-test=incidents] a.button").click()`)
		b.until(`location.pathname === "/ui/rule" && ` + settled)
		b.until(fmt.Sprintf(`%q.includes(new URLSearchParams(location.search).get("rule")) && document.querySelector("[data-figure=refused]")`, "client_id remote_address export"))
	}

	// What comes now is said of now.
	m := serve(t)
	m.spend("one", 105)
	m.awaitAnalytics("the refusals", func() bool {
		type overview struct{ Totals totals }
		return admins[overview](m, "/v1/analytics/overview", nil).Totals.Counts["refused"] == 5
	})
	b = browse(t, m.admin)
	b.width(wide)
	b.open("/?live=0")
	if says := js[string](b, `document.querySelector("[data-test=triage]").textContent`); !strings.HasPrefix(says, "1 limit refuses now. 5 requests of 1 client refused;") {
		t.Errorf("now: %q", says)
	}
}

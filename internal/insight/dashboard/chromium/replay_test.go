package chromium

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestReplay replays what was sent under edited limits, and counts itself what each
// of them refuses.
func TestReplay(t *testing.T) {
	t.Parallel()
	n := serve(t, "--events-sample", "1", "--events-unhashed")
	var sent []int64
	for i := range 8 {
		sent = append(sent, int64(3+i*17))
		n.spend(fmt.Sprintf("client-%d", i), 3+i*17)
	}
	// Buckets of so many, which a day fills: within a test nothing flows back.
	refused := func(limit int64) (all int64) {
		for _, s := range sent {
			all += max(s-limit, 0)
		}
		return all
	}
	type replayed struct{ Decisions int64 }
	q := url.Values{"domain": {"api"}, "rule": {"client_id"}, "from": {"-24h"}}
	n.awaitAnalytics("what eight clients sent", func() bool {
		return admins[replayed](n, "/v1/analytics/replay", q).Decisions == 8*3+17*28
	})
	b := browse(t, n.admin)
	for _, width := range []int64{wide, narrow} {
		b.width(width)
		b.open("/rule?domain=api&rule=client_id&limit=client_id&live=0")
		b.until(`[...document.querySelectorAll("button")].some((e) => e.textContent === "Replay on the last 24 h" && !e.disabled)`)
		b.press("main", "Replay on the last 24 h")
		b.until(`location.search.includes("replay=1") && document.querySelector("[data-test=replayed]")?.textContent.includes("none would have been another")`)
		if got := b.figure("replay-decisions"); got != 8*3+17*28 {
			t.Errorf("%d decisions are replayed", got)
		}
		for _, limit := range []int64{37, 90} {
			b.fill("#replay-limit", fmt.Sprint(limit))
			want := refused(limit) - refused(100)
			b.until(fmt.Sprintf(`location.search.includes("line=%d") && document.querySelector("[data-figure=replay-newly-refused]")?.textContent === "%d"`, limit, want))
			if got := b.figure("replay-newly-admitted"); got != 0 {
				t.Errorf("at %d, %d are let pass that were not", limit, got)
			}
		}
		// A higher one lets all pass; the line on the curve is the same limit.
		b.fill("#curve-limit", "121")
		b.until(fmt.Sprintf(`document.querySelector("[data-figure=replay-newly-admitted]")?.textContent === "%d"`, refused(100)-refused(121)))
		b.fill("#replay-burst", "10")
		b.until(fmt.Sprintf(`location.search.includes("burst=10") && document.querySelector("[data-figure=replay-newly-refused]")?.textContent === "%d"`, refused(10)-refused(100)))
		b.choose("#replay-by", "fixed window")
		b.until(`location.search.includes("by=fixed_window") && !document.querySelector("#replay-burst") && document.querySelector("[data-test=replay] .own")?.textContent.includes("fixed window")`)
		if says := js[string](b, `document.querySelector("[data-test=replay-coverage]").innerText`); !strings.Contains(says, "of every key") || !strings.Contains(says, "as if there were no other limit") {
			t.Errorf("the page says of the sample: %s", says)
		}
		for _, fault := range js[[]string](b, examine) {
			t.Errorf("at %d: %s", width, fault)
		}
		// The address is the state.
		at := js[string](b, "location.pathname + location.search")
		b.open(strings.TrimPrefix(at, "/ui"))
		b.until(`document.querySelector("#replay-by")?.value === "fixed_window" && document.querySelector("#replay-limit").value === "121"`)
		b.press("[aria-labelledby=replay]", "Close")
		b.until(`!location.search.includes("replay") && !location.search.includes("by=") && !document.querySelector("[data-test=replayed]")`)
	}
}

// TestPlaces filters by the region that a node was given, sees how long decisions
// took, and what a page cannot be filtered by is said and does no harm.
func TestPlaces(t *testing.T) {
	t.Parallel()
	n := serve(t, "WEIR_EVENTS_REGION=eu-west")
	type latency struct {
		Latency *struct {
			Measured int64
			P99      float64 `json:"p99_us"`
		}
		Totals totals
	}
	sent := int64(0)
	hour := url.Values{"from": {"-1h"}}
	n.awaitAnalytics("a decision that was timed", func() bool {
		n.spend("one", 20)
		sent += 20
		return admins[latency](n, "/v1/analytics/overview", hour).Latency != nil
	})
	n.awaitAnalytics("all decisions", func() bool { return admins[latency](n, "/v1/analytics/overview", hour).Totals.Decisions == sent })
	b := browse(t, n.admin)
	b.width(wide)
	b.open("/system?live=0")
	b.until(`document.querySelector("[data-figure=latency]")?.textContent.match(/^[\d.]+ (ns|µs|ms|s)$/)`)
	b.press(".bar", "Filter")
	b.choose("#filter-field", "Region")
	b.until(`[...document.querySelectorAll("#filter-values option")].some((o) => o.value === "eu-west")`)
	b.fill("#filter-value", "eu-west")
	b.press(".popover", "Add")
	b.until(fmt.Sprintf(`location.search.includes("region=eu-west") && document.querySelector("[data-figure=decisions]")?.textContent.replaceAll(",", "") === "%d"`, sent))
	b.open("/?live=0&region=eu-west")
	b.until(fmt.Sprintf(`document.querySelector("[data-figure=decisions]")?.textContent.replaceAll(",", "") === "%d"`, sent))
	b.open("/system?live=0&region=elsewhere")
	b.until(`document.querySelector("[data-figure=decisions]")?.textContent === "0" && document.querySelector("[data-figure=latency]").textContent === "–"`)
	b.open("/?live=0&by=region")
	b.until(`document.querySelector(".legend")?.textContent.includes("eu-west")`)
	// Clients, rules and algorithms are not told apart by region.
	for _, page := range []string{"/rules", "/rule?domain=api&rule=client_id", "/clients", "/client?key=one", "/accuracy"} {
		join := "?"
		if strings.Contains(page, "?") {
			join = "&"
		}
		b.open(page + join + "region=eu-west&node=edge-1&outcome=refused&live=0")
		b.until(`[...document.querySelectorAll(".chip.idle")].some((c) => c.textContent.includes("region: eu-west (not here)")) && !document.querySelector("[aria-busy]")`)
		if says := js[string](b, `document.querySelector("[data-test=not-here]")?.innerText ?? ""`); !strings.Contains(says, "Not filtered by node, region, outcome") || !strings.Contains(says, "in whatever region") {
			t.Errorf("%s says of the filters: %q", page, says)
		}
		for _, width := range []int64{narrow, wide} {
			b.width(width)
			// Charts follow the width when they hear of it.
			b.until(`document.documentElement.scrollWidth <= innerWidth`)
			for _, fault := range js[[]string](b, examine) {
				t.Errorf("%s at %d: %s", page, width, fault)
			}
		}
		if says := js[string](b, `[...document.querySelectorAll("[data-test=unanswered]")].map((e) => e.innerText).join(" ")`); says != "" {
			t.Errorf("%s says %s", page, says)
		}
	}
	b.open("/upstream?region=eu-west&live=0")
	b.until(fmt.Sprintf(`document.querySelector("[data-figure=admitted]") && %d === [...document.querySelectorAll("[data-figure=admitted], [data-figure=refused]")].reduce((n, e) => n + Number(e.textContent.replaceAll(",", "")), 0) && !document.querySelector(".chip.idle, [data-test=not-here]")`, sent))
	b.open("/system")
	b.until(`document.querySelector("[data-test=sources]")?.innerText.includes("eu-west") && document.querySelector("[data-test=latency-coverage]")?.innerText.includes("one in 256")`)
}

// TestPromises shows by how much an approximate limit may be wrong, and was.
func TestPromises(t *testing.T) {
	t.Parallel()
	n := serveRules(t, "domain: api\ndescriptors:\n  - {key: client_id, limit: 50/day, algorithm: approximate}\n")
	n.spend("one", 60)
	b := browse(t, n.admin)
	b.width(narrow)
	b.open("/accuracy?live=0")
	b.until(`document.querySelector("[data-test=sketches] tbody")?.innerText.includes("client_id") && Number(document.querySelector("[data-test=sketches] tbody td").textContent) >= 0`)
	for _, fault := range js[[]string](b, examine) {
		t.Error(fault)
	}
}

package chromium

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// column reads a column of a table as the page shows it: the first line of each cell.
func (b *tab) column(table, head string) []string {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector("[data-test=%s] tbody tr")`, table))
	return js[[]string](b, fmt.Sprintf(`(() => {
		const t = document.querySelector("[data-test=%s]");
		const at = [...t.querySelectorAll("thead th")].findIndex((h) => h.textContent.trim().startsWith(%s));
		if (at < 0) return ["no column"];
		return [...t.querySelectorAll("tbody tr:not(.advice-row)")].map((r) => { const c = r.children[at].cloneNode(true); c.querySelectorAll(".dim").forEach((e) => e.remove()); return c.textContent.trim() });
	})()`, table, quote(head)))
}

// numbers reads what begins each text as a number; times, of today or with a date, are seconds.
func numbers(t *testing.T, texts []string) []float64 {
	t.Helper()
	form := regexp.MustCompile(`^[\d,.]+`)
	out := make([]float64, len(texts))
	for i, text := range texts {
		if len(text) == len(time.TimeOnly) { // of today
			text = time.Now().UTC().Format(time.DateOnly) + " " + text
		}
		if at, err := time.Parse(time.DateTime, text); err == nil {
			out[i] = float64(at.Unix())
			continue
		}
		found := form.FindString(text)
		if _, err := fmt.Sscanf(strings.ReplaceAll(found, ",", ""), "%g", &out[i]); err != nil {
			t.Fatalf("%q begins with no number", text)
		}
	}
	return out
}

// TestFamilyListsAreSortedByWhatTheyShow reads each list that is in an order off the page:
// the column by which it is in order falls, in traffic of which every order is another.
func TestFamilyListsAreSortedByWhatTheyShow(t *testing.T) {
	t.Parallel()
	events, span := throttled(time.Now().Truncate(time.Minute))
	n := serve(t, "--analytics", "sqlite:"+filled(t, events))
	b := browse(t, n.admin)
	refusedBy := func(name func(met) string) []string {
		sums := map[string]int64{}
		for _, m := range mets {
			sums[name(m)] += m.refused
		}
		var out []string
		for name := range sums {
			out = append(out, name)
		}
		slices.SortFunc(out, func(x, y string) int { return cmp.Compare(sums[y], sums[x]) })
		return out
	}
	for _, width := range []int64{wide, phone} {
		b.width(width)
		for _, l := range []struct {
			path, table, head string
			names             []string // of the first column, where they are known
		}{
			{"/?", "top-rules", "Refused", refusedBy(func(m met) string { return m.rule })},
			{"/?", "top-keys", "Refused", refusedBy(func(m met) string { return m.client })},
			{"/?", "top-paths", "Refused", refusedBy(func(m met) string { return m.path })},
			{"/rules?", "rules", "Refused", nil},
			{"/rules?sort=decisions", "rules", "Decisions", nil},
			{"/rules?sort=keys", "rules", "Clients limited", nil},
			{"/clients?", "clients", "Refused", refusedBy(func(m met) string { return m.client })},
			{"/clients?sort=overshoot", "clients", "Overshoot", nil},
			{"/clients?sort=early", "clients", "Early retries", nil},
			{"/clients?sort=last", "clients", "Last", nil},
		} {
			b.open(l.path + "&live=0&utc=1" + span)
			got := numbers(t, b.column(l.table, l.head))
			if len(got) < 3 || !slices.IsSortedFunc(got, func(x, y float64) int { return cmp.Compare(y, x) }) {
				t.Errorf("%s, %s at %d: the column %s is %v", l.path, l.table, width, l.head, got)
			}
			if names := b.column(l.table, map[bool]string{true: "Path", false: ""}[l.table == "top-paths"]); l.names != nil {
				for i, want := range l.names {
					if i < len(names) && !strings.HasPrefix(names[i], want) {
						t.Errorf("%s, %s at %d: row %d is %q, want %s", l.path, l.table, width, i+1, names[i], want)
					}
				}
			}
			// The head says by what: what is said and what is done are one.
			if sorted := js[string](b, fmt.Sprintf(`document.querySelector("[data-test=%s] th[aria-sort]")?.textContent.trim() ?? ""`, l.table)); sorted != "" && sorted != l.head {
				t.Errorf("%s: the head %q says that it is the order, not %q", l.path, sorted, l.head)
			}
		}
	}
}

// TestFamilyRefusedIsTheShareOfRequests compares what pages call refused with the requests
// that were refused, and with the refusals of each limit: what shadow limits would have
// refused is never among them.
func TestFamilyRefusedIsTheShareOfRequests(t *testing.T) {
	t.Parallel()
	events, span := throttled(time.Now().Truncate(time.Minute))
	n := serve(t, "--analytics", "sqlite:"+filled(t, events))
	b := browse(t, n.admin)
	refused, shadow, decisions := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, m := range mets {
		for _, of := range []string{m.rule, m.client, m.path} {
			refused[of] += m.refused
			shadow[of] += m.shadow
			decisions[of] += m.allowed + m.refused + m.delayed + m.shadow
		}
	}
	for _, width := range []int64{wide, phone} {
		b.width(width)
		b.open("/?live=0" + span)
		if got := b.figure("requests"); got != seenRequests {
			t.Errorf("%d requests, there were %d", got, seenRequests)
		}
		if got := js[string](b, `document.querySelector("[data-figure=refused]").textContent`); got != share(refusedRequests, seenRequests)+" %" {
			t.Errorf("refused: %s, of %d requests %d were", got, seenRequests, refusedRequests)
		}
		if got := js[string](b, `document.querySelector("[data-figure=refused-requests]").textContent`); got != written(refusedRequests)+" requests" {
			t.Errorf("refused: %s", got)
		}
		for _, table := range []string{"top-rules", "top-keys", "top-paths"} {
			names := b.column(table, map[bool]string{true: "Path", false: ""}[table == "top-paths"])
			for i, cell := range numbers(t, b.column(table, "Refused")) {
				name, _, _ := strings.Cut(names[i], "\n")
				if want, ok := refused[strings.TrimSpace(name)]; !ok || int64(cell) != want {
					t.Errorf("%s: %q were refused %v times, want %d", table, name, cell, want)
				}
			}
		}
		// Requests over time, as a table.
		b.open("/?live=0&by=request" + span)
		b.press(".legend", "Requests over time: as a table")
		for _, w := range []struct {
			head string
			want int64
		}{{"Allowed", seenRequests - refusedRequests - 7}, {"Refused", refusedRequests}, {"Not decided", 7}} {
			got := js[int64](b, fmt.Sprintf(`(() => { const t = document.querySelector(".table-of-chart"); const at = [...t.querySelectorAll("thead th")].findIndex((h) => h.textContent === %s); return [...t.querySelectorAll("tbody tr")].reduce((n, r) => n + Number(r.children[at].textContent.replaceAll(",", "")), 0) })()`, quote(w.head)))
			if got != w.want {
				t.Errorf("requests over time: %d %s, want %d", got, w.head, w.want)
			}
		}
		// Of one limit a request is one decision; of several it is not known, and said.
		b.open("/?live=0&rule=client_id" + span)
		if got := b.figure("requests"); got != decisions["client_id"] {
			t.Errorf("%d requests met client_id, want %d", got, decisions["client_id"])
		}
		b.open("/?live=0&rule=client_id,remote_address" + span)
		b.until(`document.querySelector("[data-figure=refused-decisions]") && !document.querySelector("[data-figure=refused]") && document.querySelector("[data-test=tiles]").innerText.includes("requests are not known")`)
		b.open("/rules?live=0" + span)
		names, cells := b.column("rules", ""), numbers(t, b.column("rules", "Refused"))
		for i := range names {
			name := strings.Fields(names[i])[0]
			if int64(cells[i]) != refused[name] {
				t.Errorf("rules: %s refused %v, want %d", name, cells[i], refused[name])
			}
		}
		b.open("/clients?live=0" + span)
		for i, cell := range numbers(t, b.column("clients", "Refused")) {
			name := strings.Fields(b.column("clients", "")[i])[0]
			if want, ok := refused[name]; !ok || int64(cell) != want {
				t.Errorf("clients: %q refused %v times, want %d", name, cell, want)
			}
			row := js[string](b, fmt.Sprintf(`document.querySelectorAll("[data-test=clients] tbody tr")[%d].innerText`, i))
			if s := shadow[name]; s > 0 && !strings.Contains(row, written(s)+" in shadow mode") {
				t.Errorf("clients: the row of %s does not tell %d in shadow mode: %s", name, s, row)
			}
		}
		// Verdicts are as sure as a word says, not a figure.
		if said := js[[]string](b, `[...document.querySelectorAll("[data-test=clients] td.verdict .badges")].map((e) => e.textContent)`); slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "%") }) {
			t.Errorf("verdicts with figures: %q", said)
		}
		b.until(`[...document.querySelectorAll("[data-test=confidence]")].every((e) => /^(high|medium|low) confidence$/.test(e.textContent))`)
		b.open("/client?key=client-a&live=0" + span)
		if says := js[string](b, `document.querySelector("main").innerText`); !strings.Contains(says, "900 of 1,000 decisions") {
			t.Errorf("the page of a client: %s", says)
		}
	}
}

// TestFamilyUnknownIsNotZero has no sampled key: how many clients there were is not known,
// and nowhere told as a number.
func TestFamilyUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	end := time.Now().Truncate(time.Minute)
	events, span := throttled(end)
	kept := events[:0]
	for _, e := range events {
		if e.Record != nil && e.Record.Outcome == "allowed" {
			continue
		}
		kept = append(kept, e)
	}
	n := serve(t, "--analytics", "sqlite:"+filled(t, kept))
	b := browse(t, n.admin)
	for _, width := range []int64{wide, phone} {
		b.width(width)
		b.open("/?live=0" + span)
		if says := js[string](b, `document.querySelector("[data-test=keys-seen]").textContent`); says != "how many were seen is not known" {
			t.Errorf("overview: %q", says)
		}
		b.open("/rule?domain=api&rule=client_id&limit=client_id&live=0" + span)
		if says := js[string](b, `document.querySelector("[data-test=keys-seen]").textContent`); says != "how many were seen is not known" {
			t.Errorf("rule: %q", says)
		}
		b.open("/rules?live=0" + span)
		if says := js[string](b, `document.querySelector("[data-test=rules] tbody").innerText`); !strings.Contains(says, "of an unknown number") || regexp.MustCompile(`\bof 0\b`).MatchString(says) {
			t.Errorf("rules: %s", says)
		}
	}
}

// TestFamilyGuarantees shows for limits of several algorithms the most that any period sees
// admitted, and never calls exact what admits more than its count.
func TestFamilyGuarantees(t *testing.T) {
	t.Parallel()
	algorithms := []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_subwindows", "sliding_counter", "sliding_log"}
	rules := "domain: api\ndescriptors:\n"
	for _, a := range algorithms {
		rules += fmt.Sprintf("  - {key: %s, limit: 100/minute, algorithm: %s}\n", a, a)
	}
	n := serveRules(t, rules)
	b := browse(t, n.admin)
	b.width(wide)
	for _, a := range algorithms {
		x := posted[struct {
			Decision struct {
				Guarantee struct {
					Exact  bool
					AtMost *int64 `json:"at_most"`
				}
			}
		}](n, fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":{%q:"one"}}]}`, a))
		g := x.Decision.Guarantee
		if g.AtMost == nil {
			t.Fatalf("%s has no bound", a)
		}
		b.open("/explain?domain=api&ask=" + url.QueryEscape(a+"=one"))
		b.until(`document.querySelector("[data-test=guarantee]")`)
		says := js[string](b, `document.querySelector("[data-test=guarantee]").textContent`)
		if want := fmt.Sprintf("at most %s in any minute", written(*g.AtMost)); !strings.Contains(strings.ToLower(says), want) {
			t.Errorf("%s: %q does not say %q", a, says, want)
		}
		if exact := strings.HasPrefix(says, "Exact:"); exact != g.Exact || exact && *g.AtMost > 100 {
			t.Errorf("%s: %q, and the service says exact: %v, at most %d", a, says, g.Exact, *g.AtMost)
		}
	}
}

package chromium

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// rates is what the line is dragged over: /v1/analytics/rates.
type rates struct {
	Limit struct {
		Allowance int64 `json:"allowance"`
	} `json:"limit"`
	Clients int64 `json:"clients"`
	Units   int64 `json:"units"`
	Buckets []struct{ Rate, Windows, Units int64 }
	Peaks   []struct{ Peak, Clients, Users int64 }
	Ladder  []struct {
		Limit, Clients, Units int64
		Share                 float64
	}
}

// caught is what a limit would have caught, as docs/reference/analytics.md says it is to be
// counted.
func (r rates) caught(limit int64) (clients, units int64) {
	for _, p := range r.Peaks {
		if p.Peak > limit {
			clients += p.Clients
		}
	}
	for _, b := range r.Buckets {
		if b.Rate > limit {
			units += b.Units - limit*b.Windows
		}
	}
	return clients, units
}

// number reads a whole number as the page writes it.
func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(text), ",", ""), 10, 64)
	if err != nil {
		t.Fatalf("%q is no whole number", text)
	}
	return n
}

// figure reads a whole number off the page.
func (b *tab) figure(name string) int64 {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector("[data-figure=%s]")`, name))
	return number(b.t, js[string](b, fmt.Sprintf(`document.querySelector("[data-figure=%s]").textContent`, name)))
}

// TestLine drags the limit line with the keyboard, with the mouse, and by writing a
// number, and counts what each limit would have caught itself.
func TestLine(t *testing.T) {
	t.Parallel()
	n := serve(t, "--events-sample", "1")
	all := int64(0)
	for i := range 8 {
		n.spend(fmt.Sprintf("client-%d", i), 3+i*17)
		all += int64(3 + i*17)
	}
	q := url.Values{"domain": {"api"}, "rule": {"client_id"}, "limit": {"client_id"}, "from": {"-1h"}, "top": {"200"}}
	n.awaitAnalytics("all units of eight clients", func() bool {
		r, units := admins[rates](n, "/v1/analytics/rates", q), int64(0)
		for _, b := range r.Buckets {
			units += b.Units
		}
		return r.Clients == 8 && units == all
	})

	b := browse(t, n.admin)
	for _, width := range []int64{wide, narrow} {
		b.width(width)
		b.open("/rule?domain=api&rule=client_id&limit=client_id&live=0")
		b.until(`document.querySelector("[data-test=line]")`)
		told := admins[rates](n, "/v1/analytics/rates", q)
		value := func() int64 {
			return number(t, js[string](b, `document.querySelector("[data-test=line]").getAttribute("aria-valuenow")`))
		}
		same := func(how string) {
			t.Helper()
			limit := value()
			clients, units := told.caught(limit)
			if c, u := b.figure("caught-clients"), b.figure("caught-units"); c != clients || u != units {
				t.Errorf("%s, at %d: the page says %d clients and %d units, counted are %d and %d", how, limit, c, u, clients, units)
			}
			want := fmt.Sprintf("%d clients, ", clients)
			if text := js[string](b, `document.querySelector("[data-test=line]").getAttribute("aria-valuetext")`); !strings.Contains(text, want) {
				t.Errorf("a screen reader hears %q, not %q", text, want)
			}
		}
		if at := value(); at != told.Limit.Allowance {
			t.Errorf("the line begins at %d", at)
		}
		same("untouched")

		b.do(`document.querySelector("[data-test=line]").focus()`)
		for _, step := range []struct {
			key  string
			want int64
		}{{"ArrowDown", 99}, {"PageDown", 89}, {"ArrowUp", 90}, {"PageUp", 99}, {"Home", 1}, {"ArrowUp", 2}, {"End", 122}} {
			b.key(step.key)
			b.until(fmt.Sprintf(`document.querySelector("[data-test=line]").getAttribute("aria-valuenow") === "%d"`, step.want))
			same(step.key)
		}
		if !strings.Contains(js[string](b, "location.search"), "line=122") {
			t.Error("the address does not keep the line")
		}

		// With the mouse, downwards: a lower limit catches more.
		b.do(`document.querySelector("[data-test=line]").scrollIntoView({ block: "center" })`)
		type point struct{ X, Y float64 }
		at := js[point](b, `(() => { const r = document.querySelector("[data-test=line] .grip").getBoundingClientRect(); return { X: r.x + r.width / 2, Y: r.y + r.height / 2 } })()`)
		b.drag(at.X, at.Y, at.X, at.Y+90)
		b.until(`Number(document.querySelector("[data-test=line]").getAttribute("aria-valuenow")) < 100`)
		same("dragged")

		b.fill("#curve-limit", "37")
		b.until(`document.querySelector("[data-test=line]").getAttribute("aria-valuenow") === "37"`)
		same("written")

		// The ladder of the service says the same at each of its limits.
		for i := 0; i < len(told.Ladder); i += max(len(told.Ladder)/8, 1) {
			rung := told.Ladder[i]
			if rung.Limit < 1 || rung.Limit > 122 {
				continue
			}
			b.fill("#curve-limit", fmt.Sprint(rung.Limit))
			b.until(fmt.Sprintf(`document.querySelector("[data-test=line]").getAttribute("aria-valuenow") === "%d"`, rung.Limit))
			if c, u := b.figure("caught-clients"), b.figure("caught-units"); c != rung.Clients || u != rung.Units {
				t.Errorf("at %d the page says %d clients, %d units, the ladder %d, %d", rung.Limit, c, u, rung.Clients, rung.Units)
			}
		}
		b.open("/rule?domain=api&rule=client_id&limit=client_id&live=0&line=55")
		b.until(`document.querySelector("[data-test=line]")?.getAttribute("aria-valuenow") === "55"`)
	}
}

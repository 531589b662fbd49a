package chromium

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
)

// strainedHour is an hour of roll-ups: the rate rises and falls, and above 12 requests
// a second answers come late and one in twenty fails. 20 a second pass, the rest is
// refused.
func strainedHour(end time.Time) (events []event.Event, above, admitted, refused int64) {
	place := event.LimitRef{Name: limits.Name{Domain: "api", Rule: "remote_address", Limit: "remote_address"}, Algorithm: "token_bucket", Allowance: 1200, PeriodMS: 60_000, Burst: 90}
	for i := range 60 {
		at := end.Add(time.Duration(i-60) * time.Minute)
		came := int64(60 * (12.5 - 11.5*math.Cos(float64(i)/60*4*math.Pi)))
		passed := min(came, 1200)
		r := &event.Rollup{From: at, To: at.Add(time.Minute), LimitRef: place, Counts: map[string]uint64{"allowed": uint64(passed)}}
		if came > passed {
			r.Counts["refused"] = uint64(came - passed)
		}
		took, errors := 30*time.Millisecond, uint64(0)
		if passed > 720 {
			above++
			took, errors = time.Duration(passed)*time.Millisecond, uint64(passed/20)
		}
		n := uint64(passed)
		r.Responses = &event.ResponseTotals{OK: n - errors, ServerError: errors, TotalUS: n * uint64(took.Microseconds()), LongestUS: uint64(took.Microseconds()), Times: []event.LatencyCount{
			{Bucket: event.LatencyBucket(took / 2), Count: n - n/10}, {Bucket: event.LatencyBucket(took), Count: n / 10}}}
		admitted, refused = admitted+passed, refused+came-passed
		events = append(events, event.Event{Source: "edge-2/1", Sequence: uint64(i + 1), Time: at.Add(time.Minute), Rollup: r})
	}
	return events, above, admitted, refused
}

// filled makes a database that has counted events.
func filled(t *testing.T, events []event.Event) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "analytics.db")
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	service, err := analytics.New(db, analytics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	queue := event.NewLocal(1)
	if err := queue.Publish(context.Background(), events); err != nil {
		t.Fatal(err)
	}
	if err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	if err := service.Run(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUpstream looks at an upstream that is strained above a rate: what the page says
// is what was told.
func TestUpstream(t *testing.T) {
	t.Parallel()
	end := time.Now().Truncate(time.Minute)
	events, above, admitted, refused := strainedHour(end)
	n := serve(t, "--analytics", "sqlite:"+filled(t, events))
	b := browse(t, n.admin)
	span := "&from=" + url.QueryEscape(end.Add(-time.Hour).UTC().Format(time.RFC3339)) + "&to=" + url.QueryEscape(end.UTC().Format(time.RFC3339))
	for _, colours := range []string{"dark", "light"} {
		b.media(map[string]string{"prefers-color-scheme": colours, "prefers-reduced-motion": "reduce"})
		for _, width := range []int64{wide, narrow} {
			b.width(width)
			b.open("/upstream?live=0&utc=1" + span)
			if a, r, x := b.figure("admitted"), b.figure("refused"), b.figure("answers"); a != admitted || r != refused || x != admitted {
				t.Errorf("admitted %d, refused %d, answers %d: want %d, %d and as many answers", a, r, x, admitted, refused)
			}
			for _, fault := range js[[]string](b, examine) {
				t.Errorf("at %d, %s: %s", width, colours, fault)
			}
			if width == wide && colours == "light" {
				b.shot("dashboard-upstream.png", true)
			}
			// Both charts as tables: minute by minute what was told.
			b.press(".legend", "Admitted, and response times: as a table")
			b.until(`document.querySelector(".table-of-chart tbody tr")`)
			if rows := js[int](b, `[...document.querySelectorAll(".table-of-chart tbody tr")].filter((r) => r.innerText.includes(" ms") || r.innerText.includes(" s")).length`); rows != 60 {
				t.Errorf("%d minutes have a percentile", rows)
			}
			if marked := js[int](b, `[...document.querySelectorAll(".table-of-chart tbody tr")].filter((r) => r.lastElementChild.textContent === "yes").length`); marked == 0 || marked == 60 {
				t.Errorf("%d minutes are marked as refused", marked)
			}
			b.press(".legend", "Refused, and server errors: as a table")
			b.until(`[...document.querySelectorAll(".table-of-chart")].length === 2`)
			if rows := js[int](b, `[...document.querySelectorAll(".table-of-chart")[1].querySelectorAll("tbody tr")].filter((r) => r.innerText.includes("5 %")).length`); rows < int(above)/2 {
				t.Errorf("%d minutes have server errors", rows)
			}
		}
	}
}

// share is a share as the page writes it.
func share(n, of int64) string {
	return strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%.1f", 100*float64(n)/float64(of)), "0"), ".")
}

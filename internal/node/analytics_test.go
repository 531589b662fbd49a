package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// question asks the analytics of a server.
func (r *running) question(t *testing.T, path, token string, answer any) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	res := r.get(ctx, t, "/v1/analytics/"+path, token)
	defer res.Body.Close()
	if res.StatusCode == 200 {
		if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode
}

// totals is part of the overview.
type totals struct {
	Totals struct {
		Decisions int64
		Counts    map[string]int64
	}
}

// What was decided until the last request is in the file when the server has ended,
// and the next server goes on with it.
func TestAnalyticsKeep(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const token = "0123456789abcdef"
	file := filepath.Join(t.TempDir(), "weir.db")
	const clients, each = 5, 7
	for round := range int64(2) {
		c := local("3/hour by client_id")
		c.Analytics.URL, c.Admin.Token = "sqlite:"+file, token
		r := run(t, c)
		var told totals
		if code := r.question(t, "overview", "", &told); code != 401 {
			t.Errorf("without the token: %d", code)
		}
		if code := r.question(t, "overview", token, &told); code != 200 || told.Totals.Decisions != round*clients*each || told.Totals.Counts["refused"] != round*4*clients {
			t.Errorf("round %d begins with %d, %+v", round, code, told)
		}
		for i := range clients * each {
			r.ask(t, fmt.Sprint("c", i%clients))
		}
		if err := r.drain(); err != nil {
			t.Error(err)
		}
	}
}

// By default a server keeps its own events in memory and answers what is asked of
// them, and says of itself how that goes.
func TestAnalyticsInMemory(t *testing.T) {
	r := run(t, local("3/hour by client_id"))
	for range 5 {
		r.ask(t, "a")
		r.ask(t, "b")
	}
	var list struct {
		Clients []struct{ Counts map[string]int64 }
	}
	// Events are counted in batches: the last may come after both clients are known.
	servertest.Await(t, "both clients to be kept, each with two refusals", func() bool {
		code := r.question(t, "clients", "", &list)
		return code == 200 && len(list.Clients) == 2 && list.Clients[0].Counts["refused"] == 2 && list.Clients[1].Counts["refused"] == 2
	})
	if _, body := get(t, r.URLs["admin"]+"/metrics"); !strings.Contains(body, "weir_analytics_transactions_total") {
		t.Error("no metrics of analytics")
	}
	req, err := http.NewRequest(http.MethodGet, r.URLs["admin"]+"/v1/analytics/clients", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site reads of clients: %s", res.Status)
	}
}

// Where nothing is kept it is said why.
func TestAnalyticsOff(t *testing.T) {
	for _, tt := range []struct{ events, analytics, want string }{
		{"local:", "off", "see --analytics"}, {"off", "memory:", "see --analytics"},
		{fmt.Sprintf("kafka://127.0.0.1:%d/weir", servertest.FreePort(t)), "memory:", "events go to a queue"},
	} {
		c := local("3/hour by client_id")
		c.Events.URL, c.Analytics.URL = tt.events, tt.analytics
		r := run(t, c)
		if code, body := get(t, r.URLs["admin"]+"/v1/analytics/overview"); code != 404 || !strings.Contains(body, tt.want) {
			t.Errorf("%s, %s: %d %s", tt.events, tt.analytics, code, body)
		}
	}
}

// A database that is away holds up neither the start nor a decision nor, for long, the
// end; one that cannot be meant is an error.
func TestAnalyticsWithoutTheirDatabase(t *testing.T) {
	t.Parallel() // they wait for what does not come
	c := local("3/hour by client_id")
	c.Analytics.URL = fmt.Sprintf("postgres://u:p@127.0.0.1:%d/weir?sslmode=disable", servertest.FreePort(t))
	r := run(t, c)
	r.ask(t, "a")
	if code := r.question(t, "overview", "", nil); code != 503 {
		t.Errorf("got %d", code)
	}
	if err := r.drain(); err != nil {
		t.Error(err)
	}
}

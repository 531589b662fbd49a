package analyticstest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Asked is a database that notes what is asked of it, with the first arguments.
type Asked struct {
	rows.Database
	mu         sync.Mutex
	Statements map[string][]any
}

// View implements rows.Database.
func (a *Asked) View(ctx context.Context, f func(rows.Tx) error) error {
	return a.Database.View(ctx, func(tx rows.Tx) error { return f(&askedTx{a, tx}) })
}

type askedTx struct {
	a *Asked
	rows.Tx
}

// Each implements rows.Tx.
func (t *askedTx) Each(query string, args [][]any, row func(int, rows.Row) error) error {
	if len(args) > 0 {
		t.a.mu.Lock()
		t.a.Statements[query] = args[0]
		t.a.mu.Unlock()
	}
	return t.Tx.Each(query, args, row)
}

// Questions are those of the dashboard, but for the range.
var Questions = []string{"overview?", "series?", "top?", "rules?", "rule?domain=api&rule=rule1", "rates?domain=api&rule=rule1&limit=l", "clients?", "clients?sort=overshoot", "clients?verdict=abusive",
	"client?key=client1", "accuracy?", "replay?domain=api&rule=rule1&limit=l", "upstream?", "latency?", "filters?", "system"}

// Plans looks at how a database means to answer the questions of the dashboard, and fails
// for a statement about one client that reads more than the rows of the client: it is run
// once for each client of a page. explain returns the lines of a plan.
func Plans(t *testing.T, db rows.Database, explain func(query string, args []any) []string, bad func(line string) bool) {
	now := start.Add(40 * 24 * time.Hour)
	Fill(t, db, now, Size{Limits: 3, Clients: 20, Hours: 24, Minutes: 10})
	a := &Asked{Database: db, Statements: map[string][]any{}}
	s, err := analytics.New(a, retained(func() time.Time { return now }, -1))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range Questions {
		for _, from := range []string{"-15m", "-24h", "-7d", "-30d"} {
			path := "/v1/analytics/" + q
			if strings.Contains(q, "?") {
				path += "&from=" + from
			}
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			if rec.Code != 200 {
				t.Fatalf("GET %s: %d %s", path, rec.Code, rec.Body)
			}
		}
	}
	examined := 0
	for query, args := range a.Statements {
		if !strings.Contains(query, "client = $2 AND limit_id = $3") {
			continue
		}
		examined++
		plan := explain(query, args)
		if len(plan) == 0 {
			t.Errorf("no plan for %s", query)
		}
		for _, line := range plan {
			if bad(line) {
				t.Errorf("%s\nis answered by %s", fmt.Sprintf("%.200s", query), line)
			}
		}
	}
	if examined < 3 {
		t.Errorf("%d statements about a client were seen, of %d", examined, len(a.Statements))
	}
}

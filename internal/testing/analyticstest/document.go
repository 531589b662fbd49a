package analyticstest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// everyPath: the responses of every path to traffic of all kinds, and its errors are as the
// OpenAPI document says, which exchange checks.
func everyPath(t *testing.T, open func() rows.Database, tr *Traffic) {
	s := Serve(t, open(), tr)
	consume(t, s, Mixed(tr.Events, 1))
	a := &asked{t, s.Handler(), tr}
	var list report.ClientList
	a.get("clients?top=1&rule=remote_address&"+a.span(), &list)
	c := list.Clients[0]
	fill := strings.NewReplacer("{domain}", c.Domain, "{rule}", c.Rule, "{key}", c.Key)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var all strings.Builder
	for _, pattern := range analytics.Paths() {
		path := fill.Replace(strings.TrimPrefix(pattern, "GET /v1/analytics/")) + "?"
		switch path {
		case "system?":
		case "client?":
			path += "key=" + c.Key + "&" + a.span()
		case "rates?", "replay?":
			path += "rule=" + c.Rule + "&" + a.span()
		default:
			path += a.span()
		}
		rec := a.raw(path)
		equal(t, path, rec.Code, http.StatusOK)
		all.Write(rec.Body.Bytes())
		equal(t, path+" with a wrong parameter", a.raw(path+"&colour=red").Code, http.StatusBadRequest)
		rec = a.exchange(httptest.NewRequestWithContext(gone, "GET", "/v1/analytics/"+path, nil))
		equal(t, path+" of a database that does not answer", rec.Code, http.StatusServiceUnavailable)
	}
	// What is not always there was there.
	for _, member := range []string{"requests", "latency", "client_info", "responses", "verdict", "usage", "judged", "badges", "no_advice_reason",
		"first_hit", "last_refused", "tier", "oldest", "missing"} {
		if !strings.Contains(all.String(), `"`+member+`":`) {
			t.Errorf("no response has %s", member)
		}
	}
}

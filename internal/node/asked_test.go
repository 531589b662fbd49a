package node

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// upstream starts a server that answers everything 200.
func upstream(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	t.Cleanup(s.Close)
	return s.URL
}

// node builds a node, whose log it returns.
func startNode(t *testing.T, c *config.Config) (*Server, *servertest.Log) {
	t.Helper()
	log := new(servertest.Log)
	s, err := New(c, Build{}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, log
}

// gatewayStatus asks the node's HTTP door as a client of that address.
func gatewayStatus(t *testing.T, s *Server, method, target, from string, header ...string) int {
	t.Helper()
	r := httptest.NewRequest(method, target, http.NoBody)
	r.RemoteAddr = from + ":1234"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.door("http").ServeHTTP(w, r)
	if _, err := io.Copy(io.Discard, w.Result().Body); err != nil {
		t.Fatal(err)
	}
	return w.Code
}

const loginRules = `domain: api
descriptors:
  - {key: remote_address, limit: 60/minute}
  - key: path
    value: /login
    descriptors:
      - {key: remote_address, limit: 5/minute, name: login}
`

// The gateway asks what the rules ask, without a route that says so.
func TestGatewayAsksWhatTheRulesAsk(t *testing.T) {
	c := config.Defaults()
	c.Rules, c.Upstream = servertest.File(t, "rules.yaml", loginRules), upstream(t)
	s, _ := startNode(t, c)
	var got []int
	for range 7 {
		got = append(got, gatewayStatus(t, s, "POST", "/login", "203.0.113.7"))
	}
	if !slices.Equal(got, []int{200, 200, 200, 200, 200, 429, 429}) {
		t.Errorf("seven logins got %v, want five times 200, then 429", got)
	}
	if got := gatewayStatus(t, s, "POST", "/login", "203.0.113.8"); got != 200 {
		t.Errorf("another client got %d", got)
	}
	if got := gatewayStatus(t, s, "GET", "/other", "203.0.113.7"); got != 200 {
		t.Errorf("another path got %d", got)
	}
	// A reload changes what is asked.
	servertest.Write(t, c.Rules, `domain: api
descriptors:
  - {key: "header:X-Key", limit: 1/hour}
`)
	s.Reload()
	for i, want := range []int{200, 429} {
		if got := gatewayStatus(t, s, "GET", "/", "203.0.113.9", "X-Key", "k"); got != want {
			t.Errorf("after the reload, request %d got %d, want %d", i+1, got, want)
		}
	}
	if got := gatewayStatus(t, s, "POST", "/login", "203.0.113.7"); got != 200 {
		t.Errorf("after the reload, a login got %d", got)
	}
}

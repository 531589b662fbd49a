package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestMain lets the test binary be its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "worker" {
		exit(runWorker(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// short is as little as there is to measure.
var short = settings{rounds: 1, http: 40 * time.Millisecond, open: 20 * time.Millisecond, paired: 1}

// lines returns the first cells of the rows of all tables in text.
func lines(text string) (first []string) {
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			first = append(first, strings.TrimSpace(cells[1]))
		}
	}
	return first
}

func TestGatewayIsMeasured(t *testing.T) {
	t.Parallel()
	servertest.Binary(t, "wrk")
	text, err := compareGateway(t.Context(), short)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(lines(text), "\n")
	for _, p := range proxies {
		if strings.Count(got, p.name) != 1 {
			t.Errorf("%q is not in the table:\n%s", p.name, text)
		}
	}
	for _, row := range []string{"in turns, due", "in turns, sent", "to both at once, due", "to both at once, sent"} {
		if strings.Count(got, row) != 1 {
			t.Errorf("%q is not in the table:\n%s", row, text)
		}
	}
	if !strings.Contains(text, "≤ 1.15, ") || !strings.Contains(text, "≤ 60, ") {
		t.Errorf("no aims:\n%s", text)
	}
}

func TestMiddlewareIsMeasured(t *testing.T) {
	t.Parallel()
	// In a shorter round of a busy machine what fills the pools anew is not so little for
	// each operation.
	long := short
	long.http *= 10
	text, err := compareMiddleware(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(lines(text), "\n")
	for _, c := range inbounds() {
		if !strings.Contains(got, c.name) {
			t.Errorf("%q is not in the table:\n%s", c.name, text)
		}
	}
	if !strings.Contains(text, "≤ 1000, ") || !strings.Contains(text, "≤ 2, met") || strings.Count(text, "0, met") < 3 {
		t.Errorf("the aims of allocations are not there, or missed:\n%s", text)
	}
}

// A proxy that does not hand on the answer, or does not limit, is not measured.
func TestProxiesMustForwardAndLimit(t *testing.T) {
	good := httptest.NewServer(http.HandlerFunc(answerUpstream))
	defer good.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer refusing.Close()
	f := func(want string, srv *httptest.Server, limited bool) {
		t.Helper()
		err := sameForwarded(t.Context(), strings.TrimPrefix(srv.URL, "http://"), limited)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f("", good, false)
	f("limited should be true", good, true)
	f("answers 429", refusing, true)
}

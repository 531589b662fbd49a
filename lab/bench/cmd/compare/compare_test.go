package main

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/peer"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/shape"
)

func TestEveryPartHasItsSection(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/reference/generated/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if _, err := report.Replace(string(text), p.name, "figures"); err != nil {
			t.Error(err)
		}
	}
}

func TestChoose(t *testing.T) {
	if got, err := choose("http, memory"); err != nil || len(got) != 2 || got[0].name != "http" || got[1].name != "memory" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := choose(""); err != nil || len(got) != len(parts) {
		t.Errorf("%d parts, %v", len(got), err)
	}
	if _, err := choose("htpp"); err == nil || !strings.Contains(err.Error(), "decisions, rules, observer, http") {
		t.Errorf("error %v, want the names that there are", err)
	}
}

// What is compared must do the same: the servers give one answer.
func TestHandlersAnswerAlike(t *testing.T) {
	for _, h := range handlers {
		handler, done, err := h.make()
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(handler)
		if err := sameAnswer(t.Context(), srv.URL+httpPath); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		srv.Close()
		done()
	}
}

func TestParseWrk(t *testing.T) {
	const clean = `Running 1s test @ http://127.0.0.1:1/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   712.37us    1.06ms  21.51ms   93.14%
    Req/Sec    56.74k     3.15k   60.61k    70.00%
  56434 requests in 1.00s, 7.43MB read
Requests/sec:  56399.21
Transfer/sec:      7.42MB
`
	if rate, n, err := parseWrk(clean); err != nil || rate != 56399.21 || n != 56434 {
		t.Errorf("%g a second, %g requests, %v", rate, n, err)
	}
	for _, bad := range []string{"", "  Non-2xx or 3xx responses: 7\n" + clean, "  Socket errors: connect 0, read 3\n" + clean} {
		if _, _, err := parseWrk(bad); err == nil {
			t.Errorf("took %q for a clean run", bad)
		}
	}
}

// fixed returns results in which every round of limiter i took cpu[i].
func fixed(subjects []peer.Subject, cpu []float64) [][]samples {
	results := make([][]samples, len(subjects))
	for i := range subjects {
		for range shape.All {
			results[i] = append(results[i], samples{{CPU: cpu[i], Ops: 1000}, {CPU: cpu[i], Ops: 1000}})
		}
	}
	return results
}

func TestRatioIsToTheBestOther(t *testing.T) {
	subjects := peer.All()
	results := fixed(subjects, []float64{45, 30, 200, 90, 300, 400, 500})
	for i, want := range []float64{45. / 90, 30. / 90} {
		if r := ratioToBest(subjects, results, i, 0); r != (measure.Spread{Median: want, Min: want, Max: want}) {
			t.Errorf("ratio %v, want %v throughout", r, want)
		}
	}
}

func TestRefusalsAreNotMeasured(t *testing.T) {
	subjects := peer.All()
	results := fixed(subjects, []float64{1, 1, 1, 1, 1, 1, 1})
	if err := checkRefusals(subjects, results); err != nil {
		t.Error(err)
	}
	for i, p := range peer.Own {
		results[i][2][1].Refused = 1
		if err := checkRefusals(subjects, results); err == nil || !strings.Contains(err.Error(), p.Name+", Zipf") {
			t.Errorf("one refusal of %s: %v", p.Name, err)
		}
		results[i][2][1].Refused = 0
	}
	results[3][0][0].Refused = 500
	if err := checkRefusals(subjects, results); err == nil || !strings.Contains(err.Error(), subjects[3].Name) {
		t.Errorf("a quarter refused by another: %v", err)
	}
}

func TestEveryNameOpens(t *testing.T) {
	var names []string
	for _, k := range ours.Kinds {
		names = append(names, k.Name)
	}
	for _, p := range peer.Others {
		names = append(names, p.Name)
	}
	for _, name := range names {
		allow, done, err := openHold(name)
		if err != nil {
			t.Fatal(err)
		}
		if !allow("one") {
			t.Errorf("%s: the first request was refused", name)
		}
		done()
	}
	if _, _, err := openHold("nobody"); err == nil {
		t.Error("a name that there is not was opened")
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

const (
	// aimHTTP is the least share of the empty handler's requests a second.
	aimHTTP = 0.8
	// connections that wrk keeps open.
	connections = 32
	httpPath    = "/shouldAllowRequest"
	httpBody    = `{"clientId":"%d","timestamp":"2023-07-13T07:20:50.52Z"}`
	httpAnswer  = `{"allowed":true}`
)

// handlers are the servers that are compared, each in a process of its own.
var handlers = []struct {
	name string
	make func() (http.Handler, func(), error)
}{
	{"weir", weirHandler},
	{"weir without rules: decodes, decides nothing", openHandler},
	{"empty handler, reads the body and decodes nothing", func() (http.Handler, func(), error) {
		return emptyHandler(nil), func() {}, nil
	}},
	{"empty handler, decodes with encoding/json", func() (http.Handler, func(), error) {
		return emptyHandler(decodeJSON), func() {}, nil
	}},
}

// compareHTTP drives every handler with wrk in turn.
func compareHTTP(ctx context.Context, s settings) (string, error) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return "Not measured: wrk is not installed (Debian: `apt-get install wrk`).\n", nil
	}
	script, remove, err := writeScript()
	if err != nil {
		return "", err
	}
	defer remove()
	workers := make([]*worker.Worker, len(handlers))
	urls := make([]string, len(handlers))
	for i := range handlers {
		w, err := worker.Start(ctx, "worker", "http", strconv.Itoa(i))
		if err != nil {
			return "", err
		}
		defer w.Close()
		var at serving
		if err := w.Ask(struct{}{}, &at); err != nil {
			return "", err
		}
		workers[i], urls[i] = w, "http://"+at.Address+httpPath
		if err := sameAnswer(ctx, urls[i]); err != nil {
			return "", fmt.Errorf("%s: %w", handlers[i].name, err)
		}
	}
	progress("http: %d handlers, %d rounds of %s", len(handlers), s.rounds, s.http)
	rates, costs := make([][]float64, len(handlers)), make([][]float64, len(handlers))
	for round := range s.rounds {
		for turn := range handlers {
			i := (turn + round) % len(handlers)
			cpu := func() (time.Duration, error) {
				var at serving
				err := workers[i].Ask(struct{}{}, &at)
				return at.CPU, err
			}
			rate, cost, err := drive(ctx, wrk, []string{"-s", script, urls[i]}, s.http, cpu)
			if err != nil {
				return "", fmt.Errorf("%s: %w", handlers[i].name, err)
			}
			rates[i], costs[i] = append(rates[i], rate), append(costs[i], cost)
		}
	}
	return httpTable(s, rates, costs), nil
}

func httpTable(s settings, rates, costs [][]float64) string {
	table := report.NewTable("handler", "requests a second", "server CPU, µs a request", "weir reaches", "aim")
	for i, h := range handlers {
		reaches, aim := "", ""
		if i > 0 {
			ratios := make([]float64, len(rates[i]))
			for round := range ratios {
				ratios[round] = rates[0][round] / rates[i][round]
			}
			r := measure.SpreadOf(ratios)
			word := "met"
			if r.Median < aimHTTP {
				word = "missed"
			}
			reaches, aim = r.String(), fmt.Sprintf("≥ %.1f, %s", aimHTTP, word)
		}
		table.Row(h.name, measure.SpreadOf(rates[i]).String(), measure.SpreadOf(costs[i]).String(), reaches, aim)
	}
	return fmt.Sprintf("`POST %s` over %d kept connections of wrk on the same machine, every request allowed, the same answer from all. Median (smallest–largest) of %d rounds of %s. The empty handlers stand for what any HTTP server in Go must pay; the one that decodes nothing does less than the API's own decoder asks, so its ratio is the strictest.\n\n%s",
		httpPath, connections, s.rounds, s.http, table)
}

// serving tells where a worker serves, and the processor time it has used.
type serving struct {
	Address string
	CPU     time.Duration
}

// drive runs wrk for a round and returns requests a second and microseconds of
// the server's processor time for each. cpu tells how much it has used.
func drive(ctx context.Context, wrk string, args []string, round time.Duration, cpu func() (time.Duration, error)) (rate, cost float64, err error) {
	before, err := cpu()
	if err != nil {
		return 0, 0, err
	}
	seconds := max(int(round.Seconds()), 1)
	all := append([]string{"-t1", "-c" + strconv.Itoa(connections), fmt.Sprintf("-d%ds", seconds)}, args...)
	out, err := exec.CommandContext(ctx, wrk, all...).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("wrk: %w: %s", err, out)
	}
	after, err := cpu()
	if err != nil {
		return 0, 0, err
	}
	rate, requests, err := parseWrk(string(out))
	return rate, float64(after-before) / 1e3 / requests, err
}

var (
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec: +([0-9.]+)`)
	wrkRequests = regexp.MustCompile(`(?m)^ +([0-9]+) requests in`)
)

// parseWrk reads what wrk prints, and refuses a run with errors in it.
func parseWrk(out string) (rate, requests float64, err error) {
	r, n := wrkRate.FindStringSubmatch(out), wrkRequests.FindStringSubmatch(out)
	if r == nil || n == nil || strings.Contains(out, "Socket errors") || strings.Contains(out, "Non-2xx") {
		return 0, 0, fmt.Errorf("wrk did not run clean: %s", out)
	}
	if rate, err = strconv.ParseFloat(r[1], 64); err != nil {
		return 0, 0, err
	}
	requests, err = strconv.ParseFloat(n[1], 64)
	return rate, requests, err
}

// writeScript writes the requests that wrk is to send: 1,024 clients in turn.
func writeScript() (file string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	text := fmt.Sprintf(`local all, at = {}, 0
function init(args)
  wrk.headers["Content-Type"] = "application/json"
  for i = 1, 1024 do
    all[i] = wrk.format("POST", nil, nil, string.format('%s', i))
  end
end
function request()
  at = at %% 1024 + 1
  return all[at]
end
`, httpBody)
	file = filepath.Join(dir, "requests.lua")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		remove()
		return "", nil, err
	}
	return file, remove, nil
}

// sameAnswer fails unless url answers as every handler must.
func sameAnswer(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(fmt.Sprintf(httpBody, 1)))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != 200 || string(body) != httpAnswer || res.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("answers %d %q of type %q, want 200 %q of type application/json",
			res.StatusCode, body, res.Header.Get("Content-Type"), httpAnswer)
	}
	return nil
}

// serveHTTP is the worker: it serves one handler on a free loopback port.
func serveHTTP(index int) error {
	if index < 0 || index >= len(handlers) {
		return fmt.Errorf("no handler %d", index)
	}
	h, done, err := handlers[index].make()
	if err != nil {
		return err
	}
	defer done()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	err = worker.Serve(func(struct{}) (serving, error) {
		return serving{Address: ln.Addr().String(), CPU: measure.CPU()}, nil
	})
	srv.Close()
	<-served
	return err
}

// apiRules limit every client so that no measurement is refused.
const apiRules = `domain: api
descriptors:
  - key: client_id
    limit: 1000/second
    burst: 1000000000
    algorithm: token_bucket
`

// weirHandler is the API as it is served.
func weirHandler() (http.Handler, func(), error) { return apiHandler(apiRules) }

// openHandler is the API with no limit that a request meets.
func openHandler() (http.Handler, func(), error) {
	return apiHandler("domain: api\ndescriptors: []\n")
}

func apiHandler(text string) (http.Handler, func(), error) {
	set, err := rules.Parse("bench", []byte(text), rules.Options{})
	if err != nil {
		return nil, nil, err
	}
	limiter, done, err := ours.Open(set, memory.Options{})
	if err != nil {
		return nil, nil, err
	}
	api, err := httpapi.New(httpapi.Options{Limiter: limiter})
	if err != nil {
		done()
		return nil, nil, err
	}
	return api, done, nil
}

// emptyHandler reads the body, has decode look at it, and allows.
func emptyHandler(decode func(body []byte) error) http.Handler {
	bodies := sync.Pool{New: func() any { return new([4096]byte) }}
	kind, length := []string{"application/json"}, []string{strconv.Itoa(len(httpAnswer))}
	answer := []byte(httpAnswer)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf := bodies.Get().(*[4096]byte)
		defer bodies.Put(buf)
		n, err := io.ReadFull(r.Body, buf[:])
		if err != io.ErrUnexpectedEOF && err != io.EOF {
			http.Error(w, "the body is too long or did not arrive", http.StatusBadRequest)
			return
		}
		if decode != nil {
			if err := decode(buf[:n]); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		h := w.Header()
		h["Content-Type"], h["Content-Length"] = kind, length
		// An error here means that the client has gone.
		_, _ = w.Write(answer)
	})
}

func decodeJSON(body []byte) error {
	var q struct {
		ClientID  string    `json:"clientId"`
		Timestamp time.Time `json:"timestamp"`
	}
	return json.Unmarshal(body, &q)
}

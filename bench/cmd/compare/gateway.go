package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/load"
	"github.com/weirlimit/weir/bench/measure"
	"github.com/weirlimit/weir/bench/report"
	"github.com/weirlimit/weir/bench/worker"
)

const (
	// aimGatewayCPU is the most processor time of a request, as a multiple of the
	// bare proxy's.
	aimGatewayCPU = 1.15
	// aimGatewayP99 is the most that may be added to the bare proxy's p99.
	aimGatewayP99 = 60 * time.Microsecond
	// gatewayPath is what is asked for.
	gatewayPath = "/items/17?page=2"
	// openConnections that the open loop keeps: more than are ever busy at half
	// of what the proxy can do, unless it stalls.
	openConnections = 64
)

// gatewayFields are sent with every request.
var gatewayFields = []string{"User-Agent: bench/1", "Accept: application/json", "Accept-Language: en", "Authorization: Bearer 0123456789abcdef"}

// proxies are what is compared, the bare one first.
var proxies = []struct {
	name    string
	limited bool
	start   func(ctx context.Context, dir, upstream string) (*proxy, error)
}{
	{"bare httputil.ReverseProxy", false, workerProxy(0)},
	{"frontend/gateway in a plain http.Server", true, workerProxy(1)},
	{"weir serve", true, weirProxy},
}

// weirServe is the index of what the aims are about.
const weirServe = 2

// proxy is one that runs, in a process of its own.
type proxy struct {
	address string
	pid     int
	close   func() error
}

// compareGateway drives every proxy in turn: with wrk, for processor time, then
// at half of what the bare one can do, for latency.
func compareGateway(ctx context.Context, s settings) (string, error) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return "Not measured: wrk is not installed (Debian: `apt-get install wrk`).\n", nil
	}
	if runtime.GOOS != "linux" {
		return "Not measured: the processor time of other processes is read from the /proc of Linux.\n", nil
	}
	running, done, err := startProxies(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	progress("gateway: %d proxies, %d rounds of %s and of %s", len(running), s.rounds, s.http, s.open)
	rates, costs, err := saturate(ctx, s, wrk, running)
	if err != nil {
		return "", err
	}
	rate := measure.SpreadOf(rates[0]).Median / 2
	seen, err := waitOpenly(ctx, s, rate, running)
	if err != nil {
		return "", err
	}
	return gatewayTables(s, rates, costs, rate, seen), nil
}

// startProxies starts an upstream and every proxy in front of it, and sees that
// all give one answer.
func startProxies(ctx context.Context) (all []*proxy, done func(), err error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, nil, err
	}
	var closers []func()
	done = func() {
		for _, c := range closers {
			c()
		}
		os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	w, err := worker.Start(ctx, "worker", "upstream")
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, func() { w.Close() })
	var upstream serving
	if err = w.Ask(proxying{}, &upstream); err != nil {
		return nil, nil, err
	}
	for _, kind := range proxies {
		p, err := kind.start(ctx, dir, upstream.Address)
		if err != nil {
			return nil, done, fmt.Errorf("%s: %w", kind.name, err)
		}
		closers = append(closers, func() { p.close() })
		if err := sameForwarded(ctx, p.address, kind.limited); err != nil {
			return nil, done, fmt.Errorf("%s: %w", kind.name, err)
		}
		all = append(all, p)
	}
	return all, done, nil
}

// saturate returns, of every proxy and round, requests a second and
// microseconds of the proxy's processor time for each.
func saturate(ctx context.Context, s settings, wrk string, running []*proxy) (rates, costs [][]float64, err error) {
	rates, costs = make([][]float64, len(running)), make([][]float64, len(running))
	var args []string
	for _, f := range gatewayFields {
		args = append(args, "-H", f)
	}
	for round := range s.rounds {
		for turn := range running {
			i := (turn + round) % len(running)
			cpu := func() (time.Duration, error) { return measure.ProcessCPU(running[i].pid) }
			rate, cost, err := drive(ctx, wrk, append(args, "http://"+running[i].address+gatewayPath), s.http, cpu)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", proxies[i].name, err)
			}
			rates[i], costs[i] = append(rates[i], rate), append(costs[i], cost)
		}
	}
	return rates, costs, nil
}

// opening asks the worker that runs the open loop for one round.
type opening struct {
	Address   string
	Rate      float64
	Warm, For time.Duration
}

// opened is what it has seen.
type opened struct {
	P50, P99, Late99 time.Duration
	Requests         int
}

// waitOpenly returns the latencies of every proxy and round at a rate.
func waitOpenly(ctx context.Context, s settings, rate float64, running []*proxy) ([][]opened, error) {
	w, err := worker.Start(ctx, "worker", "open")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	seen := make([][]opened, len(running))
	for round := range s.rounds {
		for turn := range running {
			i := (turn + round) % len(running)
			var o opened
			if err := w.Ask(opening{running[i].address, rate, s.open / 5, s.open}, &o); err != nil {
				return nil, fmt.Errorf("%s: %w", proxies[i].name, err)
			}
			seen[i] = append(seen[i], o)
		}
	}
	return seen, w.Close()
}

// serveOpen is the worker.
func serveOpen() error {
	// The thread that paces holds on to its processor for a while after it fell
	// asleep: the readers have others.
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 4))
	return worker.Serve(func(q opening) (opened, error) {
		request := "GET " + gatewayPath + " HTTP/1.1\r\nHost: " + q.Address + "\r\n" + strings.Join(gatewayFields, "\r\n") + "\r\n\r\n"
		seen, err := load.Open{
			Address: q.Address, Request: []byte(request), Rate: q.Rate, Warm: q.Warm, For: q.For, Connections: openConnections,
		}.Run(context.Background())
		if err != nil {
			return opened{}, err
		}
		return opened{
			P50: seen.Latency.Quantile(0.5), P99: seen.Latency.Quantile(0.99), Late99: seen.Late.Quantile(0.99),
			Requests: seen.Requests,
		}, nil
	})
}

// gatewayTables writes both tables. Ratios and differences are to the bare
// proxy's in the same round.
func gatewayTables(s settings, rates, costs [][]float64, rate float64, seen [][]opened) string {
	cpu := report.NewTable("proxy", "requests a second", "CPU, µs a request", "of the bare one's", "aim")
	wait := report.NewTable("proxy", "p50, µs", "p99, µs", "added to p50, µs", "added to p99, µs", "aim")
	micros := func(d time.Duration) float64 { return float64(d) / 1e3 }
	overRounds := func(figure func(round int) float64) measure.Spread {
		samples := make([]float64, s.rounds)
		for round := range samples {
			samples[round] = figure(round)
		}
		return measure.SpreadOf(samples)
	}
	var late []float64
	for i := range proxies {
		for _, o := range seen[i] {
			late = append(late, micros(o.Late99))
		}
	}
	sent := measure.SpreadOf(late)
	for i, p := range proxies {
		p50 := func(r int) float64 { return micros(seen[i][r].P50) }
		p99 := func(r int) float64 { return micros(seen[i][r].P99) }
		cpuRow := []string{p.name, measure.SpreadOf(rates[i]).String(), measure.SpreadOf(costs[i]).String()}
		waitRow := []string{p.name, overRounds(p50).String(), overRounds(p99).String()}
		if i > 0 {
			ratio := overRounds(func(r int) float64 { return costs[i][r] / costs[0][r] })
			more50 := overRounds(func(r int) float64 { return p50(r) - micros(seen[0][r].P50) })
			more99 := overRounds(func(r int) float64 { return p99(r) - micros(seen[0][r].P99) })
			cpuRow = append(cpuRow, ratio.String())
			waitRow = append(waitRow, more50.String(), more99.String())
			if i == weirServe {
				cpuRow = append(cpuRow, atMost(ratio.Median, aimGatewayCPU, "%.2f"))
				aim := atMost(more99.Median, micros(aimGatewayP99), "%.0f")
				if sent.Median > micros(aimGatewayP99) {
					// Requests waited before they were sent: the machine had no
					// processor to spare, or a proxy could not keep up.
					aim = fmt.Sprintf("≤ %.0f, not decided: the requests left too late", micros(aimGatewayP99))
				}
				waitRow = append(waitRow, aim)
			}
		}
		cpu.Row(cpuRow...)
		wait.Row(waitRow...)
	}
	return fmt.Sprintf("`GET %s` through a reverse proxy to a Go handler that answers 1 KiB, all on this machine, in processes of their own; every request forwarded, every answer 200. The bare proxy has the same transport, buffers and server settings as Weir, and no limits. `weir serve --limit \"%s\" --upstream URL` is the program as it is installed; the gateway alone shows what the server around it costs. Median (smallest–largest) of %d rounds.\n\nProcessor time of the proxy's process, over %d kept connections of wrk, rounds of %s:\n\n%s\nLatency at %.0f requests a second, half of what the bare proxy reaches above, in an open loop: from when a request was due to the end of its answer. Rounds of %s over %d connections; the generator sent 99 %% of the requests within %s µs of when they were due.\n\n%s",
		gatewayPath, gatewayLimit, s.rounds, connections, s.http, cpu, rate, s.open, openConnections, sent, wait)
}

// atMost writes an aim and whether it is met.
func atMost(figure, aim float64, format string) string {
	word := "met"
	if figure > aim {
		word = "missed"
	}
	return fmt.Sprintf("≤ "+format+", %s", aim, word)
}

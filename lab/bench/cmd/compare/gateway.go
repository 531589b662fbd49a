package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
)

const (
	// aimGatewayCPU is the most processor time of a request, as a multiple of the
	// bare proxy's.
	aimGatewayCPU = 1.15
	// aimGatewayP99 is the most that may be added to the bare proxy's p99, in
	// microseconds.
	aimGatewayP99 = 60
	// gatewayPath is what is asked for.
	gatewayPath = "/items/17?page=2"
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
	{"internal/frontend/gateway in a plain http.Server", true, workerProxy(1)},
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
// at half of what the machine can bear, for latency.
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
	progress("gateway: %d proxies, %d rounds of %s", len(running), s.rounds, s.http)
	rates, costs, err := saturate(ctx, s, wrk, running)
	if err != nil {
		return "", err
	}
	seen, err := waitPaired(ctx, s, measure.SpreadOf(rates[0]).Median, running[0].address, running[weirServe].address)
	if err != nil {
		return "", err
	}
	return costTable(s, rates, costs) + "\n" + seen.table(s), nil
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

// costTable writes what wrk has seen. Ratios are to the bare proxy in the same
// round.
func costTable(s settings, rates, costs [][]float64) string {
	cpu := report.NewTable("proxy", "requests a second", "CPU, µs a request", "of the bare one's", "aim")
	for i, p := range proxies {
		row := []string{p.name, measure.SpreadOf(rates[i]).String(), measure.SpreadOf(costs[i]).String()}
		if i > 0 {
			ratios := make([]float64, len(costs[i]))
			for round := range ratios {
				ratios[round] = costs[i][round] / costs[0][round]
			}
			ratio := measure.SpreadOf(ratios)
			row = append(row, ratio.String())
			if i == weirServe {
				row = append(row, atMost(ratio.Median, aimGatewayCPU, "%.2f"))
			}
		}
		cpu.Row(row...)
	}
	return fmt.Sprintf("`GET %s` through a reverse proxy to a Go handler that answers 1 KiB, all on this machine, in processes of their own; every request forwarded, every answer 200. The bare proxy has the same transport, buffers and server settings as Weir, and no limits. `weir serve --limit \"%s\" --upstream URL` is the program as it is installed; the gateway alone shows what the server around it costs.\n\nProcessor time of the proxy's process, over %d kept connections of wrk, %d rounds of %s, median (smallest–largest):\n\n%s",
		gatewayPath, gatewayLimit, connections, s.rounds, s.http, cpu)
}

// atMost writes an aim and whether it is met.
func atMost(figure, aim float64, format string) string {
	word := "met"
	if figure > aim {
		word = "missed"
	}
	return fmt.Sprintf("≤ "+format+", %s", aim, word)
}

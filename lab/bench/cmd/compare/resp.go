package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/throttle"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// Aims of the part "resp", in a pipeline of 64: so many decisions a second, or this
// share of what the client reaches with the stub.
const (
	aimThrottle     = 1_150_000
	aimThrottleStub = 0.9
)

// pipelines that redis-benchmark sends.
var pipelines = []int{1, 64}

// throttling is what a worker tells: where it serves, the processor time it has
// used and the allocations it has made.
type throttling struct {
	Address string
	CPU     time.Duration
	Mallocs uint64
}

// throttleRound is a round of one subject in one pipeline.
type throttleRound struct {
	throttle.Round
	cost, mallocs float64 // microseconds of the server and allocations, per command
}

// compareRESP drives every subject with redis-benchmark in turn.
func compareRESP(ctx context.Context, s settings) (string, error) {
	workers := make([]*worker.Worker, len(throttle.Subjects))
	for i := range workers {
		w, err := worker.Start(ctx, "worker", "resp", strconv.Itoa(i))
		if err != nil {
			return "", err
		}
		defer w.Close()
		workers[i] = w
	}
	rounds := make([][][]throttleRound, len(pipelines))
	for p, pipeline := range pipelines {
		progress("resp: %d subjects, pipeline of %d, %d rounds of %s", len(workers), pipeline, s.rounds, s.http)
		rounds[p] = make([][]throttleRound, len(workers))
		commands := make([]int, len(workers))
		for i := range workers {
			n, err := throttleCalibrate(ctx, workers[i], pipeline, s.http)
			if errors.Is(err, throttle.ErrNoClient) {
				return "Not measured: redis-benchmark is not installed (Debian: `apt-get install redis-tools`).\n", nil
			}
			if err != nil {
				return "", err
			}
			commands[i] = n
		}
		for round := range s.rounds {
			for turn := range workers {
				i := (turn + round) % len(workers)
				r, err := throttleOnce(ctx, workers[i], commands[i], pipeline)
				if err != nil {
					return "", fmt.Errorf("%s: %w", throttle.Subjects[i].Name, err)
				}
				rounds[p][i] = append(rounds[p][i], r)
			}
		}
	}
	return fmt.Sprintf("`%s` from redis-benchmark on the same machine over %d connections, 100,000 keys, every call allowed; the stub answers the same bytes. The client uses one processor of its own: with two, it and the server share what there is. Median (smallest–largest) of %d rounds of about %s.\n\n%s",
		strings.Join(throttle.Words, " "), throttle.Clients, s.rounds, s.http, throttleTable(rounds)), nil
}

// throttleCalibrate returns how many commands fill a round. redis-benchmark looks
// at its clock four times a second: what ends sooner is not measured.
func throttleCalibrate(ctx context.Context, w *worker.Worker, pipeline int, round time.Duration) (int, error) {
	for n := 2000 * pipeline; ; n *= 4 {
		r, err := throttleOnce(ctx, w, n, pipeline)
		if err != nil {
			return 0, err
		}
		if float64(n)/r.Rate >= round.Seconds()/2 {
			return max(int(r.Rate*round.Seconds()), 1), nil
		}
	}
}

// throttleOnce measures one round.
func throttleOnce(ctx context.Context, w *worker.Worker, commands, pipeline int) (throttleRound, error) {
	var before, after throttling
	if err := w.Ask(struct{}{}, &before); err != nil {
		return throttleRound{}, err
	}
	r, err := throttle.Drive(ctx, before.Address, commands, pipeline)
	if err != nil {
		return throttleRound{}, err
	}
	if err := w.Ask(struct{}{}, &after); err != nil {
		return throttleRound{}, err
	}
	n := float64(commands)
	return throttleRound{r, float64(after.CPU-before.CPU) / 1e3 / n, float64(after.Mallocs-before.Mallocs) / n}, nil
}

func throttleTable(rounds [][][]throttleRound) *report.Table {
	table := report.NewTable("pipeline", "server", "thousand decisions/s", "p50, ms", "p99, ms", "server CPU, µs", "allocations", "weir reaches", "aim")
	for p, subjects := range rounds {
		for i, all := range subjects {
			figure := func(of func(throttleRound) float64) measure.Spread {
				values := make([]float64, len(all))
				for j, r := range all {
					values[j] = of(r)
				}
				return measure.SpreadOf(values)
			}
			reaches, aim := "", ""
			rate := figure(func(r throttleRound) float64 { return r.Rate })
			if i > 0 {
				ratios := make([]float64, len(all))
				for j := range all {
					ratios[j] = subjects[0][j].Rate / all[j].Rate
				}
				r, weir := measure.SpreadOf(ratios), measure.SpreadOf(ratesOf(subjects[0]))
				reaches = r.String()
				if pipelines[p] == 64 {
					aim = fmt.Sprintf("≥ %d thousand, or ≥ %.1f: %s", aimThrottle/1000, aimThrottleStub, metOr(weir.Median >= aimThrottle || r.Median >= aimThrottleStub))
				}
			}
			table.Row(strconv.Itoa(pipelines[p]), throttle.Subjects[i].Name,
				measure.Spread{Median: rate.Median / 1000, Min: rate.Min / 1000, Max: rate.Max / 1000}.String(),
				figure(func(r throttleRound) float64 { return r.P50 }).String(), figure(func(r throttleRound) float64 { return r.P99 }).String(),
				figure(func(r throttleRound) float64 { return r.cost }).String(),
				fmt.Sprintf("%.4f", figure(func(r throttleRound) float64 { return r.mallocs }).Median), reaches, aim)
		}
	}
	return table
}

func ratesOf(all []throttleRound) []float64 {
	rates := make([]float64, len(all))
	for i, r := range all {
		rates[i] = r.Rate
	}
	return rates
}

// serveRESP is the worker: it serves one subject on a free loopback port.
func serveRESP(index int) error {
	if index < 0 || index >= len(throttle.Subjects) {
		return fmt.Errorf("no server %d", index)
	}
	serve, done, err := throttle.Subjects[index].Open()
	if err != nil {
		return err
	}
	defer done()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	err = worker.Serve(func(struct{}) (throttling, error) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return throttling{Address: ln.Addr().String(), CPU: measure.CPU(), Mallocs: m.Mallocs}, nil
	})
	stop()
	return errors.Join(err, <-served)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/remote"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// Aims of the part "redis".
const (
	aimRedisRate = 2     // times the best other's decisions a second, at least
	aimRedisCPU  = 0.5   // of the best other's processor time, at most
	aimRedis     = 7     // of the server's processor time, ms per 1,000 decisions, at most
	aimSecond    = 1.5   // two limits against one, at most
	aimRefused   = 1.5   // against the embedded store, at most
	aimNoCall    = 0.001 // commands per refusal of a hot key: one a second is to be made
	aimSaved     = 100   // calls saved for each that is made, at least
	aimWarmP99   = 2     // against the embedded store, at most
)

// What workers are asked for that is no subject.
const (
	askFleet   = "fleet"
	askWeights = "weights"
)

// redisOrder asks a worker for one round of about so many decisions.
type redisOrder struct{ Ops int64 }

// redisResults are the rounds of each subject, by name.
type redisResults map[string][]remote.Round

func (r redisResults) spread(name string, figure func(remote.Round) float64) measure.Spread {
	values := make([]float64, len(r[name]))
	for i, round := range r[name] {
		values[i] = figure(round)
	}
	return measure.SpreadOf(values)
}

// ratio is that of a figure of one subject to that of another, round by round.
func (r redisResults) ratio(name, to string, figure func(remote.Round) float64) measure.Spread {
	values := make([]float64, min(len(r[name]), len(r[to])))
	for i := range values {
		values[i] = figure(r[name][i]) / figure(r[to][i])
	}
	return measure.SpreadOf(values)
}

// best returns the other limiter with the largest or the smallest median.
func (r redisResults) best(figure func(remote.Round) float64, largest bool) string {
	a, b := r.spread(remote.Rate, figure).Median, r.spread(remote.Throttled, figure).Median
	if (a > b) == largest {
		return remote.Rate
	}
	return remote.Throttled
}

var (
	rateOf     = func(r remote.Round) float64 { return r.Rate / 1000 }
	clientOf   = func(r remote.Round) float64 { return r.Client / 1000 }
	serverOf   = func(r remote.Round) float64 { return r.Server / 1000 }
	bothOf     = func(r remote.Round) float64 { return r.Both() / 1000 }
	commandsOf = func(r remote.Round) float64 { return r.Commands }
	p99Of      = func(r remote.Round) float64 { return float64(r.P99) / 1000 }
)

// compareRedis measures limiters on a redis-server that it starts.
func compareRedis(ctx context.Context, s settings) (text string, err error) {
	server, err := remote.Start(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	results, err := redisRounds(ctx, s, server.Addr)
	if err != nil {
		return "", err
	}
	fleets, weights, err := redisOnce(ctx, s, server.Addr)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("One redis-server and its clients on the same processors, over TCP on loopback; %d requests under way at once on %s keys, a token bucket that nothing exhausts. Client: processor time of the process that asks, Redis: what `INFO` says of the server's; commands: those that scripts run too. Median (smallest–largest) of %d rounds of %s, in turn.\n\n%s\n%s\n%s\n%s",
		remote.InFlight, count(s.remote), s.rounds, 2*s.round, redisTable(results), redisMore(results), fleetTable(fleets), weightTable(weights)), nil
}

// redisRounds measures every subject, each in a worker and a database of its own,
// in turns.
func redisRounds(ctx context.Context, s settings, addr string) (redisResults, error) {
	workers := make([]*worker.Worker, len(remote.Subjects))
	defer func() {
		for _, w := range workers {
			if w != nil {
				w.Close()
			}
		}
	}()
	ops := make([]int64, len(workers))
	for i, subject := range remote.Subjects {
		progress("redis: %s", subject.Name)
		w, err := worker.Start(ctx, "worker", "redis", subject.Name, addr, strconv.Itoa(s.remote), strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		workers[i] = w
		if ops[i], err = redisCalibrate(w, 2*s.round); err != nil {
			return nil, err
		}
	}
	results := redisResults{}
	for round := range s.rounds {
		for turn := range workers {
			i := (turn + round) % len(workers)
			var r remote.Round
			if err := workers[i].Ask(redisOrder{ops[i]}, &r); err != nil {
				return nil, err
			}
			name := remote.Subjects[i].Name
			// Others than Weir are allowed the errors that they give under contention.
			if allowed := r.Ops / 5; r.Wrong > allowed || r.Wrong > 0 && name != remote.Rate && name != remote.Throttled {
				return nil, fmt.Errorf("%s: %d of %d decisions were not as they must be", name, r.Wrong, r.Ops)
			}
			results[name] = append(results[name], r)
		}
	}
	return results, nil
}

// redisCalibrate returns how many decisions fill a round.
func redisCalibrate(w *worker.Worker, round time.Duration) (int64, error) {
	for n := int64(2000); ; n *= 4 {
		var r remote.Round
		if err := w.Ask(redisOrder{n}, &r); err != nil {
			return 0, err
		}
		if took := time.Duration(float64(r.Ops) / r.Rate * float64(time.Second)); took >= round/4 || n > 1<<32 {
			return max(int64(r.Rate*round.Seconds()), 1), nil
		}
	}
}

// redisOnce asks for what is counted and not timed.
func redisOnce(ctx context.Context, s settings, addr string) ([]remote.Fleet, []int64, error) {
	w, err := worker.Start(ctx, "worker", "redis", askFleet, addr, "0", "0")
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	fleets := make([]remote.Fleet, s.rounds)
	for i := range fleets {
		if err := w.Ask(redisOrder{int64(i)}, &fleets[i]); err != nil {
			return nil, nil, err
		}
	}
	other, err := worker.Start(ctx, "worker", "redis", askWeights, addr, "0", "0")
	if err != nil {
		return nil, nil, err
	}
	defer other.Close()
	var weights []int64
	return fleets, weights, other.Ask(redisOrder{}, &weights)
}

func metOr(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

func redisTable(r redisResults) *report.Table {
	table := report.NewTable("limiter", "thousand decisions/s", "client, ms/1000", "Redis, ms/1000", "both, ms/1000", "commands", "errors")
	for _, name := range []string{remote.Ours, remote.Rate, remote.Throttled} {
		wrong := int64(0)
		for _, round := range r[name] {
			wrong += round.Wrong
		}
		table.Row(name, r.spread(name, rateOf).String(), r.spread(name, clientOf).String(), r.spread(name, serverOf).String(),
			r.spread(name, bothOf).String(), fmt.Sprintf("%.2f", r.spread(name, commandsOf).Median), strconv.FormatInt(wrong, 10))
	}
	rate := r.ratio(remote.Ours, r.best(rateOf, true), rateOf)
	both := r.ratio(remote.Ours, r.best(bothOf, false), bothOf)
	table.Row("**weir / best other**", "**"+rate.String()+"**", "", "", "**"+both.String()+"**")
	table.Row("aim", fmt.Sprintf("≥ %d, %s", aimRedisRate, metOr(rate.Median >= aimRedisRate)), "",
		fmt.Sprintf("≤ %d, %s", aimRedis, metOr(r.spread(remote.Ours, serverOf).Median <= aimRedis)),
		fmt.Sprintf("≤ %.2f, %s", aimRedisCPU, metOr(both.Median <= aimRedisCPU)))
	return table
}

// redisMore compares ways to use Weir with each other.
func redisMore(r redisResults) *report.Table {
	table := report.NewTable("weir", "figure", "against", "ratio", "aim")
	row := func(what, unit, name, to, toName string, figure func(remote.Round) float64, most float64) {
		ratio := r.ratio(name, to, figure)
		table.Row(what, r.spread(name, figure).String()+" "+unit, toName+": "+r.spread(to, figure).String(), ratio.String(),
			fmt.Sprintf("≤ %.2f, %s", most, metOr(ratio.Median <= most)))
	}
	row("two limits in one decision, both", "ms/1000", remote.OursTwo, remote.Ours, "one", bothOf, aimSecond)
	calls := r.spread(remote.RefusedOurs, commandsOf)
	table.Row("a refused hot key, commands of Redis a decision", fmt.Sprintf("%.5f", calls.Median), "", "", "0, "+metOr(calls.Median <= aimNoCall))
	row("a refused hot key, client", "ms/1000", remote.RefusedOurs, remote.RefusedEmbedded, "embedded", clientOf, aimRefused)
	row("leased, 1,000 warm keys, p99", "µs", remote.WarmOurs, remote.WarmEmbedded, "embedded", p99Of, aimWarmP99)
	return table
}

func fleetTable(fleets []remote.Fleet) *report.Table {
	saved := make([]float64, len(fleets))
	for i, f := range fleets {
		saved[i] = f.Saved()
	}
	spread := measure.SpreadOf(saved)
	table := report.NewTable("leased, 4 nodes, a limit of 100,000", "offered", "passed", "calls", "saved for each", "aim")
	last := fleets[len(fleets)-1]
	table.Row("the last round", strconv.FormatInt(last.Offered, 10), strconv.FormatInt(last.Allowed, 10), strconv.FormatInt(last.Calls, 10),
		spread.String(), fmt.Sprintf("≥ %d, %s", aimSaved, metOr(spread.Median >= aimSaved)))
	return table
}

func weightTable(weights []int64) *report.Table {
	table := report.NewTable("a key in Redis", "bytes", "stated")
	for i, k := range remote.Kept {
		table.Row(k.Name, strconv.FormatInt(weights[i], 10), fmt.Sprintf("≤ %d, %s", k.Most, metOr(weights[i] <= k.Most)))
	}
	return table
}

// serveRedis is the worker: one subject, or what is counted.
func serveRedis(name, addr, population string, db int) (err error) {
	keys, err := strconv.Atoi(population)
	if err != nil {
		return fmt.Errorf("worker redis: %w", err)
	}
	switch name {
	case askFleet:
		return worker.Serve(func(o redisOrder) (remote.Fleet, error) { return remote.Lease(addr, db, int(o.Ops)) })
	case askWeights:
		return worker.Serve(func(redisOrder) ([]int64, error) { return remote.Weigh(addr) })
	}
	subject, ok := remote.ByName(name)
	if !ok {
		return fmt.Errorf("no limiter %q", name)
	}
	session, err := remote.Open(subject, addr, db, keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return worker.Serve(func(o redisOrder) (remote.Round, error) { return session.Round(o.Ops) })
}

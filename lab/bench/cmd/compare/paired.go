package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
)

const (
	// openConnections that the open loop keeps to each proxy: more than are ever
	// busy at half of what the proxy can do, unless it stalls.
	openConnections = 64
	// turnPairs in a round, of one turn of each proxy.
	turnPairs = 12
	// turnsShared in a round, by both.
	turnsShared = 4
	// leastRounds are run however narrow the interval is: a bootstrap of fewer
	// than twenty blocks makes it too narrow.
	leastRounds = 2
	// draws of the bootstrap.
	draws = 1000
)

// opening asks the worker that runs the open loop for one round.
type opening struct {
	// Proxies are the addresses of the two.
	Proxies [2]string
	Rate    float64
	Turn    time.Duration
	// Seed of the order in which the proxies are asked.
	Seed uint64
}

// opened is what it has seen: pairs of turns in which one proxy had all
// requests and then the other, and turns in which each had half of them.
type opened struct{ Separate, Paired []openBlock }

// openBlock are the requests of one pair of turns, or of a turn that was
// shared, in microseconds: of the first proxy, and of the second.
type openBlock struct {
	FromDue, FromSent [2][]int32
	Late              []int32
}

// openPlan is which proxy each request of a round goes to, and which turns
// count together.
type openPlan struct {
	order []uint8
	// turns are the numbers of the first request and of the one after the last.
	separate [][2][2]int
	paired   [][2]int
}

// planOpen plans a round. It begins with half a turn that both share, not
// counted; nor is the first tenth of every turn, in which what the turn before
// has left behind is worked off.
func planOpen(perTurn int, seed uint64) openPlan {
	source := rand.New(rand.NewPCG(seed, 0))
	var p openPlan
	share := func(n int) {
		for range n {
			p.order = append(p.order, uint8(source.IntN(2)))
		}
	}
	counted := func() [2]int { return [2]int{len(p.order) - perTurn + perTurn/10, len(p.order)} }
	share(perTurn / 2)
	for range turnPairs {
		var pair [2][2]int
		first := uint8(source.IntN(2))
		for _, to := range []uint8{first, 1 - first} {
			for range perTurn {
				p.order = append(p.order, to)
			}
			pair[to] = counted()
		}
		p.separate = append(p.separate, pair)
	}
	for range turnsShared {
		share(perTurn)
		p.paired = append(p.paired, counted())
	}
	return p
}

// blocks sorts the trips of a round into what counts together.
func (p *openPlan) blocks(trips []load.Trip) (o opened) {
	collect := func(b *openBlock, turn [2]int) {
		for i := turn[0]; i < turn[1]; i++ {
			t, to := trips[i], p.order[i]
			b.FromDue[to] = append(b.FromDue[to], wholeMicros(t.FromDue()))
			b.FromSent[to] = append(b.FromSent[to], wholeMicros(t.FromSent()))
			b.Late = append(b.Late, wholeMicros(t.Late()))
		}
	}
	for _, pair := range p.separate {
		var b openBlock
		collect(&b, pair[0])
		collect(&b, pair[1])
		o.Separate = append(o.Separate, b)
	}
	for _, turn := range p.paired {
		var b openBlock
		collect(&b, turn)
		o.Paired = append(o.Paired, b)
	}
	return o
}

// wholeMicros rounds to microseconds. An answer takes half an hour at most.
func wholeMicros(d time.Duration) int32 { return int32(d.Round(time.Microsecond) / time.Microsecond) }

// serveOpen is the worker.
func serveOpen() error {
	return worker.Serve(func(q opening) (opened, error) {
		o := load.Open{Rate: q.Rate, Connections: openConnections}
		for _, address := range q.Proxies {
			request := "GET " + gatewayPath + " HTTP/1.1\r\nHost: " + address + "\r\n" + strings.Join(gatewayFields, "\r\n") + "\r\n\r\n"
			o.Servers = append(o.Servers, load.Server{Address: address, Request: []byte(request)})
		}
		plan := planOpen(o.Count(q.Turn), q.Seed)
		trips, err := o.Run(context.Background(), plan.order)
		if err != nil {
			return opened{}, err
		}
		return plan.blocks(trips), nil
	})
}

// waits are the latencies of the bare proxy and of Weir, from when requests
// were due and from when they were sent.
type waits struct {
	// tried requests a second kept the machine busy by a part of 1, and so rate ones
	// by half.
	tried, busy, rate float64

	rounds   int
	separate fromBoth
	shared   fromBoth
	late     measure.Paired // once for both
}

type fromBoth struct{ due, sent measure.Paired }

func (f *fromBoth) add(blocks []openBlock) {
	for _, b := range blocks {
		f.due.Add(b.FromDue[0], b.FromDue[1])
		f.sent.Add(b.FromSent[0], b.FromSent[1])
	}
}

// waitPaired measures both proxies while the machine is half busy, in rounds, until
// the interval of what is added to p99 is narrower than the aim. It looks at how
// narrow the interval is and not at where: else it would stop when chance is kind.
// closed is how many requests a second the bare proxy reaches in a closed loop.
func waitPaired(ctx context.Context, s settings, closed float64, bare, weir string) (*waits, error) {
	w, err := worker.Start(ctx, "worker", "open")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	proxies := [2]string{bare, weir}
	seen, err := halfBusy(w, s, closed/4, proxies)
	if err != nil {
		return nil, err
	}
	progress("gateway: open loop, %.0f requests a second keep the machine busy by %.0f %%: measured at %.0f", seen.tried, 100*seen.busy, seen.rate)
	for seen.rounds < s.paired {
		var o opened
		if err := w.Ask(opening{proxies, seen.rate, s.open, uint64(seen.rounds)}, &o); err != nil {
			return nil, err
		}
		seen.add(o)
		added := seen.separate.due.Added(0.99, draws, 1)
		progress("gateway: open loop, round %d of %d at most: %s µs added to p99", seen.rounds, s.paired, added)
		if seen.rounds >= leastRounds && added.Width() < aimGatewayP99 {
			break
		}
	}
	return seen, w.Close()
}

// halfBusy finds the rate at which the machine is half busy, by a round at another:
// half of what proxies, upstream and generator reach together. In a closed loop they
// reach more, since its generator takes answers in heaps when it comes late: half of
// that kept two processors busy by nine tenths.
func halfBusy(w *worker.Worker, s settings, tried float64, proxies [2]string) (*waits, error) {
	began, err := measure.ReadMachine()
	if err != nil {
		return nil, err
	}
	if err := w.Ask(opening{proxies, tried, s.open, 0}, new(opened)); err != nil {
		return nil, err
	}
	ended, err := measure.ReadMachine()
	if err != nil {
		return nil, err
	}
	busy := ended.Busy(began)
	if !(busy > 0) {
		return nil, fmt.Errorf("the processors were not busy at %.0f requests a second", tried)
	}
	return &waits{tried: tried, busy: busy, rate: tried / busy / 2}, nil
}

func (w *waits) add(o opened) {
	w.rounds++
	w.separate.add(o.Separate)
	w.shared.add(o.Paired)
	for _, b := range append(o.Separate, o.Paired...) {
		w.late.Add(b.Late, nil)
	}
}

// verdict says whether the aim is met: the intervals from when requests were
// due and from when they were sent must both say so, as the first may hide
// behind requests that left late what the second may leave out. Nothing is
// decided where requests left so late that the p99 is the generator's.
func (w *waits) verdict() string {
	due, sent := w.separate.due.Added(0.99, draws, 1).AtMost(aimGatewayP99), w.separate.sent.Added(0.99, draws, 1).AtMost(aimGatewayP99)
	switch {
	case w.late.Quantile(0, 0.99) > w.separate.sent.Quantile(0, 0.99)/2:
		return "not decided: the requests left too late"
	case due == "met" && sent != "met":
		return "not decided"
	}
	return due
}

// table writes them.
func (w *waits) table(s settings) string {
	table := report.NewTable("requests go, latency from", "bare p50, µs", "bare p99, µs", "weir p50, µs", "weir p99, µs", "added to p50, µs", "added to p99, µs", "aim")
	for _, row := range []struct {
		name string
		of   *measure.Paired
	}{
		{"in turns, due", &w.separate.due}, {"in turns, sent", &w.separate.sent},
		{"to both at once, due", &w.shared.due}, {"to both at once, sent", &w.shared.sent},
	} {
		cells := []string{row.name}
		for proxy := range 2 {
			for _, q := range []float64{0.5, 0.99} {
				cells = append(cells, measure.Number(row.of.Quantile(proxy, q)))
			}
		}
		for _, q := range []float64{0.5, 0.99} {
			cells = append(cells, row.of.Added(q, draws, 1).String())
		}
		if row.of == &w.separate.due {
			cells = append(cells, fmt.Sprintf("≤ %d, %s", aimGatewayP99, w.verdict()))
		}
		table.Row(cells...)
	}
	return fmt.Sprintf("Latency at %.0f requests a second in an open loop, half of what the machine could bear of it: %.0f, a quarter of what the bare proxy reaches above, kept the processors busy by %.0f %%, those of generator and upstream included. (The closed loop reaches more: its generator takes answers in heaps when it comes late.) Both proxies are up all the time: %d pairs of turns of %s, in each of which one proxy and then the other, in an order drawn by lot, has all requests; and %d turns in which each request goes to one of the two by lot, so that each has half of them. In turns each proxy is at half of its saturation, so the aim is about that; at once both meet the same instants, and each is at a quarter. Latency is to the end of the answer, from when the request was due and from when it was sent: the generator sent half of the requests within %s µs of when they were due, and 99 %% within %s. What is added is the difference of the quantiles of all requests, with the 95 %% interval of a bootstrap over pairs of turns, or turns. The aim is met where the interval lies below it, from due and from sent, and missed where it lies above; nothing is decided where 1 %% of the requests left later than half of the bare proxy's p99.\n\n%s",
		w.rate, w.tried, 100*w.busy, w.separate.due.Blocks(), s.open, w.shared.due.Blocks(), measure.Number(w.late.Quantile(0, 0.5)), measure.Number(w.late.Quantile(0, 0.99)), table)
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/frontend/grpcapi"
	"github.com/weirlimit/weir/internal/frontend/rls"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// Aims of the part "grpc": of ShouldRateLimit against the bare server of the same
// run, and of decisions a second in batches, client and server on one machine.
const (
	aimRPCCost   = 1.25
	aimRPCDelay  = 1.2
	aimBatch     = 1_000_000
	aimJSONBatch = 400_000
)

const (
	rpcKeys    = 100_000
	rpcFlight  = 64 // calls at once
	rpcConns   = 4
	batchSize  = 1000
	batchConns = 2
)

// rpcServer is a server that is compared, in a process of its own.
type rpcServer struct {
	name string
	// serve serves until ctx ends.
	serve func(ctx context.Context, ln net.Listener) error
}

// rpcServers answer ShouldRateLimit, the first as cheaply as grpc-go can; then
// those of the batches.
var rpcServers = []rpcServer{
	{"bare grpc-go server, always OK", serveBare},
	{"weir, native rules", serveRLS},
	{"weir, compatible mode", serveCompatible},
	{"weir.v1, CheckBatch", serveBatch},
	{"JSON, /v1/check", serveJSONBatch},
}

// rpcs is how many of rpcServers answer ShouldRateLimit.
const rpcs = 3

const rpcRules = `domain: api
descriptors:
  - key: client_id
    rate_limit: {unit: year, requests_per_unit: 4000000000}
  - key: path
    rate_limit: {unit: year, requests_per_unit: 4000000000}
`

// nativeRules are rpcRules with the algorithm that native rules have by default.
const nativeRules = `domain: api
descriptors:
  - key: client_id
    limit: 1000000000/day
  - key: path
    limit: 1000000000/day
`

// bare answers OK and decides nothing.
type bare struct {
	rlspb.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit implements rlspb.RateLimitServiceServer.
func (bare) ShouldRateLimit(_ context.Context, q *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	res := &rlspb.RateLimitResponse{OverallCode: rlspb.RateLimitResponse_OK}
	for range q.Descriptors {
		res.Statuses = append(res.Statuses, &rlspb.RateLimitResponse_DescriptorStatus{Code: rlspb.RateLimitResponse_OK})
	}
	return res, nil
}

func serveBare(ctx context.Context, ln net.Listener) error {
	s := grpc.NewServer()
	rlspb.RegisterRateLimitServiceServer(s, bare{})
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	return s.Serve(ln)
}

// serveGRPC serves what register adds as weir does.
func serveGRPC(ctx context.Context, ln net.Listener, register func(grpc.ServiceRegistrar)) error {
	s, err := grpcserver.New(grpcserver.Options{})
	if err != nil {
		return err
	}
	register(s)
	return s.Serve(ctx, ln)
}

func serveRLS(ctx context.Context, ln net.Listener) error {
	set, err := rules.Parse("bench", []byte(nativeRules), rules.Options{})
	if err != nil {
		return err
	}
	limiter, done, err := ours.Open(set, memory.Options{})
	if err != nil {
		return err
	}
	defer done()
	s, err := rls.New(rls.Options{Limiter: limiter})
	if err != nil {
		return err
	}
	return serveGRPC(ctx, ln, s.Register)
}

func serveCompatible(ctx context.Context, ln net.Listener) error {
	s := envoy.New(envoy.Options{})
	if err := s.LoadFiles([]envoy.File{{Name: "bench.yaml", Content: []byte(rpcRules)}}, false); err != nil {
		return err
	}
	return serveGRPC(ctx, ln, func(r grpc.ServiceRegistrar) { rlspb.RegisterRateLimitServiceServer(r, s) })
}

func serveBatch(ctx context.Context, ln net.Listener) error {
	set, err := rules.Parse("bench", []byte(apiRules), rules.Options{})
	if err != nil {
		return err
	}
	limiter, done, err := ours.Open(set, memory.Options{})
	if err != nil {
		return err
	}
	defer done()
	s, err := grpcapi.New(grpcapi.Options{Limiter: limiter})
	if err != nil {
		return err
	}
	return serveGRPC(ctx, ln, s.Register)
}

func serveJSONBatch(ctx context.Context, ln net.Listener) error {
	h, done, err := weirHandler()
	if err != nil {
		return err
	}
	defer done()
	s := &http.Server{Handler: h}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	return s.Serve(ln)
}

// serveRPC is the worker: it serves one of rpcServers on a free loopback port.
func serveRPC(index int) error {
	if index < 0 || index >= len(rpcServers) {
		return fmt.Errorf("no gRPC server %d", index)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rpcServers[index].serve(ctx, ln) }()
	asked := make(chan error, 1)
	go func() {
		asked <- worker.Serve(func(struct{}) (serving, error) { return serving{Address: addr, CPU: measure.CPU()}, nil })
	}()
	defer cancel()
	select {
	case err := <-served:
		return fmt.Errorf("%s ended: %w", rpcServers[index].name, err)
	case err := <-asked:
		cancel()
		<-served
		return err
	}
}

// rpcLoad is a client of one of rpcServers.
type rpcLoad struct {
	w *worker.Worker
	// cpu returns the processor time of the server so far.
	cpu   func() (time.Duration, error)
	conns []*grpc.ClientConn
	url   string
	next  atomic.Int64
}

func openLoad(ctx context.Context, index int) (*rpcLoad, error) {
	w, err := worker.Start(ctx, "worker", "grpc", strconv.Itoa(index))
	if err != nil {
		return nil, err
	}
	l := &rpcLoad{w: w}
	l.cpu = func() (time.Duration, error) {
		var at serving
		err := w.Ask(struct{}{}, &at)
		return time.Duration(at.CPU), err
	}
	var at serving
	if err := w.Ask(struct{}{}, &at); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.url = "http://" + at.Address + "/v1/check"
	for range rpcConns {
		c, err := grpc.NewClient(at.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.conns = append(l.conns, c)
	}
	return l, nil
}

func (l *rpcLoad) close() error {
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Close())
	}
	errs = append(errs, l.w.Close())
	return errors.Join(errs...)
}

// rpcRound is a round of one server.
type rpcRound struct {
	rate, cost float64 // decisions a second; microseconds of the server for each
	p50, p99   time.Duration
}

// run has clients decide for a while: each decides some and returns how many. n
// tells a client apart from others.
func (l *rpcLoad) run(ctx context.Context, clients int, round time.Duration, decide func(n int) func(context.Context) (int, error)) (r rpcRound, err error) {
	before, err := l.cpu()
	if err != nil {
		return r, err
	}
	var all measure.Histogram
	var mu sync.Mutex
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for n := range clients {
		wg.Go(func() {
			one := decide(n)
			var took measure.Histogram
			for time.Since(began) < round && ctx.Err() == nil {
				at := time.Now()
				// As Envoy, which sends a deadline with every call.
				call, cancel := context.WithTimeout(ctx, 5*time.Second)
				decisions, failed := one(call)
				cancel()
				if failed != nil {
					mu.Lock()
					err = failed
					mu.Unlock()
					return
				}
				took.Add(time.Since(at))
				done.Add(int64(decisions))
			}
			mu.Lock()
			defer mu.Unlock()
			all.Merge(&took)
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err != nil {
		return r, err
	}
	after, err := l.cpu()
	if err != nil {
		return r, err
	}
	n := float64(done.Load())
	return rpcRound{rate: n / took.Seconds(), cost: float64((after - before).Nanoseconds()) / 1e3 / n, p50: all.Quantile(0.5), p99: all.Quantile(0.99)}, nil
}

// shouldRateLimit asks about two descriptors, one of 100,000 keys.
func (l *rpcLoad) shouldRateLimit(n int) func(context.Context) (int, error) {
	client := rlspb.NewRateLimitServiceClient(l.conns[n%len(l.conns)])
	who := &ratelimitpb.RateLimitDescriptor_Entry{Key: "client_id"}
	q := &rlspb.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{who}},
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "path", Value: "/v1/orders"}}},
	}}
	return func(ctx context.Context) (int, error) {
		// A stride that meets all keys, in an order that caches do not foresee.
		who.Value = load.Key(int(l.next.Add(1) * 61_803 % rpcKeys))
		res, err := client.ShouldRateLimit(ctx, q)
		if err == nil && (res.OverallCode != rlspb.RateLimitResponse_OK || len(res.Statuses) != 2) {
			err = fmt.Errorf("answered %s", res)
		}
		return 1, err
	}
}

// checkBatch asks about 1,000 keys at once.
func (l *rpcLoad) checkBatch(n int) func(context.Context) (int, error) {
	client := weirpb.NewLimitServiceClient(l.conns[n%len(l.conns)])
	table := &weirpb.CheckTable{Keys: []string{"client_id"}, Values: make([]string, batchSize)}
	keys := batchKeys()
	return func(ctx context.Context) (int, error) {
		from := int(l.next.Add(1)) * batchSize % len(keys)
		copy(table.Values, keys[from:from+batchSize])
		res, err := client.CheckBatch(ctx, &weirpb.CheckBatchRequest{Table: table})
		if err != nil {
			return 0, err
		}
		if len(res.Allowed) != batchSize || len(res.Remaining) != batchSize || len(res.RetryAfterUs) != 0 {
			return 0, fmt.Errorf("%d answers, some refused", len(res.Allowed))
		}
		return batchSize, nil
	}
}

// batchKeys returns the keys in the order of shouldRateLimit.
func batchKeys() []string {
	keys := make([]string, rpcKeys)
	for i := range keys {
		keys[i] = load.Key((i + 1) * 61_803 % rpcKeys)
	}
	return keys
}

// checkJSON asks about 1,000 keys at once; of the answer it counts what is
// allowed.
func (l *rpcLoad) checkJSON(int) func(context.Context) (int, error) {
	keys := batchKeys()
	const bodies = 16
	var texts [bodies][]byte
	for i := range texts {
		var b strings.Builder
		b.WriteString(`{"checks":[`)
		for k, key := range keys[i*batchSize : (i+1)*batchSize] {
			if k > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"descriptors":[{"entries":{"client_id":%q}}]}`, key)
		}
		b.WriteString("]}")
		texts[i] = []byte(b.String())
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	answer := make([]byte, 0, 1<<20)
	at := 0
	return func(ctx context.Context) (int, error) {
		at++
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(texts[at%bodies]))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		buf := bytes.NewBuffer(answer[:0])
		if _, err := io.Copy(buf, res.Body); err != nil {
			return 0, err
		}
		if n := bytes.Count(buf.Bytes(), []byte(`{"allowed":true,"soft"`)); res.StatusCode != http.StatusOK || n != batchSize {
			return 0, fmt.Errorf("answered %d, %d allowed", res.StatusCode, n)
		}
		return batchSize, nil
	}
}

// compareGRPC drives every server in turn.
func compareGRPC(ctx context.Context, s settings) (string, error) {
	loads := make([]*rpcLoad, len(rpcServers))
	for i := range rpcServers {
		l, err := openLoad(ctx, i)
		if err != nil {
			return "", fmt.Errorf("%s: %w", rpcServers[i].name, err)
		}
		defer l.close()
		loads[i] = l
	}
	progress("grpc: %d servers, %d rounds of %s", len(loads), s.rounds, s.http)
	busy, alone := make([][]rpcRound, len(loads)), make([][]rpcRound, rpcs)
	for round := range s.rounds {
		for turn := range loads {
			i := (turn + round) % len(loads)
			l := loads[i]
			clients, decide := rpcFlight, l.shouldRateLimit
			switch i {
			case rpcs:
				clients, decide = batchConns, l.checkBatch
			case rpcs + 1:
				clients, decide = batchConns, l.checkJSON
			}
			r, err := l.run(ctx, clients, s.http, decide)
			if err != nil {
				return "", fmt.Errorf("%s: %w", rpcServers[i].name, err)
			}
			busy[i] = append(busy[i], r)
			if i < rpcs {
				if r, err = l.run(ctx, 1, s.http/2, decide); err != nil {
					return "", fmt.Errorf("%s: %w", rpcServers[i].name, err)
				}
				alone[i] = append(alone[i], r)
			}
		}
	}
	fleet, err := compareFleet(ctx, s)
	if err != nil {
		return "", err
	}
	return grpcTables(s, busy, alone) + "\n" + fleet, nil
}

// spread returns the spread of what of reads of each round.
func spread(rounds []rpcRound, of func(r rpcRound) float64) measure.Spread {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = of(r)
	}
	return measure.SpreadOf(values)
}

// against returns the spread of ratios to the rounds of another.
func against(rounds, others []rpcRound, of func(r rpcRound) float64) measure.Spread {
	values := make([]float64, len(rounds))
	for i := range rounds {
		values[i] = of(rounds[i]) / of(others[i])
	}
	return measure.SpreadOf(values)
}

// word says whether an aim is met.
func word(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

func grpcTables(s settings, busy, alone [][]rpcRound) string {
	rate := func(r rpcRound) float64 { return r.rate }
	cost := func(r rpcRound) float64 { return r.cost }
	p50 := func(r rpcRound) float64 { return float64(r.p50) / 1e3 }
	p99 := func(r rpcRound) float64 { return float64(r.p99) / 1e3 }

	calls := report.NewTable("server", "calls a second", "server CPU, µs a call", "of the bare server", "aim", "one in flight: p50, µs", "p99, µs", "of the bare server's p50", "aim")
	for i := range rpcs {
		row := []string{rpcServers[i].name, spread(busy[i], rate).String(), spread(busy[i], cost).String(), "", "",
			spread(alone[i], p50).String(), spread(alone[i], p99).String(), "", ""}
		if i > 0 {
			c, d := against(busy[i], busy[0], cost), against(alone[i], alone[0], p50)
			row[3], row[4] = c.String(), fmt.Sprintf("≤ %.2f, %s", aimRPCCost, word(c.Median <= aimRPCCost))
			row[7], row[8] = d.String(), fmt.Sprintf("≤ %.1f, %s", aimRPCDelay, word(d.Median <= aimRPCDelay))
		}
		calls.Row(row...)
	}
	batches := report.NewTable("API", "decisions a second, client included", "aim", "server CPU, µs a decision")
	for i, aim := range []float64{aimBatch, aimJSONBatch} {
		rounds := busy[rpcs+i]
		r := spread(rounds, rate)
		batches.Row(rpcServers[rpcs+i].name, r.String(), fmt.Sprintf("≥ %.0f, %s", aim, word(r.Median >= aim)), spread(rounds, cost).String())
	}
	return fmt.Sprintf("`ShouldRateLimit` with two descriptors, of %d keys and of one, %d calls in flight on %d connections of the same client on the same machine, then one; every call allowed. The bare server decodes the question and answers OK. Median (smallest–largest) of %d rounds of %s.\n\n%s\nBatches of %d keys of %d, %d at once, on the same machine.\n\n%s",
		rpcKeys, rpcFlight, rpcConns, s.rounds, s.http, calls, batchSize, rpcKeys, batchConns, batches)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/remote"
	"github.com/weirlimit/weir/lab/bench/report"
)

// Aims of the part "grpc" with Redis: processor time of the service and of Redis
// together for a decision, of what envoyproxy/ratelimit takes. Where that is not at
// hand, see referenceVariable, it is taken to need referenceCost.
const (
	aimLeasedCost = 1.0 / 3
	aimStrictCost = 2.0 / 3
	// referenceCost is the least that it needed where it was measured, in
	// microseconds.
	referenceCost = 50
	// referenceVariable names its binary.
	referenceVariable = "WEIR_REFERENCE"
	// fleetWarm is how many rounds are not counted each time that a service is
	// driven, and seldomWarm that of one that must have met keys which come seldom some
	// ten times before it knows how often they do.
	fleetWarm, seldomWarm = 2, 20
)

// fleetKeys are the numbers of keys that services are asked about. Of many each
// is seldom asked for, and what is fetched ahead for it seldom used.
var fleetKeys = []int{rpcKeys, 1000}

// fleetNode is a service in front of a Redis of its own.
type fleetNode struct {
	name string
	// aim is the most processor time, of the reference's; zero for no aim.
	aim float64
	// warm is how many rounds are not counted where keys come seldom.
	warm int
	// command returns the service's command line and environment.
	command func(dir, program, redis string, port int) (*exec.Cmd, error)
}

// fleetNodes are the services, the reference last.
var fleetNodes = []fleetNode{
	{"weir, native rules, leased", aimLeasedCost, seldomWarm, serveOn("")},
	{"weir, native rules, strict", aimStrictCost, fleetWarm, serveOn(", consistency: strict")},
	{"weir ratelimit, compatible mode", 0, fleetWarm, ratelimitOn("")},
	{"envoyproxy/ratelimit", 0, fleetWarm, ratelimitOn(os.Getenv(referenceVariable))},
}

// serveOn runs weir serve with native rules.
func serveOn(more string) func(dir, program, redis string, port int) (*exec.Cmd, error) {
	return func(dir, program, redis string, port int) (*exec.Cmd, error) {
		file := filepath.Join(dir, fmt.Sprintf("rules%d.yaml", port))
		text := "domain: api\ndescriptors:\n  - {key: client_id, limit: 1000000000/day" + more + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		return exec.Command(program, "serve", "--rules", file, "--store", "redis://"+redis,
			"--grpc", fmt.Sprintf("127.0.0.1:%d", port), "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"), nil
	}
}

// ratelimitOn runs weir ratelimit, or another program that reads the same
// environment.
func ratelimitOn(other string) func(dir, program, redis string, port int) (*exec.Cmd, error) {
	return func(dir, program, redis string, port int) (*exec.Cmd, error) {
		root := filepath.Join(dir, fmt.Sprint("runtime", port))
		if err := os.MkdirAll(filepath.Join(root, "config"), 0o700); err != nil {
			return nil, err
		}
		text := "domain: api\ndescriptors:\n  - key: client_id\n    rate_limit: {unit: day, requests_per_unit: 1000000000}\n"
		if err := os.WriteFile(filepath.Join(root, "config", "config.yaml"), []byte(text), 0o600); err != nil {
			return nil, err
		}
		cmd := exec.Command(program, "ratelimit")
		if other != "" {
			cmd = exec.Command(other)
		}
		cmd.Env = append(os.Environ(), "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false",
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis, "USE_STATSD=false", "LOG_LEVEL=error",
			"HOST=127.0.0.1", "PORT="+freePort(), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+freePort(),
			"GRPC_HOST=127.0.0.1", fmt.Sprint("GRPC_PORT=", port))
		return cmd, nil
	}
}

// freePort returns a port of loopback that was free a moment ago, "0" if there is
// none.
func freePort() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "0"
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// fleetLoad is a client of a service and its Redis, both processes of their own.
type fleetLoad struct {
	rpcLoad
	redis *remote.Server
	cmd   *exec.Cmd
}

// openFleet starts a service on a Redis of its own.
func openFleet(ctx context.Context, n *fleetNode, dir, program string) (l *fleetLoad, err error) {
	l = &fleetLoad{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.redis, err = remote.Start(ctx); err != nil {
		return l, err
	}
	var port int
	if _, err = fmt.Sscan(freePort(), &port); err != nil {
		return l, err
	}
	cmd, err := n.command(dir, program, l.redis.Addr, port)
	if err != nil {
		return l, err
	}
	if err = cmd.Start(); err != nil {
		return l, err
	}
	l.cmd = cmd
	l.cpu = func() (time.Duration, error) {
		a, err := measure.ProcessCPU(cmd.Process.Pid)
		b, failed := measure.ProcessCPU(l.redis.Pid())
		return a + b, errors.Join(err, failed)
	}
	for range rpcConns {
		c, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return l, err
		}
		l.conns = append(l.conns, c)
	}
	return l, l.await(ctx)
}

// await waits until the service decides.
func (l *fleetLoad) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	one := l.clientID(load.Uniform(1))(0)
	for {
		_, err := one(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (l *fleetLoad) close() error {
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Close())
	}
	if l.cmd != nil {
		errs = append(errs, l.cmd.Process.Kill())
		_ = l.cmd.Wait() // it was killed
	}
	if l.redis != nil {
		errs = append(errs, l.redis.Close())
	}
	return errors.Join(errs...)
}

// clientID asks about one descriptor, of one key after the other.
func (l *fleetLoad) clientID(keys *load.Keys) func(n int) func(context.Context) (int, error) {
	return func(n int) func(context.Context) (int, error) { return l.client(n, keys) }
}

func (l *fleetLoad) client(n int, keys *load.Keys) func(context.Context) (int, error) {
	client := rlspb.NewRateLimitServiceClient(l.conns[n%len(l.conns)])
	who := &ratelimitpb.RateLimitDescriptor_Entry{Key: "client_id"}
	q := &rlspb.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{who}},
	}}
	return func(ctx context.Context) (int, error) {
		who.Value = keys.At(int(l.next.Add(1)))
		res, err := client.ShouldRateLimit(ctx, q)
		if err == nil && (res.OverallCode != rlspb.RateLimitResponse_OK || len(res.Statuses) != 1 || res.Statuses[0].CurrentLimit == nil) {
			err = fmt.Errorf("answered %s", res)
		}
		return 1, err
	}
}

// compareFleet drives services that count in Redis, in turn.
func compareFleet(ctx context.Context, s settings) (text string, err error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	program, err := buildWeir(ctx, dir)
	if err != nil {
		return "", err
	}
	nodes := fleetNodes
	if os.Getenv(referenceVariable) == "" {
		nodes = nodes[:len(nodes)-1]
	}
	var loads []*fleetLoad
	defer func() {
		for _, l := range loads {
			err = errors.Join(err, l.close())
		}
	}()
	for i := range nodes {
		l, err := openFleet(ctx, &nodes[i], dir, program)
		if err != nil {
			return "", fmt.Errorf("%s: %w", nodes[i].name, err)
		}
		loads = append(loads, l)
	}
	progress("grpc on Redis: %d services, %d rounds of %s on %d and %d keys", len(loads), s.rounds, s.http, fleetKeys[0], fleetKeys[1])
	for _, keys := range fleetKeys {
		rounds, err := fleetRounds(ctx, s, nodes, loads, keys)
		if err != nil {
			return "", err
		}
		text += fleetTableOf(s, nodes, rounds, keys)
	}
	return fleetText(s, nodes) + text, nil
}

// fleetRounds drives every service twice, in turn and back, without a break between
// its rounds: in one, keys would come as seldom as there are services more.
func fleetRounds(ctx context.Context, s settings, nodes []fleetNode, loads []*fleetLoad, keys int) ([][]rpcRound, error) {
	rounds := make([][]rpcRound, len(loads))
	uniform := load.Uniform(keys)
	for turn := range 2 * len(loads) {
		i, warm := min(turn, 2*len(loads)-1-turn), fleetWarm
		if keys == rpcKeys {
			warm = nodes[i].warm
		}
		for round := -warm; round < (s.rounds+1)/2; round++ {
			r, err := loads[i].run(ctx, rpcFlight, s.http, loads[i].clientID(uniform))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", nodes[i].name, err)
			}
			if round >= 0 {
				rounds[i] = append(rounds[i], r)
			}
		}
	}
	return rounds, nil
}

func fleetText(s settings, nodes []fleetNode) string {
	text := fmt.Sprintf("With Redis: one descriptor, keys at random, %d calls in flight; each service is a process with a redis-server of its own, on the same machine as the client. Each is driven twice, for %d rounds of %s after %d that are not counted, with leases and many keys after %d. Median (smallest–largest).", rpcFlight, (s.rounds+1)/2, s.http, fleetWarm, seldomWarm)
	if len(nodes) < len(fleetNodes) {
		text += fmt.Sprintf(" envoyproxy/ratelimit was not at hand (`%s` names its binary); where it was measured before it took 50 to 57 µs.", referenceVariable)
	}
	return text + "\n"
}

func fleetTableOf(s settings, nodes []fleetNode, rounds [][]rpcRound, keys int) string {
	rate := func(r rpcRound) float64 { return r.rate }
	cost := func(r rpcRound) float64 { return r.cost }
	p99 := func(r rpcRound) float64 { return float64(r.p99) / 1e3 }
	measured := len(nodes) == len(fleetNodes)
	of := fmt.Sprintf("of %d µs", referenceCost)
	if measured {
		of = "of envoyproxy/ratelimit"
	}
	t := report.NewTable("service", "calls a second", "CPU of service and Redis, µs a call", of, "aim", "p99, µs")
	for i, n := range nodes {
		row := []string{n.name, spread(rounds[i], rate).String(), spread(rounds[i], cost).String(), "", "", spread(rounds[i], p99).String()}
		ratio := spread(rounds[i], func(r rpcRound) float64 { return r.cost / referenceCost })
		if measured {
			ratio = against(rounds[i], rounds[len(rounds)-1], cost)
		}
		row[3] = ratio.String()
		if n.aim > 0 {
			row[4] = fmt.Sprintf("≤ %.2f, %s", n.aim, word(ratio.Median <= n.aim))
		}
		t.Row(row...)
	}
	return fmt.Sprintf("\n%d keys:\n\n%s", keys, t)
}

// Package throttle measures CL.THROTTLE over the wire: with redis-benchmark as the
// client, beside a stub that answers a constant.
package throttle

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/frontend/resp"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/store/memory"
)

// Clients is how many connections redis-benchmark keeps, its own default.
const Clients = 50

// Words are the command that is measured: a limit that nothing exhausts.
var Words = []string{"CL.THROTTLE", "key:__rand_int__", "999999", "1000000000", "1"}

// reply is what Weir answers to Words for a key that is whole: what the stub
// answers always.
const reply = "*5\r\n:0\r\n:1000000\r\n:999999\r\n:-1\r\n:0\r\n"

// Server serves a subject until ctx ends.
type Server func(ctx context.Context, ln net.Listener) error

// Subjects are the servers, by name.
var Subjects = []struct {
	Name string
	Open func() (Server, func(), error)
}{
	{"weir", openWeir},
	{"stub: reads, decides nothing, answers a constant", openStub},
}

func openWeir() (Server, func(), error) {
	limiter, done, err := ours.Open(weir.Limits{}, memory.Options{})
	if err != nil {
		return nil, nil, err
	}
	s, err := resp.New(resp.Options{Limiter: limiter})
	if err != nil {
		done()
		return nil, nil, err
	}
	return s.Serve, done, nil
}

func openStub() (Server, func(), error) { return serveStub, func() {}, nil }

// serveStub does the least that a server can: it reads, counts commands by their
// length, which is the same for all, and writes as many constants.
func serveStub(ctx context.Context, ln net.Listener) error {
	length := 0
	all := Words
	length += len(fmt.Sprintf("*%d\r\n", len(all)))
	for _, w := range all {
		// redis-benchmark puts twelve digits in place of the word.
		w = strings.Replace(w, "__rand_int__", "000000000000", 1)
		length += len(fmt.Sprintf("$%d\r\n%s\r\n", len(w), w))
	}
	answers := bytes.Repeat([]byte(reply), 2048)
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		conns.Go(func() {
			defer context.AfterFunc(ctx, func() { nc.Close() })()
			defer nc.Close()
			// An error here means that the client has gone.
			_ = answerStub(nc, length, answers)
		})
	}
}

func answerStub(nc net.Conn, length int, answers []byte) error {
	buf, have := make([]byte, 16<<10), 0
	for {
		n, err := nc.Read(buf)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(buf[:n], []byte("*3\r\n$6\r\nCONFIG")) {
			// redis-benchmark asks two of these, one by one, on a connection of
			// their own.
			if _, err := nc.Write([]byte("*0\r\n")); err != nil {
				return err
			}
			continue
		}
		have += n
		commands := have / length
		have %= length
		if _, err := nc.Write(answers[:commands*len(reply)]); err != nil {
			return err
		}
	}
}

// Round is what redis-benchmark measured.
type Round struct {
	Rate float64 // commands a second
	P50  float64 // milliseconds
	P99  float64
}

// ErrNoClient says that redis-benchmark is not installed.
var ErrNoClient = errors.New("redis-benchmark is not installed: apt-get install redis-tools")

// Drive sends so many commands in pipelines to addr, to keys 100,000 random ones.
func Drive(ctx context.Context, addr string, commands, pipeline int) (Round, error) {
	bin, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return Round{}, ErrNoClient
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Round{}, err
	}
	args := append([]string{"-h", host, "-p", port, "-c", strconv.Itoa(Clients), "-n", strconv.Itoa(commands),
		"-P", strconv.Itoa(pipeline), "-r", "100000", "--csv"}, Words...)
	out, err := exec.CommandContext(ctx, bin, args...).Output()
	if err != nil {
		return Round{}, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	return parse(string(out))
}

// parse reads a line of figures under its head.
func parse(out string) (Round, error) {
	at := strings.Index(out, `"test"`)
	if at < 0 {
		return Round{}, fmt.Errorf("redis-benchmark says no figures: %s", out)
	}
	rows, err := csv.NewReader(strings.NewReader(out[at:])).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[0]) != len(rows[1]) {
		return Round{}, fmt.Errorf("redis-benchmark says %q: %v", out, err)
	}
	var r Round
	found := 0
	for i, name := range rows[0] {
		into := map[string]*float64{"rps": &r.Rate, "p50_latency_ms": &r.P50, "p99_latency_ms": &r.P99}[name]
		if into == nil {
			continue
		}
		if *into, err = strconv.ParseFloat(rows[1][i], 64); err != nil {
			return Round{}, fmt.Errorf("redis-benchmark: %s: %w", name, err)
		}
		found++
	}
	if found != 3 || r.Rate <= 0 {
		return Round{}, fmt.Errorf("redis-benchmark says %q", out)
	}
	return r, nil
}

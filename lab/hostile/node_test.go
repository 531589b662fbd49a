package hostile

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// command is the path of the built command. Set once by TestMain.
var command string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	flag.Parse()
	// Most of these tests wait for timeouts of the node: more of them at once
	// than there are processors.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	path, clean, err := servertest.Command()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer clean()
	command = path
	// What is bounded is what a node keeps, not what its collector leaves lying
	// about up to limitMemory's ballast.
	if err := os.Setenv("GOGC", "100"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// soak reports whether the long forms are asked for, and n returns how many of
// something an attack has: few in the plain form, many in the long one.
var soak = os.Getenv("WEIR_SOAK") == "1"

func n(plain, long int) int {
	if soak {
		return long
	}
	return plain
}

// node is a running server.
type node struct {
	*servertest.Process
	cmd *exec.Cmd
	// addr and admin are HOST:PORT.
	addr, admin string
}

// unlimited is a limit that nobody reaches.
const unlimited = "1000000000/hour by ip"

// serve starts `weir serve` on free ports with further arguments.
func serve(t *testing.T, args ...string) *node {
	t.Helper()
	return serveAs(t, "json", args...)
}

// serveAs is serve with a form of the log.
func serveAs(t *testing.T, format string, args ...string) *node {
	t.Helper()
	all := append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", format}, args...)
	s := &node{cmd: servertest.Invoke(command, all...)}
	s.Process = servertest.Serve(t, s.cmd, "http", "admin")
	s.addr, s.admin = s.Listening("http"), s.Listening("admin")
	return s
}

// memory returns the process's resident memory in bytes: what it is, and the
// most that it was.
func (s *node) memory(t *testing.T) (now, most int64) {
	t.Helper()
	return servertest.Memory(t, s.cmd.Process.Pid)
}

// goroutines returns how many the process has of each stack, but for those of
// connections kept to an upstream.
func (s *node) goroutines(t *testing.T) stacks {
	t.Helper()
	_, _, body := get(t, "http://"+s.admin+"/debug/pprof/goroutine?debug=1")
	all := make(stacks)
	for _, group := range strings.Split(body, "\n\n") {
		if strings.Contains(group, "persistConn") {
			continue
		}
		group = strings.TrimSpace(group)
		if strings.HasPrefix(group, "goroutine profile:") {
			_, group, _ = strings.Cut(group, "\n")
		}
		many, stack, _ := strings.Cut(group, " ")
		n, err := strconv.Atoi(many)
		if err != nil && group != "" {
			t.Fatalf("%q", group)
		}
		all[stack] += n
	}
	return all
}

// stacks counts goroutines by their stacks, as a profile has them.
type stacks map[string]int

// total returns how many goroutines there are.
func (all stacks) total() (n int) {
	for _, many := range all {
		n += many
	}
	return n
}

// beyond returns the stacks of which there are more than before.
func (all stacks) beyond(before stacks) string {
	var b strings.Builder
	for stack, many := range all {
		if more := many - before[stack]; more > 0 {
			fmt.Fprintf(&b, "%d more, %d in all: %s\n\n", more, many, stack)
		}
	}
	return b.String()
}

// awaitStart waits until the node has all goroutines that it has for as long as it
// runs: a node listens before the last of them begins, long before on a busy machine.
func (s *node) awaitStart(t *testing.T) {
	t.Helper()
	last := []string{"event.(*outbox).sendUntilEnd", "retention.(*Sweeper).KeepTidy"}
	if s.Listening("grpc") != "" {
		last = append(last, "grpc.(*Server).Serve") // after its workers
	}
	servertest.Await(t, "the node to have begun", func() bool {
		_, _, body := get(t, "http://"+s.admin+"/debug/pprof/goroutine?debug=1")
		return !slices.ContainsFunc(last, func(f string) bool { return !strings.Contains(body, f) })
	})
}

// awaitGoroutines waits until there are hardly more goroutines than before.
func (s *node) awaitGoroutines(t *testing.T, before stacks) {
	t.Helper()
	var now stacks
	few := false
	defer func() {
		if !few {
			t.Logf("there are %d goroutines, there were %d:\n%s\n%s", now.total(), before.total(), now.beyond(before), s.Output())
		}
	}()
	servertest.Await(t, fmt.Sprintf("no more than %d goroutines", before.total()+2), func() bool {
		now = s.goroutines(t)
		return now.total() <= before.total()+2
	})
	few = true
}

// metric returns the value of a series.
func (s *node) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, _, body := get(t, "http://"+s.admin+"/metrics")
	v, ok := servertest.Sample(t, body, name)
	if !ok {
		t.Fatalf("no %s among the metrics", name)
	}
	return v
}

// neighbour keeps no connection; it comes from 127.0.0.1.
var neighbour = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}

// get returns what a GET by the neighbour is answered. On a machine that stands
// still he may be cut off as one who is slow himself: then he asks again.
func get(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	for tries := 1; ; tries++ {
		res, err := neighbour.Get(url)
		if err == nil {
			return read(t, res)
		}
		if !errors.Is(err, io.EOF) || tries == 5 {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, res *http.Response) (int, http.Header, string) {
	t.Helper()
	return res.StatusCode, res.Header, servertest.Body(t, res)
}

// attack runs f, and meanwhile the neighbour: he must be answered up\n every
// time, in less than slowest. Afterwards the node must have used no more than
// most bytes beyond what it had, and be down to as many goroutines as before.
//
// The two bounds are far above what is seen, as they must hold on the slowest
// machine; without a defence they are passed by far.
func (s *node) attack(t *testing.T, most int64, f func()) {
	t.Helper()
	s.attackBeside(t, most, func() error {
		res, err := neighbour.Get("http://" + s.addr + "/")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err == nil && (res.StatusCode != 200 || string(body) != "up\n") {
			err = fmt.Errorf("answered %d %q", res.StatusCode, body)
		}
		return err
	}, f)
}

// attackBeside is attack with another neighbour, who asks once.
func (s *node) attackBeside(t *testing.T, most int64, ask func() error, f func()) {
	t.Helper()
	const slowest = time.Minute
	if err := ask(); err != nil {
		t.Fatalf("before the attack: %v", err)
	}
	s.awaitStart(t)
	before, _ := s.memory(t)
	held := s.goroutines(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	var served atomic.Int64
	go func() {
		defer close(stopped)
		for {
			began := time.Now()
			if err := ask(); err != nil || time.Since(began) > slowest {
				t.Errorf("the neighbour was answered after %s, %v", time.Since(began), err)
				return
			}
			served.Add(1)
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	began := time.Now()
	f()
	took := time.Since(began)
	close(stop)
	<-stopped
	// The attackers' own deadline: what ends by that was not ended by the node.
	if took >= patience {
		t.Errorf("the attack went on for %s", took)
	}
	_, peak := s.memory(t)
	if peak-before > most {
		t.Errorf("the node used %d MiB more than before, want at most %d", (peak-before)>>20, most>>20)
	}
	if served.Load() == 0 {
		t.Error("the neighbour was not served")
	}
	s.awaitGoroutines(t, held)
	t.Logf("%s: the neighbour was served %d times, %d MiB more at the most", took.Round(time.Millisecond), served.Load(), (peak-before)>>20)
}

// patience is how long an attacker stays when he is not sent away.
var patience = time.Duration(n(4, 10)) * time.Minute

// dial opens a connection from 127.0.0.2.
func (s *node) dial(t *testing.T) net.Conn { return s.dialFrom(t, "127.0.0.2") }

// dialFrom opens a connection from an address.
func (s *node) dialFrom(t *testing.T, from string) net.Conn {
	t.Helper()
	c, err := s.tryFrom(from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *node) try() (net.Conn, error) { return s.tryFrom("127.0.0.2") }

func (s *node) tryFrom(from string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 2 * time.Minute}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(patience))
}

// rules writes a rules file and returns its path.
func rules(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// each runs f many times at once.
func each(many int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// closed reads until the node closes, and returns what it said before.
func closed(c net.Conn) (string, error) {
	var b bytes.Buffer
	_, err := io.Copy(&b, c)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return b.String(), err
	}
	return b.String(), nil // a reset is an end too
}

// upstream is a server behind the node.
type upstream struct {
	*httptest.Server
	// requests it had, and how many of them are under way.
	requests, underWay atomic.Int64
}

// startUpstream answers "up\n", at /big without end, at /page 64 KiB, at /quiet with pauses, at /hold when the client
// has gone, and at /read after the body.
func startUpstream(t *testing.T) *upstream {
	u := &upstream{}
	big := bytes.Repeat([]byte("x"), 64<<10)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.requests.Add(1)
		u.underWay.Add(1)
		defer u.underWay.Add(-1)
		switch r.URL.Path {
		case "/big":
			for {
				if _, err := w.Write(big); err != nil {
					return
				}
			}
		case "/page":
			_, _ = w.Write(big)
		case "/quiet":
			_, _ = io.Copy(io.Discard, r.Body)
			for range 2 {
				fmt.Fprint(w, "still here\n")
				_ = http.NewResponseController(w).Flush()
				<-time.After(1500 * time.Millisecond)
			}
			fmt.Fprint(w, "up\n")
		case "/hold":
			<-r.Context().Done()
		case "/read":
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			fmt.Fprint(w, "up\n")
		default:
			fmt.Fprint(w, "up\n")
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// nginx starts a real nginx that answers "up\n".
func nginx(t *testing.T) string {
	addr, _ := servertest.Nginx(t, `location / { return 200 "up\n"; }`)
	return "http://" + addr
}

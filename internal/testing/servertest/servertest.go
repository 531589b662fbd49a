// Package servertest starts real servers for tests: on free loopback ports,
// with their files in the test's own folder, ended by their process id when
// the test ends.
//
// A test whose server is not installed is skipped with a sentence; with
// WEIR_REQUIRE_SERVERS=1 in the environment, as `make test` and CI set it, it
// fails.
package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// startWithin is how long a server may take to listen: long, because test
// machines are slow, and it only costs when something is wrong.
const startWithin = 2 * time.Minute

// Binary returns the path of a program that a test needs. Where it is missing
// the test is skipped, or fails if servers are required.
//
// Debian keeps servers in /usr/sbin, which an ordinary user's PATH leaves out.
func Binary(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin/", "/usr/local/sbin/", "/sbin/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path
		}
	}
	const advice = "%s is not installed: `make test` installs it, or `apt-get install %s`"
	if os.Getenv("WEIR_REQUIRE_SERVERS") == "1" {
		t.Fatalf(advice, name, name)
	}
	t.Skipf(advice, name, name)
	return ""
}

// lastPort counts the ports that FreePort has tried in this process.
var lastPort = func() (n atomic.Uint32) { n.Store(rand.Uint32N(10_000)); return }()

// FreePort returns a loopback port that nobody listens on and that no other call in
// this process has returned, unless it was asked ten thousand times: from 10000 to
// 19999, below those that systems give to outgoing connections, as one of those is
// taken by whichever connection comes next. Another process may take it before the
// caller does: servers that can pick their own port should.
func FreePort(t testing.TB) int {
	t.Helper()
	var err error
	for range 1000 {
		port := 10_000 + int(lastPort.Add(1)%10_000)
		var ln net.Listener
		if ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal(err)
	return 0
}

// Process is a server that a test started. Safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	out  output
	done chan struct{}
	err  error
}

// Start runs a program until the test ends. What it prints is shown if the
// test fails.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", cmd.Path, p.Output())
		}
	})
	return p
}

// Output returns what the process has printed so far.
func (p *Process) Output() string { return p.out.String() }

// Pid returns the process's number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends sig to the process, and returns when it has stopped if it was SIGSTOP:
// another processor may run its threads for a moment longer, as long as an answer takes.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil || sig != syscall.SIGSTOP {
		return err
	}
	return awaitStop(p.Pid())
}

// Wait waits for the process to end by itself and returns its exit status.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return 0, fmt.Errorf("%s still runs: %w", p.cmd.Path, ctx.Err())
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		return exit.ExitCode(), nil
	}
	return 0, p.err
}

// stop asks the process to end, and after half a minute makes it.
func (p *Process) stop() {
	// A process that is gone already cannot be signalled; done tells.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return
	case <-time.After(30 * time.Second):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// await waits until cond holds, and returns false if the process ends before.
func (p *Process) await(t testing.TB, what string, cond func() bool) bool {
	t.Helper()
	ended := false
	Await(t, what, func() bool {
		select {
		case <-p.done:
			ended = true
		default:
		}
		return ended || cond()
	})
	return !ended
}

// Await polls until cond holds, and fails the test when it does not in time.
func Await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	end := time.Now().Add(startWithin)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain for %s", startWithin, what)
		}
		<-tick.C
	}
}

// output keeps what a process prints. Safe for concurrent use.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// maxOutput bounds what is kept of a process's output, in bytes.
const maxOutput = 1 << 20

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := maxOutput - o.buf.Len(); room > 0 {
		o.buf.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

package queuetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Process is a broker that is a process of its own. It ends with the test.
type Process struct {
	// Addr is HOST:PORT.
	Addr string

	t       testing.TB
	command func() *exec.Cmd
	ready   func() bool
	process *servertest.Process
}

// Start starts a broker that listens on addr. ready, which may be nil, reports
// whether a broker that accepts connections can be used.
func Start(t testing.TB, addr string, command func() *exec.Cmd, ready func() bool) *Process {
	t.Helper()
	p := &Process{Addr: addr, t: t, command: command, ready: ready}
	p.Restart(t)
	return p
}

// Self starts the test program again, to be a broker: its TestMain finds the port
// and the folder for its files by Serve.
func Self(t testing.TB) *Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, port := t.TempDir(), servertest.FreePort(t)
	return Start(t, fmt.Sprintf("127.0.0.1:%d", port), func() *exec.Cmd {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), fmt.Sprintf("WEIR_TEST_BROKER_PORT=%d", port), "WEIR_TEST_BROKER_DIR="+dir)
		return cmd
	}, nil)
}

// Serve runs serve if the program was started by Self, and reports whether it was.
func Serve(serve func(port, dir string) error) bool {
	port := os.Getenv("WEIR_TEST_BROKER_PORT")
	if port == "" {
		return false
	}
	if err := serve(port, os.Getenv("WEIR_TEST_BROKER_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// Restart starts the broker. It outlives the test that asks for it.
func (p *Process) Restart(testing.TB) {
	p.t.Helper()
	process := servertest.Start(p.t, p.command())
	// Its farewell would take seconds. One that has ended needs no signal.
	p.t.Cleanup(func() { _ = process.Signal(os.Kill) })
	p.process = process
	servertest.Await(p.t, "the broker", func() bool {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return false
		}
		return c.Close() == nil && (p.ready == nil || p.ready())
	})
}

// Kill ends the broker as a crash would, and waits until it is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.signal(t, os.Kill)
	if _, err := p.process.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Stall makes the broker stand still, or go on.
func (p *Process) Stall(t testing.TB, stalled bool) {
	t.Helper()
	if stalled {
		p.signal(t, syscall.SIGSTOP)
		return
	}
	p.signal(t, syscall.SIGCONT)
}

func (p *Process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

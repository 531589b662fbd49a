package listen

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
)

// open listens on a free address of a network.
func open(t *testing.T, network string) net.Listener {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	ln, err := Open(network, addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// dial connects to ln.
func dial(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// accept accepts one connection.
func accept(t *testing.T, ln net.Listener) error {
	t.Helper()
	c, err := ln.Accept()
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return err
}

// Whoever is connected when a listener closes is let in, however late somebody
// comes to accept.
func TestCloseLetsTheLastOnesIn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		ln := open(t, network)
		const rest = 20
		for range 1 + rest {
			dial(t, ln)
		}
		if err := accept(t, ln); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- ln.Close() }()
		for i := range rest {
			if err := accept(t, ln); err != nil {
				t.Fatalf("%s: connection %d of %d: %v", network, i, rest, err)
			}
		}
		if err := accept(t, ln); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: got %v, want that it is closed", network, err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
}

// With nobody who accepts, or nobody who still does, Close does not wait for
// ever.
func TestCloseEnds(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, accepted := range []bool{false, true} {
			ln := open(t, network)
			dial(t, ln)
			ln.(*queueListener).called.Store(accepted)
			if err := ln.Close(); err != nil {
				t.Error(err)
			}
			if _, err := ln.Accept(); err == nil {
				t.Error("accepted by a closed listener")
			}
			if err := ln.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed again: %v", err)
			}
		}
	}
}

// A socket that nobody listens on is no obstacle, one that somebody does is.
func TestDeadSocketIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if _, err := Open("unix", path, nil); err == nil {
		t.Error("two listen on one socket")
	}
	dead.Close()
	ln, err := Open("unix", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}

package listen

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Who begins to connect to a socket that closes has no answer, and a refusal
// afterwards; who had begun is let in.
func TestRefuse(t *testing.T) {
	// The kernel keeps these handshakes open until there is data.
	deferred := func(_, _ string, c syscall.RawConn) error {
		var err error
		if wrong := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 120) }); wrong != nil {
			return wrong
		}
		return err
	}
	ln, err := Open("tcp", "127.0.0.1:0", deferred)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	begun := dial(t, ln)
	socket := ln.(*queueListener).socket
	if waiting(socket) {
		t.Fatal("the handshake has ended")
	}
	if err := refuseConnects(socket); err != nil {
		t.Fatal(err)
	}
	d := net.Dialer{Timeout: 300 * time.Millisecond}
	var late net.Error
	if c, err := d.Dial("tcp", ln.Addr().String()); !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("a socket that refuses is reached: %v, %v", c, err)
	}
	if _, err := begun.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 8)); n != 1 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a socket that is closed: %v", err)
	}
}

// However many connect while a listener closes, each that gets through is served.
func TestCloseCutsNobodyOff(t *testing.T) {
	ln := open(t, "tcp")
	var accepted, got atomic.Int64
	var server, clients sync.WaitGroup
	server.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			server.Go(func() {
				defer c.Close()
				if _, err := io.CopyN(c, c, 1); err != nil {
					t.Errorf("answer: %v", err)
				}
			})
		}
	})
	for range 16 {
		clients.Go(func() {
			for {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					if !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("connect: %v", err)
					}
					return
				}
				if _, err := c.Write([]byte("x")); err != nil {
					t.Errorf("send: %v", err)
				}
				if _, err := c.Read(make([]byte, 1)); err != nil {
					t.Errorf("cut off: %v", err)
				}
				got.Add(1)
				c.Close()
			}
		})
	}
	servertest.Await(t, "clients to be served", func() bool { return got.Load() >= 100 })
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	server.Wait()
	clients.Wait()
	if accepted.Load() != got.Load() {
		t.Errorf("%d were accepted, %d served", accepted.Load(), got.Load())
	}
}

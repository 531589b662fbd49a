package servertest_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// echo answers each line with itself.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return ln.Addr().String()
}

// said sends a line over a new connection and returns the answer and how long it
// took.
func said(t *testing.T, addr string, wait time.Duration) (string, time.Duration, error) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begin := time.Now()
	if err := conn.SetDeadline(begin.Add(wait)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return "", 0, err
	}
	text, err := bufio.NewReader(conn).ReadString('\n')
	return text, time.Since(begin), err
}

func TestProxy(t *testing.T) {
	const long, short = 20 * time.Second, 50 * time.Millisecond
	p := servertest.NewProxy(t, echo(t))
	whole := func() {
		t.Helper()
		if text, _, err := said(t, p.Addr, long); text != "hello\n" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	}
	whole()
	p.Delay(servertest.Replies, short)
	if text, took, err := said(t, p.Addr, long); text != "hello\n" || err != nil || took < short {
		t.Errorf("delayed by %s: %q after %s, %v", short, text, took, err)
	}
	p.Delay(servertest.Replies, 0)
	for _, w := range []servertest.Way{servertest.Requests, servertest.Replies} {
		p.Stall(w, true)
		if text, _, err := said(t, p.Addr, short); text != "" || !isTimeout(err) {
			t.Errorf("stalled: %q, %v", text, err)
		}
		p.Stall(w, false)
		whole()
	}
	p.CutAfter(3)
	if text, _, err := said(t, p.Addr, long); len(text) > 3 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("cut after 3 bytes: %q, %v", text, err)
	}
	whole()

	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	one := make([]byte, 1)
	ask := func() error {
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err := conn.Read(one)
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	p.HalfClose()
	if _, err := conn.Read(one); !errors.Is(err, io.EOF) {
		t.Errorf("half-closed: %v", err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Errorf("half-closed, written to: %v", err)
	}
	p.Reset()
	servertest.Await(t, "the reset", func() bool { return errors.Is(ask(), syscall.ECONNRESET) || errors.Is(ask(), syscall.EPIPE) })
	p.Target(echo(t))
	whole()
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

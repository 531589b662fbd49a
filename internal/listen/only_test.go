package listen

import (
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

func TestOnly(t *testing.T) {
	var welcome atomic.Bool
	serve := func(network, addr string) net.Listener {
		ln, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		ln = AcceptOnly(ln, func(a netip.Addr) bool {
			if a != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("asked about %s", a)
			}
			return welcome.Load()
		})
		t.Cleanup(func() { ln.Close() })
		return ln
	}
	tcp := serve("tcp", "127.0.0.1:0")
	greeted := func(ln net.Listener) bool {
		c, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(c)
		return err == nil && string(b) == "hello"
	}
	greet := func(ln net.Listener) {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello")
			c.Close()
		}
	}
	go greet(tcp)
	if greeted(tcp) {
		t.Error("a stranger was let in")
	}
	welcome.Store(true)
	if !greeted(tcp) {
		t.Error("a friend was not let in")
	}
	unix := serve("unix", filepath.Join(t.TempDir(), "s"))
	go greet(unix)
	if !greeted(unix) {
		t.Error("a peer without an address was not let in")
	}
}

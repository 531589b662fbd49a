package proxyprotocol_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/proxyprotocol"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

const sigV2 = "\r\n\r\n\x00\r\nQUIT\n"

// v2 builds a header of version 2.
func v2(command, family byte, body string) string {
	return sigV2 + string([]byte{command, family}) + string(binary.BigEndian.AppendUint16(nil, uint16(len(body)))) + body
}

// ends are the addresses and ports of v2.
func ends(src, dst string, sport, dport uint16) string {
	b := append(netip.MustParseAddr(src).AsSlice(), netip.MustParseAddr(dst).AsSlice()...)
	return string(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, sport), dport))
}

// prefixes are the peers that send headers.
func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range texts {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// echoPeer serves HTTP behind the PROXY protocol and answers each request with
// the peer as the server sees it.
func echoPeer(t *testing.T, opt proxyprotocol.Options) (addr string, ln *proxyprotocol.Listener) {
	t.Helper()
	inner := servertest.Listen(t)
	ln, err := proxyprotocol.Listen(inner, opt)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return inner.Addr().String(), ln
}

// ask sends a header and a request over a new connection. It returns the
// answer's body, or "closed".
func ask(t *testing.T, addr, header string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, header+"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "closed"
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		return fmt.Sprint(resp.StatusCode)
	}
	if host, _, _ := strings.Cut(string(b), ":"); host == "127.0.0.1" {
		return "peer"
	}
	return string(b)
}

func TestHeaders(t *testing.T) {
	addr, ln := echoPeer(t, proxyprotocol.Options{From: prefixes("127.0.0.0/8")})
	f := func(want, header string) {
		t.Helper()
		if got := ask(t, addr, header); got != want {
			t.Errorf("%q: %s, not %s", header, got, want)
		}
	}
	f("203.0.113.7:4711", "PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n")
	f("[2001:db8::1]:4711", "PROXY TCP6 2001:db8::1 ::1 4711 443\r\n")
	f("203.0.113.7:0", "PROXY TCP6 ::ffff:203.0.113.7 ::1 0 65535\r\n")
	f("[2001:db8:1:2:3:4:5:6]:65535", "PROXY TCP6 2001:0db8:0001:0002:0003:0004:0005:0006 2001:0db8:0001:0002:0003:0004:0005:0006 65535 65535\r\n")
	f("peer", "PROXY UNKNOWN\r\n")
	f("peer", "PROXY UNKNOWN 203.0.113.7 10.0.0.1 4711 443\r\n")
	f("peer", "PROXY UNKNOWN "+strings.Repeat("x", 107-16)+"\r\n")

	four := ends("203.0.113.7", "10.0.0.1", 4711, 443)
	f("203.0.113.7:4711", v2(0x21, 0x11, four))
	f("203.0.113.7:4711", v2(0x21, 0x12, four))
	f("[2001:db8::1]:4711", v2(0x21, 0x21, ends("2001:db8::1", "::1", 4711, 443)))
	f("203.0.113.7:4711", v2(0x21, 0x11, four+"\x04\x00\x01x"+strings.Repeat("\xea", 3000))) // extensions
	f("peer", v2(0x20, 0x00, ""))
	f("peer", v2(0x20, 0x11, four)) // LOCAL: the proxy itself
	f("peer", v2(0x21, 0x00, "whatever"))
	f("peer", v2(0x21, 0x31, strings.Repeat("\x00", 216)))

	before := ln.Refused()
	broken := []string{
		"", "PROXY", "PROXY TCP4 203.0.113.7 10.0.0.1 4711\r\n", "PROXY TCP4 203.0.113.7 10.0.0.1 4711 443 x\r\n", "PROXY  TCP4 203.0.113.7 10.0.0.1 4711 443\r\n",
		"PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\n", "PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\r\n", "PROXY TCP4 2001:db8::1 ::1 1 2\r\n", "PROXY TCP6 203.0.113.7 10.0.0.1 1 2\r\n",
		"PROXY TCP4 203.0.113.7 10.0.0.1 65536 443\r\n", "PROXY TCP4 203.0.113.7 10.0.0.1 -1 443\r\n", "PROXY TCP4 203.0.113.7 10.0.0.1 01 443\r\n", "PROXY TCP4 203.0.113.007 10.0.0.1 1 443\r\n",
		"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "PROXY UDP4 203.0.113.7 10.0.0.1 1 2\r\n", "PROXY UNKNOWNX 203.0.113.7\r\n", "proxy TCP4 203.0.113.7 10.0.0.1 4711 443\r\n",
		"PROXY UNKNOWN " + strings.Repeat("x", 107-15) + "\r\n", "PROXY TCP4 " + strings.Repeat("1", 5000) + "\r\n", "PROXY \r\n" + strings.Repeat("\n", 20),
		v2(0x11, 0x11, four), v2(0x22, 0x11, four), v2(0x21, 0x41, four), v2(0x21, 0x13, four), v2(0x21, 0x11, four[:11]), v2(0x21, 0x21, four), v2(0x21, 0x11, four+strings.Repeat("x", 4096)),
		sigV2[:11] + "x" + "\x21\x11\x00\x0c" + four,
	}
	for _, h := range broken {
		f("closed", h)
	}
	if n := ln.Refused() - before; n != uint64(len(broken)) {
		t.Errorf("%d refused of %d", n, len(broken))
	}
}

// TestStrangers: who is not listed cannot name an address. To
// the server what he sends is not HTTP.
func TestStrangers(t *testing.T) {
	addr, ln := echoPeer(t, proxyprotocol.Options{From: prefixes("10.0.0.0/8")})
	for want, header := range map[string]string{"peer": "", "400": "PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n"} {
		if got := ask(t, addr, header); got != want {
			t.Errorf("%q: %s, not %s", header, got, want)
		}
	}
	if got := ask(t, addr, v2(0x21, 0x11, ends("203.0.113.7", "10.0.0.1", 4711, 443))); got != "400" {
		t.Error(got)
	}
	if ln.Refused() != 0 {
		t.Error("a header was read")
	}
}

// TestSlowProxies: those who keep their header to themselves hold up nobody,
// and not for long.
func TestSlowProxies(t *testing.T) {
	const timeout = 3 * time.Second
	told := new(closings)
	addr, ln := echoPeer(t, proxyprotocol.Options{From: prefixes("127.0.0.0/8"), Timeout: timeout, MaxPending: 20, Log: slog.New(told)})
	var slow []net.Conn
	for i := range 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n"[:i])
		if i < 10 {
			slow = append(slow, c)
		} else {
			c.Close()
		}
	}
	start := time.Now()
	servertest.Await(t, "those who hung up", func() bool { return ln.Refused() >= 10 })
	if got := ask(t, addr, "PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n"); got != "203.0.113.7:4711" {
		t.Error(got)
	}
	if took := time.Since(start); took >= timeout {
		t.Errorf("held up for %s", took)
	}
	for _, c := range slow {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("closed after %s", took)
	}
	if n := ln.Refused(); n != 20 {
		t.Errorf("%d refused", n)
	}
	if lines, most := told.Load(), int64(time.Since(start)/time.Second)+2; lines < 1 || lines > most {
		t.Errorf("%d lines were logged of 20 connections, want 1 to %d, one a second", lines, most)
	}
}

// closings counts what is logged of connections that are closed.
type closings struct{ atomic.Int64 }

func (c *closings) Enabled(context.Context, slog.Level) bool { return true }
func (c *closings) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *closings) WithGroup(string) slog.Handler            { return c }
func (c *closings) Handle(context.Context, slog.Record) error {
	c.Add(1)
	return nil
}

// TestSlowAccept: connections whose header is there wait to be accepted, and
// none is lost for want of room.
func TestSlowAccept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		inner := make(pipes)
		ln, err := proxyprotocol.Listen(inner, proxyprotocol.Options{From: prefixes("127.0.0.1/32"), MaxPending: 4})
		if err != nil {
			t.Fatal(err)
		}
		const n = 16
		for range n {
			in, out := net.Pipe()
			go func() {
				inner <- pipe{in}
				io.WriteString(out, "PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n")
			}()
			synctest.Wait()
		}
		for range n {
			c, err := ln.Accept()
			if err != nil || c.RemoteAddr().String() != "203.0.113.7:4711" {
				t.Fatal(c, err)
			}
			c.Close()
			synctest.Wait()
		}
		if got := ln.Refused(); got != 0 {
			t.Errorf("%d refused", got)
		}
		ln.Close()
	})
}

// TestDeadlineIsOfTheHeader: a connection may be idle for as long as the server
// lets it, once its header is there.
func TestDeadlineIsOfTheHeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		inner := make(pipes)
		ln, err := proxyprotocol.Listen(inner, proxyprotocol.Options{From: prefixes("127.0.0.1/32"), Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		in, out := net.Pipe()
		go func() {
			inner <- pipe{in}
			io.WriteString(out, "PROXY UNKNOWN\r\n")
			time.Sleep(time.Hour)
			io.WriteString(out, "hello")
		}()
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
		ln.Close()
	})
}

// pipes is a listener for connections that are made here.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

type pipe struct{ net.Conn }

func (p pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestBounded: more than MaxPending connections do not wait.
func TestBounded(t *testing.T) {
	defer servertest.NoLeaks(t)
	inner := servertest.Listen(t)
	ln, err := proxyprotocol.Listen(inner, proxyprotocol.Options{From: prefixes("127.0.0.1/32"), MaxPending: 2, Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan bool)
	for range 5 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			c.Read(make([]byte, 1))
			closed <- true
		}()
	}
	for range 3 {
		<-closed
	}
	if n := ln.Refused(); n != 3 {
		t.Errorf("%d refused", n)
	}
	// Close ends the two that wait, and leaves nothing behind.
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	<-closed
	<-closed
	if c, err := ln.Accept(); c != nil || err == nil {
		t.Error("accepts after Close")
	}
}

func TestProxiedConnections(t *testing.T) {
	inner := servertest.Listen(t)
	ln, err := proxyprotocol.Listen(inner, proxyprotocol.Options{From: prefixes("127.0.0.1/32")})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	out, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	// What follows the header in the same packet is not lost.
	io.WriteString(out, "PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\nhello")
	in, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	b := make([]byte, 5)
	if _, err := io.ReadFull(in, b); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	if _, ok := in.(io.ReaderFrom); !ok {
		t.Error("cannot send files")
	}
	if _, ok := in.(interface{ CloseWrite() error }); !ok {
		t.Error("cannot close one direction")
	}
	if _, err := proxyprotocol.Listen(inner, proxyprotocol.Options{}); err == nil {
		t.Error("believes nobody, and is taken")
	}
}

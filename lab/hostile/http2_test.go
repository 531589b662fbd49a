package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Frame types and flags of RFC 9113 §6.
const (
	frameData, frameHeaders, framePriority, frameReset, frameSettings = 0, 1, 2, 3, 4
	framePing, frameGoAway, frameWindowUpdate, frameContinuation      = 6, 7, 8, 9
	endStream, endHeaders, ack                                        = 1, 4, 1
	preface                                                           = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// frame returns a frame of RFC 9113 §4.1.
func frame(kind, flags byte, stream uint32, payload string) string {
	var b [9]byte
	binary.BigEndian.PutUint32(b[:4], uint32(len(payload))<<8|uint32(kind))
	b[4] = flags
	binary.BigEndian.PutUint32(b[5:], stream)
	return string(b[:]) + payload
}

// field returns a literal field that is not indexed, of RFC 7541 §6.2.2, with a
// name and value shorter than 127 bytes.
func field(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

// request returns the fields of a request.
func request(method, authority, path string) string {
	return field(":method", method) + field(":scheme", "http") + field(":authority", authority) + field(":path", path)
}

// h2 opens a connection that speaks HTTP/2, and sends settings.
func (s *node) h2() (net.Conn, error) {
	c, err := s.try()
	if err == nil {
		_, err = io.WriteString(c, preface+frame(frameSettings, 0, 0, ""))
	}
	return c, err
}

// flood sends what next makes until the node closes the connection or limit
// bytes are sent, reading what it says. It returns how much was sent, and the
// frames of GOAWAY's error code, -1 for none.
func (s *node) flood(limit int, next func(i int) string) (sent int, code int, err error) {
	c, err := s.h2()
	if err != nil {
		return 0, -1, err
	}
	defer c.Close()
	said := make(chan string, 1)
	go func() { b, _ := closed(c); said <- b }()
	for i := 0; sent < limit; i++ {
		b := next(i)
		if _, err := io.WriteString(c, b); err != nil {
			break
		}
		sent += len(b)
	}
	c.(*net.TCPConn).CloseWrite()
	return sent, goAway(<-said), nil
}

// goAway returns the error code of the last GOAWAY frame, -1 for none.
func goAway(b string) int {
	code := -1
	for len(b) >= 9 {
		size := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		if len(b) < 9+size {
			break
		}
		if b[3] == frameGoAway && size >= 8 {
			code = int(binary.BigEndian.Uint32([]byte(b[13:17])))
		}
		b = b[9+size:]
	}
	return code
}

// TestRapidReset: streams that are opened and reset at once, without end
// (CVE-2023-44487). The node never works on more than it allows at a time, and
// each counts against the limit. The connection of who goes on is ended when what
// is begun does not keep up, which on one processor it does.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	const limit = 5000
	s := serve(t, "--limit", fmt.Sprintf("%d/hour by ip", limit), "--upstream", u.URL)
	s.attack(t, 256*mib, func() {
		fields := request("GET", "h", "/hold")
		var ended atomic.Int64
		each(8, func(int) {
			_, code, err := s.flood(n(8, 64)*mib, func(i int) string {
				var b strings.Builder
				for k := range 50 {
					stream := uint32(2*(50*i+k) + 1)
					b.WriteString(frame(frameHeaders, endStream|endHeaders, stream, fields))
					b.WriteString(frame(frameReset, 0, stream, "\x00\x00\x00\x08"))
				}
				return b.String()
			})
			if err != nil {
				t.Error(err)
			}
			if code > 0 {
				ended.Add(1)
			}
		})
		t.Logf("%d of 8 connections were ended", ended.Load())
		if got := u.requests.Load(); got > limit+1000 {
			t.Errorf("the upstream had %d requests", got)
		}
		servertest.Await(t, "the upstream to be let go", func() bool { return u.underWay.Load() == 0 })
	})
}

// TestHTTP2Floods: frames that cost the sender nothing. What they cost the node
// is time in proportion to what is sent, and no memory; where a flood would
// have to be kept, it ends the connection.
func TestHTTP2Floods(t *testing.T) {
	t.Parallel()
	s := serve(t, "--limit", unlimited, "--upstream", nginx(t))
	block := request("GET", "h", "/")
	limit := n(256, 32<<10) << 10
	for name, f := range map[string]struct {
		ends bool // the node ends the connection before all is sent
		next func(i int) string
	}{
		// CVE-2024-27316 and its kin: header blocks that do not end.
		"continuation": {true, func(i int) string {
			if i == 0 {
				return frame(frameHeaders, endStream, 1, block)
			}
			return frame(frameContinuation, 0, 1, strings.Repeat(field("a", "b"), 2000))
		}},
		"empty continuation": {false, func(i int) string {
			if i == 0 {
				return frame(frameHeaders, endStream, 1, block)
			}
			return strings.Repeat(frame(frameContinuation, 0, 1, ""), 1000)
		}},
		// A field of 4 kB that is named once and then again by one byte.
		"bomb": {false, func(i int) string {
			stream := uint32(2*i + 1)
			big := ""
			if i == 0 {
				big = "\x40\x01x\x7f\x81\x1e" + strings.Repeat("y", 127+1+30*128) // indexed as 62
			}
			return frame(frameHeaders, endStream|endHeaders, stream, block+big+strings.Repeat("\xbe", 12_000))
		}},
		"settings": {false, func(int) string { return strings.Repeat(frame(frameSettings, 0, 0, ""), 1000) }},
		"ping":     {false, func(int) string { return strings.Repeat(frame(framePing, 0, 0, "12345678"), 1000) }},
		"priority": {false, func(i int) string {
			return strings.Repeat(frame(framePriority, 0, uint32(2*i+1), "\x00\x00\x00\x00\x10"), 1000)
		}},
		"window": {false, func(int) string { return strings.Repeat(frame(frameWindowUpdate, 0, 0, "\x00\x00\x00\x01"), 1000) }},
		"empty data": {false, func(i int) string {
			if i == 0 {
				return frame(frameHeaders, endHeaders, 1, request("POST", "h", "/"))
			}
			return strings.Repeat(frame(frameData, 0, 1, ""), 1000)
		}},
		"unknown": {false, func(int) string { return frame(0xfa, 0, 0, strings.Repeat("x", 16<<10)) }},
		"large":   {true, func(int) string { return frame(frameData, 0, 1, strings.Repeat("x", 1<<20)) }},
	} {
		t.Run(name, func(t *testing.T) {
			s.attack(t, 96*mib, func() {
				each(4, func(int) {
					sent, code, err := s.flood(limit, f.next)
					if err != nil {
						t.Error(err)
					}
					if f.ends && sent >= limit && code <= 0 {
						t.Errorf("%d bytes were read, GOAWAY %d", sent, code)
					}
				})
			})
		})
	}
}

// TestUnreadControlFrames: who asks for acknowledgements and reads none is cut
// off before they pile up.
func TestUnreadControlFrames(t *testing.T) {
	t.Parallel()
	s := serve(t, "--limit", unlimited, "--upstream", nginx(t), "--config", servertest.Config(t, "http: {stall_timeout: 2s}"))
	s.attack(t, 64*mib, func() {
		each(2, func(int) {
			for range 8 {
				if ended := s.pingUnread(t); ended {
					return
				}
			}
			t.Error("no connection was ended")
		})
	})
}

// pingUnread sends PING without end and reads none of the answers, until the
// server ends the connection. It returns false when nothing moves any more, on
// either side: a receiver whose buffer is full drops what acknowledges its own
// data, and then both kernels wait for ever longer. Nobody is attacked then.
func (s *node) pingUnread(t *testing.T) (ended bool) {
	c, err := s.h2()
	if err != nil {
		t.Error(err)
		return true
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4096)
	piece := bytes.Repeat([]byte(frame(framePing, 0, 0, "12345678")), 1000)
	for range 100_000 {
		if err := c.SetWriteDeadline(time.Now().Add(patience / 8)); err != nil {
			t.Error(err)
			return true
		}
		if _, err := c.Write(piece); err != nil {
			e, ok := err.(net.Error)
			return !ok || !e.Timeout()
		}
	}
	t.Error("a hundred million frames were read")
	return true
}

// TestStalledStreams: streams whose client gives no room for their answers, on
// a connection that is otherwise alive, end like connections that are not read.
func TestStalledStreams(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", unlimited, "--upstream", u.URL, "--config", servertest.Config(t, "http: {stall_timeout: 1s}"))
	s.attack(t, 128*mib, func() {
		each(8, func(int) {
			c, err := s.h2()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for i := range 50 {
				io.WriteString(c, frame(frameHeaders, endStream|endHeaders, uint32(2*i+1), request("GET", "h", "/big")))
			}
			go closed(c)
			servertest.Await(t, "all to be under way", func() bool { return u.requests.Load() >= 8*50 })
			end := time.Now().Add(2 * time.Minute)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for ; u.underWay.Load() > 8; <-tick.C {
				if time.Now().After(end) {
					t.Errorf("%d streams are still under way", u.underWay.Load())
					return
				}
				io.WriteString(c, frame(framePing, 0, 0, "12345678"))
			}
		})
	})
}

// TestStalledUploads: the same for bodies that do not come.
func TestStalledUploads(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", unlimited, "--upstream", u.URL, "--config", servertest.Config(t, "http: {read_timeout: 0s, stall_timeout: 1s}"))
	s.attack(t, 64*mib, func() {
		each(8, func(int) {
			c, err := s.h2()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for i := range 50 {
				stream := uint32(2*i + 1)
				io.WriteString(c, frame(frameHeaders, endHeaders, stream, request("POST", "h", "/read"))+frame(frameData, 0, stream, "x"))
			}
			go closed(c)
			servertest.Await(t, "all to be under way", func() bool { return u.requests.Load() >= 8*50 })
			servertest.Await(t, "the upstream to be let go", func() bool { return u.underWay.Load() <= 1 })
		})
	})
}

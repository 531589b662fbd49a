package grpcserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Frame types and flags of RFC 9113 §6.
const (
	frameData, frameHeaders, frameReset, frameSettings = 0, 1, 3, 4
	framePing, frameGoAway                             = 6, 7
	endStream, endHeaders                              = 1, 4
	preface                                            = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// frame returns a frame of RFC 9113 §4.1.
func frame(kind, flags byte, stream uint32, payload string) string {
	var b [9]byte
	binary.BigEndian.PutUint32(b[:4], uint32(len(payload))<<8|uint32(kind))
	b[4] = flags
	binary.BigEndian.PutUint32(b[5:], stream)
	return string(b[:]) + payload
}

// literal returns a field that is not indexed, of RFC 7541 §6.2.2.
func literal(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

// fields returns those of a call of Do.
func fields(more ...string) string {
	return literal(":method", "POST") + literal(":scheme", "http") + literal(":path", method) + literal(":authority", "h") +
		literal("content-type", "application/grpc") + literal("te", "trailers") + strings.Join(more, "")
}

// raw opens a connection that speaks HTTP/2, and sends settings.
func (r *running) raw(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, preface+frame(frameSettings, 0, 0, "")); err != nil {
		t.Fatal(err)
	}
	return c
}

// closed reads until the server closes the connection, for a minute at most.
func closed(t *testing.T, c net.Conn) []byte {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Fatal("the server does not close the connection")
	}
	return b
}

// attack has others served while attack runs, and memory bounded.
func attack(t *testing.T, r *running, most uint64, attack func()) {
	t.Helper()
	c := r.dial(t, nil)
	if _, err := ask(c, "before"); err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := heap()
	over := make(chan struct{})
	go func() { defer close(over); attack() }()
	for {
		if _, err := ask(c, "neighbour"); err != nil {
			t.Errorf("a neighbour was not served: %v", err)
			<-over
			return
		}
		select {
		case <-over:
			// What was cut off takes a moment to go.
			servertest.Await(t, fmt.Sprintf("no more than %d KiB to be held", most>>10), func() bool { return heap() <= before+most })
			return
		default:
		}
	}
}

// Streams that are opened and reset at once, without end (CVE-2023-44487).
func TestRapidReset(t *testing.T) {
	r := serve(t, Options{}, nil)
	attack(t, r, 16<<20, func() {
		c := r.raw(t)
		go io.Copy(io.Discard, c) // what it says is of no account
		head := fields()
		var b strings.Builder
		for i := range uint32(50_000) {
			stream := 2*i + 1
			b.WriteString(frame(frameHeaders, endHeaders, stream, head))
			b.WriteString(frame(frameReset, 0, stream, "\x00\x00\x00\x08"))
			if b.Len() > 32<<10 {
				if _, err := io.WriteString(c, b.String()); err != nil {
					return // it was cut off, as it should
				}
				b.Reset()
			}
		}
		c.Close()
	})
	servertest.Await(t, "calls that have ended not to be counted", func() bool { return r.calls.open.Load() <= 32 })
}

// Calls whose message does not come hold a place until their time is over; those
// beyond the bound are refused, and others are served again when they are gone.
func TestCallsWithoutMessages(t *testing.T) {
	t.Parallel()
	const most = 50
	r := serve(t, Options{MaxCalls: most, MaxStreams: most + 10, CallTimeout: 5 * time.Second}, nil)
	c := r.raw(t)
	go io.Copy(io.Discard, c)
	var b strings.Builder
	for i := range uint32(most) {
		b.WriteString(frame(frameHeaders, endHeaders, 2*i+1, fields(literal("grpc-timeout", "9999H"))))
	}
	// Half a message.
	b.WriteString(frame(frameData, 0, 1, "\x00\x00\x00\x00\x09half"))
	if _, err := io.WriteString(c, b.String()); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "all places to be taken", func() bool { return r.calls.open.Load() == most })
	other := r.dial(t, nil)
	if _, err := ask(other, "x"); err == nil {
		t.Error("one above the bound was answered")
	}
	near, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	if err := other.Invoke(near, method, wrapperspb.Bytes(nil), new(wrapperspb.BytesValue)); status.Code(err) != codes.Unavailable {
		t.Errorf("above the bound, with a deadline that is near: %v", err)
	}
	servertest.Await(t, "the others to be served again", func() bool { _, err := ask(other, "x"); return err == nil })
}

// More calls at once than a connection may have are refused, others wait.
func TestStreamsAreBounded(t *testing.T) {
	r := serve(t, Options{MaxStreams: 2, CallTimeout: time.Minute}, nil)
	c := r.raw(t)
	said := make(chan []byte, 1)
	go func() { b, _ := io.ReadAll(c); said <- b }()
	var b strings.Builder
	for i := range uint32(5) {
		b.WriteString(frame(frameHeaders, endHeaders, 2*i+1, fields()))
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "two calls to be open", func() bool { return r.calls.open.Load() == 2 })
	if _, err := ask(r.dial(t, nil), "x"); err != nil {
		t.Errorf("another connection: %v", err)
	}
	c.(*net.TCPConn).CloseWrite()
	if n := bytes.Count(<-said, []byte("\x00\x00\x04\x03")); n != 3 { // RST_STREAM of four bytes
		t.Errorf("%d calls were refused, want 3", n)
	}
}

// A message beyond the bound is refused, whatever it says of its length.
func TestMessagesAreBounded(t *testing.T) {
	r := serve(t, Options{MaxMessage: 10_000}, nil)
	c := r.dial(t, nil)
	if _, err := ask(c, strings.Repeat("x", 20_000)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	if _, err := ask(c, strings.Repeat("x", 9_000)); err != nil {
		t.Errorf("within the bound: %v", err)
	}
	// As large as they may be, they come through windows that are smaller.
	if got, err := ask(serve(t, Options{}, nil).dial(t, nil), strings.Repeat("x", 1<<20-100)); err != nil || len(got) != 1<<20-100 {
		t.Errorf("a MiB: %d bytes, %v", len(got), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A header of 64 KiB.
	err := c.Invoke(withHeader(ctx, strings.Repeat("y", 64<<10)), method, wrapperspb.Bytes(nil), new(wrapperspb.BytesValue))
	if err == nil {
		t.Error("a header of 64 KiB was taken")
	}
}

// Connections that say nothing, or something else, are closed in time.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	r := serve(t, Options{HandshakeTimeout: 100 * time.Millisecond}, nil)
	for _, says := range []string{"", preface[:5], preface, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"} {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, says); err != nil {
			t.Fatal(err)
		}
		closed(t, c)
	}
}

// A client whose machine has gone does not answer pings, and is cut off.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	r := serve(t, Options{PingAfter: time.Second, PingTimeout: 3 * time.Second}, nil)
	answers := r.dial(t, nil)
	if _, err := ask(answers, "x"); err != nil {
		t.Fatal(err)
	}
	silent := r.raw(t)
	closed(t, silent)
	if _, err := ask(answers, "x"); err != nil {
		t.Errorf("a client that answers: %v", err)
	}
}

// Who pings without end is told to calm down, and is cut off.
func TestPingFlood(t *testing.T) {
	t.Parallel()
	r := serve(t, Options{}, nil)
	c := r.raw(t)
	pings := strings.Repeat(frame(framePing, 0, 0, "12345678"), 10)
	if _, err := io.WriteString(c, pings); err != nil {
		t.Fatal(err)
	}
	said := closed(t, c)
	if !bytes.Contains(said, []byte("too_many_pings")) {
		t.Errorf("said %q", said)
	}
}

// More connections than there is room for wait, and those that there are go on.
func TestConnectionsAreBounded(t *testing.T) {
	r := serve(t, Options{MaxConnections: 2}, nil)
	c := r.dial(t, nil)
	if _, err := ask(c, "x"); err != nil {
		t.Fatal(err)
	}
	held := r.raw(t)
	for range 20 {
		r.raw(t)
	}
	for range 10 {
		if _, err := ask(c, "x"); err != nil {
			t.Errorf("beside a flood of connections: %v", err)
		}
	}
	held.Close()
}

// Who takes nothing of what it is sent is cut off in time.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 900<<10)
	r := serve(t, Options{StallTimeout: 200 * time.Millisecond, MaxMessage: 4 << 20},
		func(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			return wrapperspb.Bytes([]byte(large)), nil
		})
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	// Windows of a gigabyte, and thirty calls.
	var b strings.Builder
	b.WriteString(preface + frame(frameSettings, 0, 0, "\x00\x04\x3f\xff\xff\xff") + frame(8, 0, 0, "\x3f\xff\x00\x00"))
	for i := range uint32(30) {
		b.WriteString(frame(frameHeaders, endHeaders, 2*i+1, fields()) + frame(frameData, endStream, 2*i+1, "\x00\x00\x00\x00\x00"))
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		t.Fatal(err)
	}
	// Nothing is read. The server lets go: writing to it fails in the end.
	servertest.Await(t, "the connection to be cut off", func() bool {
		_, err := io.WriteString(c, frame(framePing, 1, 0, "12345678"))
		return err != nil
	})
}

// A connection ends when it is old, and the client does not notice.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	r := serve(t, Options{MaxAge: 150 * time.Millisecond, MaxAgeGrace: 30 * time.Second}, nil)
	c := r.dial(t, nil)
	began := time.Now()
	for time.Since(began) < 600*time.Millisecond {
		if _, err := ask(c, "x"); err != nil {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
	}
	raw := r.raw(t)
	if said := closed(t, raw); !bytes.Contains(said, []byte("max_age")) {
		t.Errorf("an old connection was told %q", said)
	}
}

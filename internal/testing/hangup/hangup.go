// Package hangup plays clients that hang up: before their response, in it, in the middle
// of what they send, over HTTP/1.1 and HTTP/2.
package hangup

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Way is a way to hang up.
type Way struct {
	Name string
	// Path is what is asked for, see [Handler].
	Path string
	do   func(c *client)
}

// Handler serves the paths of ways: /late answers 401 when its client has hung up, /head
// before it but for the end, and /large more than connections hold. Bodies are read if they
// are whole.
type Handler struct {
	// Obedient: /late does what many handlers do whose context has ended, and says 500.
	Obedient bool
	mu       sync.Mutex
	now      play
}

// play is one request: it has come, and its client has left.
type play struct{ come, left chan struct{} }

// some is a body, or a part of one that is sent on at once.
var some = strings.Repeat("x", 8192)

// Large is how many bytes /large has at most.
const Large = 64 << 20

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	now := h.now
	h.mu.Unlock()
	if r.ContentLength == int64(len(some)) {
		_, _ = io.Copy(io.Discard, r.Body) // it comes, or breaks off
	}
	refuse := func() {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	}
	// Else net/http reads the rest of a body before it answers. HTTP/2 has no need of it.
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Connection", "close") // as it would fail then with the next request
	if r.URL.Path != "/late" {
		refuse()
		_ = http.NewResponseController(w).Flush()
	}
	close(now.come)
	switch r.URL.Path {
	case "/late":
		select {
		case <-r.Context().Done():
			if h.Obedient {
				http.Error(w, r.Context().Err().Error(), http.StatusInternalServerError)
				return
			}
		case <-now.left:
		}
		refuse()
	case "/head":
		<-now.left
	case "/large":
		for range Large >> 16 {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				panic(http.ErrAbortHandler) // as httputil.ReverseProxy does
			}
		}
	}
}

// Play hangs up at the address of a server in one way, before h or what h is behind.
func (w Way) Play(t testing.TB, addr string, h *Handler) {
	t.Helper()
	now := play{make(chan struct{}), make(chan struct{})}
	h.mu.Lock()
	h.now = now
	h.mu.Unlock()
	defer close(now.left)
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.do(&client{t: t, path: w.Path, conn: conn.(*net.TCPConn), come: now.come})
}

// client is a client of one request.
type client struct {
	t      testing.TB
	path   string
	conn   *net.TCPConn
	come   <-chan struct{}
	framer *http2.Framer
}

// must ends the test at an error.
func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a request of HTTP/1.1 with further text, and waits until it is served; head
// says that its response is begun.
func (c *client) ask(more string) {
	_, err := io.WriteString(c.conn, "POST "+c.path+" HTTP/1.1\r\nHost: h\r\n"+more)
	c.must(err)
	c.wait()
	if c.path != "/late" {
		res, err := http.ReadResponse(bufio.NewReaderSize(c.conn, 16), nil)
		c.must(err)
		if res.StatusCode != http.StatusUnauthorized {
			c.t.Errorf("answered %d", res.StatusCode)
		}
	}
}

func (c *client) wait() {
	c.t.Helper()
	select {
	case <-c.come:
	case <-time.After(time.Minute):
		c.t.Fatal("nothing came")
	}
}

// reset breaks the connection off.
func (c *client) reset() {
	c.must(c.conn.SetLinger(0))
	c.must(c.conn.Close())
}

// ask2 is ask over HTTP/2, with a body that ends or not.
func (c *client) ask2(whole bool) {
	c.framer = http2.NewFramer(c.conn, c.conn)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err := io.WriteString(c.conn, http2.ClientPreface)
	c.must(err)
	c.must(c.framer.WriteSettings())
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "h"}, {":path", c.path}} {
		c.must(enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: whole, EndHeaders: true}))
	if !whole {
		c.must(c.framer.WriteData(1, false, []byte(some)))
	}
	c.wait()
	for seen := c.path == "/late"; !seen; {
		f, err := c.framer.ReadFrame()
		c.must(err)
		_, seen = f.(*http2.DataFrame)
	}
}

// cancel resets the stream, and waits until the server has heard.
func (c *client) cancel() {
	c.must(c.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	c.must(c.framer.WritePing(false, [8]byte{1}))
	for {
		f, err := c.framer.ReadFrame()
		c.must(err)
		if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
			return
		}
	}
}

// Ways are all ways.
func Ways() (all []Way) {
	whole, part := "Content-Length: 8192\r\n\r\n"+some, "Content-Length: 8193\r\n\r\n"+some
	chunks := "Transfer-Encoding: chunked\r\n\r\n2000\r\n" + some + "\r\n"
	for _, path := range []string{"/late", "/head", "/large"} {
		add := func(name string, do func(*client)) { all = append(all, Way{name + " " + path, path, do}) }
		for name, text := range map[string]string{"no body": "\r\n", "whole": whole, "part": part, "chunks": chunks} {
			add(name+", closes", func(c *client) { c.ask(text); c.must(c.conn.Close()) })
			add(name+", resets", func(c *client) { c.ask(text); c.reset() })
			add(name+", half closes", func(c *client) { c.ask(text); c.must(c.conn.CloseWrite()) })
		}
		add("a broken chunk", func(c *client) {
			c.ask(chunks)
			_, err := io.WriteString(c.conn, "zz\r\n")
			c.must(err)
			if c.path == "/late" { // a gateway answers it; a handler that reads no body does not
				c.must(c.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)))
				_, _ = c.conn.Read(make([]byte, 1))
			}
		})
		for name, whole := range map[string]bool{"HTTP/2": true, "HTTP/2, part": false} {
			add(name+", cancels", func(c *client) { c.ask2(whole); c.cancel() })
			add(name+", closes", func(c *client) { c.ask2(whole); c.must(c.conn.Close()) })
			add(name+", resets", func(c *client) { c.ask2(whole); c.reset() })
		}
	}
	return all
}

package gateway_test

import (
	"bufio"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// Opcodes of WebSocket frames, RFC 6455 §5.2.
const (
	wsText  = 1
	wsClose = 8
	wsPing  = 9
)

// websocket is one end of a WebSocket connection.
type websocket struct {
	net.Conn
	r *bufio.Reader
	// masked: this end is the client, whose frames are masked.
	masked bool
}

// accept answers the key of a handshake, RFC 6455 §4.2.2.
func accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// dialWebSocket opens a WebSocket, or returns the answer that says no.
func dialWebSocket(t *testing.T, srv *httptest.Server, path string) (*websocket, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(longest)); err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString([]byte(rand.Text()[:16]))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: chat.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: a, b\r\n\r\n", path, key)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, res
	}
	if got := res.Header.Get("Sec-WebSocket-Accept"); got != accept(key) || res.Header.Get("Sec-WebSocket-Protocol") != "b" {
		t.Errorf("handshake: %v, want the key %s", res.Header, accept(key))
	}
	return &websocket{conn, r, true}, res
}

// write sends one frame.
func (ws *websocket) write(opcode byte, payload string) error {
	head := []byte{0x80 | opcode}
	var mask byte
	if ws.masked {
		mask = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		head = append(head, mask|byte(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, mask|127), uint64(n))
	}
	body := []byte(payload)
	if ws.masked {
		key := []byte{1, 2, 3, 4}
		head = append(head, key...)
		for i := range body {
			body[i] ^= key[i%4]
		}
	}
	_, err := ws.Write(append(head, body...))
	return err
}

// read receives one frame.
func (ws *websocket) read() (opcode byte, payload string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(ws.r, head[:]); err != nil {
		return 0, "", err
	}
	n := uint64(head[1] & 0x7f)
	if n == 127 {
		if err := binary.Read(ws.r, binary.BigEndian, &n); err != nil {
			return 0, "", err
		}
	}
	key := make([]byte, 4)
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(ws.r, key); err != nil {
			return 0, "", err
		}
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(ws.r, body); err != nil {
		return 0, "", err
	}
	for i := range body {
		body[i] ^= key[i%4]
	}
	return head[0] & 0x0f, string(body), nil
}

// chat is an upstream that speaks first, echoes, and ends when it is told to.
// ended is told how each connection ended.
func chat(t *testing.T, ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			http.Error(w, "no chat here", http.StatusForbidden)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Sec-WebSocket-Accept", accept(r.Header.Get("Sec-WebSocket-Key")))
		w.Header().Set("Sec-WebSocket-Protocol", "b")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		ws := &websocket{conn, rw.Reader, false}
		err = ws.write(wsText, "hello "+r.URL.Path)
		for err == nil {
			var op byte
			var text string
			if op, text, err = ws.read(); err != nil {
				break
			}
			if err = ws.write(op, text); op == wsClose {
				break
			}
		}
		ended <- err
	}
}

// TestWebSocket: frames go both ways unasked, of any size, and either end's
// closing reaches the other; the connection holds its concurrency slot for as
// long as it lasts.
func TestWebSocket(t *testing.T) {
	ended := make(chan error, 8)
	limit := weir.PerHour(100, algorithm.FixedWindow)
	limit.Name = "all"
	conc := concurrency(1)
	srv := serve(t, clocked.New(t), weir.Limits{limit, conc}, chat(t, ended), gateway.Options{HalfClosed: 20 * time.Millisecond})
	ws, res := dialWebSocket(t, srv, "/room?q=1")
	if ws == nil {
		t.Fatalf("refused: %d", res.StatusCode)
	}
	if got := res.Header.Get("RateLimit-Policy"); !strings.Contains(got, `"all";q=100;w=3600`) {
		t.Errorf("RateLimit-Policy: %q", got)
	}
	expect := func(op byte, text string) {
		t.Helper()
		gotOp, got, err := ws.read()
		if err != nil || gotOp != op || got != text {
			t.Fatalf("got opcode %d, %d bytes %.20q, %v, want %d %.20q", gotOp, len(got), got, err, op, text)
		}
	}
	expect(wsText, "hello /room")
	for _, text := range []string{"", "ping", strings.Repeat("long ", 1<<18)} {
		written := make(chan error)
		go func() { written <- ws.write(wsText, text) }()
		expect(wsText, text)
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
	if err := ws.write(wsPing, "p"); err != nil {
		t.Error(err)
	}
	expect(wsPing, "p")

	if _, res := dialWebSocket(t, srv, "/second"); res.StatusCode != 429 || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a second connection got %d %v, want 429", res.StatusCode, res.Header)
	}
	if err := ws.write(wsClose, "\x03\xe8"); err != nil {
		t.Error(err)
	}
	expect(wsClose, "\x03\xe8")
	// This client does not close its end: that holds the slot no longer than it
	// may.
	if _, _, err := ws.read(); err != io.EOF {
		t.Errorf("after the close: %v, want the end", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the upstream saw %v", err)
	}

	// A client that is gone without a word is gone for the upstream too, and a
	// slot is free.
	until(t, func() bool { ws, _ = dialWebSocket(t, srv, "/again"); return ws != nil })
	expect(wsText, "hello /again")
	ws.Close()
	if err := <-ended; err == nil {
		t.Error("the upstream was not told that the client has gone")
	}
	until(t, func() bool { ws, res = dialWebSocket(t, srv, "/no"); return res.StatusCode != 429 })
	if body, err := io.ReadAll(res.Body); res.StatusCode != 403 || err != nil || string(body) != "no chat here\n" {
		t.Errorf("got %d %q, %v", res.StatusCode, body, err)
	}
}

// TestNoSmuggling: no connection is upgraded to one on which the upstream
// answers requests that the gateway does not see.
func TestNoSmuggling(t *testing.T) {
	for _, upgrade := range []string{"h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.0", " h2c ", "websocket"} {
		var saw http.Header
		srv := serve(t, clocked.New(t), weir.Limits{}, func(w http.ResponseWriter, r *http.Request) {
			saw = r.Header.Clone()
			up := r.Header.Get("Upgrade")
			if up == "" {
				up = "h2c" // not asked for, but done
			}
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", up)
			w.WriteHeader(http.StatusSwitchingProtocols)
		}, gateway.Options{})
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", upgrade)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		want, asked := 502, ""
		if upgrade == "websocket" {
			want, asked = 101, upgrade
		}
		if res.StatusCode != want || saw.Get("Upgrade") != asked || saw.Get("HTTP2-Settings") != "" {
			t.Errorf("%s: answered %d, the upstream saw %v", upgrade, res.StatusCode, saw)
		}
	}
}

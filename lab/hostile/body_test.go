package hostile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestNothingIsReadBehindABrokenBody: a body that stalls, or is no body, ends its
// connection, so that what comes later is not read as a request: who sends it may
// be another than who sent the body.
func TestNothingIsReadBehindABrokenBody(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	for name, args := range map[string][]string{
		"stall": {"--config", servertest.Config(t, "http: {read_timeout: 0s, stall_timeout: 300ms}")},
		"whole": {"--config", servertest.Config(t, "http: {read_timeout: 300ms, stall_timeout: 0s}")},
	} {
		s := serve(t, append(args, "--limit", unlimited, "--upstream", u.URL)...)
		for _, path := range []string{"/read", "/", "/shouldAllowRequest"} {
			for _, body := range []string{"Content-Length: 60\r\n\r\nxx", "Transfer-Encoding: chunked\r\n\r\n5\r\nxx", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"} {
				c := s.dialFrom(t, "127.0.0.1") // who may ask the API
				io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: h\r\n"+body)
				c.SetReadDeadline(time.Now().Add(time.Minute))
				r := bufio.NewReader(c)
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					continue // closed without a word
				}
				io.Copy(io.Discard, res.Body)
				if res.StatusCode != 200 && res.StatusCode != 408 && res.StatusCode != 400 {
					t.Errorf("%s %s %.40q: %s", name, path, body, res.Status)
				}
				io.WriteString(c, "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"+strings.Repeat("x", 100))
				if _, err := r.ReadByte(); err == nil {
					t.Errorf("%s %s %.40q: a second answer after %s", name, path, body, res.Status)
				} else if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("%s %s %.40q: still open after %s", name, path, body, res.Status)
				}
				c.Close()
			}
		}
	}
}

// TestSlowBodiesCount: where the charge is given back when the upstream fails,
// it is not given back to who held up his own body.
func TestSlowBodiesCount(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--upstream", u.URL, "--config", servertest.Config(t, "http: {stall_timeout: 200ms}"), "--rules", rules(t, `
domain: api
descriptors:
- {key: remote_address, limit: 3/year, algorithm: fixed_window, refund_on: [5xx, unreachable]}
`))
	for i, want := range []int{408, 408, 408, 429} {
		if got := s.raw(t, "127.0.0.2", "POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 60\r\n\r\nx"); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	// Over HTTP/2 too.
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, preface+frame(frameSettings, 0, 0, ""))
	for i := range 3 {
		stream := uint32(2*i + 1)
		io.WriteString(c, frame(frameHeaders, endHeaders, stream, request("POST", "h", "/read"))+frame(frameData, 0, stream, "x"))
	}
	ended := make(map[uint32]bool) // an answer, a reset, or both
	for len(ended) < 3 {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(payload), `"status":50`) {
			t.Errorf("answered %s", payload)
		}
		if head[3] == frameReset || head[3] <= frameHeaders && head[4]&endStream != 0 {
			ended[binary.BigEndian.Uint32(head[5:])] = true
		}
	}
	if code, _, body := get(t, fmt.Sprintf("http://%s/", s.addr)); code != 429 {
		t.Errorf("over HTTP/2: %d %s", code, body)
	}
}

// TestPausesAreNotStalls: an upstream may think for longer than a client may
// stall, before its answer and within it, over both versions of HTTP, and the
// connection goes on to be used.
func TestPausesAreNotStalls(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", unlimited, "--upstream", u.URL, "--config", servertest.Config(t, "http: {stall_timeout: 1s, read_timeout: 1300ms}"))
	for _, version := range []int{1, 2} {
		for _, body := range []string{"", "a body"} {
			t.Run(fmt.Sprintf("HTTP/%d %q", version, body), func(t *testing.T) {
				t.Parallel()
				tr := &http.Transport{Protocols: new(http.Protocols), MaxConnsPerHost: 1}
				defer tr.CloseIdleConnections()
				tr.Protocols.SetHTTP1(version == 1)
				tr.Protocols.SetUnencryptedHTTP2(version == 2)
				client := &http.Client{Transport: tr, Timeout: 2 * time.Minute}
				for range 2 {
					res, err := client.Post("http://"+s.addr+"/quiet", "text/plain", strings.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					if code, _, got := read(t, res); code != 200 || res.ProtoMajor != version || got != strings.Repeat("still here\n", 2)+"up\n" {
						t.Errorf("%d %q", code, got)
					}
				}
			})
		}
	}
}

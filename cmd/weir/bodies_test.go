package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// pattern is an endless body that differs in every block.
type pattern struct{ at int64 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(p.at>>16) ^ byte(p.at)
		p.at++
	}
	return len(b), nil
}

// sameAs reads r to its end, which must be n bytes of a pattern.
func sameAs(r io.Reader, n int64) error {
	var want pattern
	got, expect := make([]byte, 64<<10), make([]byte, 64<<10)
	total := int64(0)
	for {
		m, err := io.ReadFull(r, got)
		_, _ = want.Read(expect[:m])
		if !bytes.Equal(got[:m], expect[:m]) {
			return fmt.Errorf("differs after %d bytes", total)
		}
		total += int64(m)
		if err == io.EOF || err == io.ErrUnexpectedEOF && total == n {
			break
		} else if err != nil {
			return fmt.Errorf("after %d bytes: %w", total, err)
		}
	}
	if total != n {
		return fmt.Errorf("%d bytes, want %d", total, n)
	}
	return nil
}

// resident returns the node's resident memory in bytes.
func (n *testNode) resident(t *testing.T) float64 {
	t.Helper()
	_, text := get(t, n.admin+"/metrics")
	bytes, ok := servertest.Sample(t, text, "process_resident_memory_bytes")
	if !ok {
		t.Skip("this system does not tell how much memory a process has")
	}
	return bytes
}

// A body of 64 MB goes through whole, up, down and both ways at once, over both
// protocols, in less memory than that; and one whose reader stops is not
// collected.
func TestLargeBodies(t *testing.T) { testLargeBodies(t, 64<<20) }

// The same with 1 GB.
func TestSoakLargeBodies(t *testing.T) {
	if os.Getenv("WEIR_SOAK") == "" {
		t.Skip("takes long: set WEIR_SOAK=1")
	}
	testLargeBodies(t, 1<<30)
}

func testLargeBodies(t *testing.T, size int64) {
	// more than the kernel's buffers on the way take, which may be 32 MiB each.
	const more = 256 << 20
	var sent atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/up":
			if err := sameAs(r.Body, size); err != nil {
				t.Errorf("the upstream got: %v", err)
			}
		case "/down", "/more":
			most := size
			if r.URL.Path == "/more" {
				most += more
			}
			w.Header().Set("Content-Length", strconv.FormatInt(most, 10))
			buf := make([]byte, 64<<10)
			for from := (&pattern{}); from.at < most; sent.Store(from.at) {
				_, _ = from.Read(buf)
				if _, err := w.Write(buf); err != nil {
					return // the client has seen enough
				}
			}
		case "/both":
			_ = http.NewResponseController(w).EnableFullDuplex()
			if _, err := io.Copy(w, r.Body); err != nil {
				t.Errorf("the upstream echoes: %v", err)
			}
		}
	}))
	defer upstream.Close()
	// What bodies take is bounded, not what the collector leaves lying about.
	t.Setenv("GOGC", "100")
	n := serve(t, "--limit", "1000/hour", "--upstream", upstream.URL, "--config", servertest.Config(t, "http: {read_timeout: 0s}"))
	get(t, n.http+"/warm")
	before := n.resident(t)
	var most float64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				most = max(most, n.resident(t))
			}
		}
	}()
	var wg sync.WaitGroup
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP1(!h2)
		tr.Protocols.SetUnencryptedHTTP2(h2)
		defer tr.CloseIdleConnections()
		ask := func(method, path string, body io.Reader) *http.Response {
			req, err := http.NewRequest(method, n.http+path, body)
			if err != nil {
				t.Error(err)
				return nil
			}
			if body != nil {
				req.ContentLength = size
			}
			res, err := tr.RoundTrip(req)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return nil
			}
			if res.StatusCode != 200 {
				t.Errorf("%s: answered %d", path, res.StatusCode)
			}
			return res
		}
		whole := func() io.Reader { return io.LimitReader(&pattern{}, size) }
		wg.Go(func() {
			if res := ask("PUT", "/up", whole()); res != nil {
				res.Body.Close()
			}
			for path, body := range map[string]io.Reader{"/down": nil, "/both": whole()} {
				if res := ask("POST", path, body); res != nil {
					if err := sameAs(res.Body, size); err != nil {
						t.Errorf("%s, HTTP/2 %v: the client got: %v", path, h2, err)
					}
					res.Body.Close()
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	<-stopped
	const bound = 48 << 20
	if most-before > bound {
		t.Errorf("grew from %.0f to %.0f MB of memory, want %d at most", before/1e6, most/1e6, bound>>20)
	}

	// A reader that stops stops the upstream.
	sent.Store(0)
	res, err := client.Get(n.http + "/more")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	last, since := int64(-1), time.Now()
	servertest.Await(t, "the upstream to stop", func() bool {
		if now := sent.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	})
	if last >= size+more {
		t.Errorf("the upstream could send %d bytes that nobody reads", last)
	}
}

// An upgraded connection goes on while the node drains, and is closed at both
// ends when the time is up; that is no fault.
func TestTermWithUpgradedConnection(t *testing.T) {
	gone := make(chan error, 1)
	ln := servertest.Listen(t)
	defer ln.Close()
	go func() { // an upstream that echoes after it has switched
		conn, err := ln.Accept()
		if err != nil {
			gone <- err
			return
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		if _, err := http.ReadRequest(r); err != nil {
			gone <- err
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, err = io.Copy(conn, r)
		gone <- err
	}()
	n := serve(t, "--limit", "10/hour", "--upstream", "http://"+ln.Addr().String(), "--drain-timeout", "5s")
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("got %v, %v", res, err)
	}
	echo := func(text string) error {
		if _, err := io.WriteString(conn, text); err != nil {
			return err
		}
		line, err := r.ReadString('\n')
		if err == nil && line != text {
			err = fmt.Errorf("got %q", line)
		}
		return err
	}
	if err := echo("before\n"); err != nil {
		t.Fatal(err)
	}
	if err := n.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the drain", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if err := echo("while it drains\n"); err != nil {
		t.Errorf("cut at once: %v", err)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the client saw %v, want the end", err)
	}
	<-gone
	if code := ended(t, n); code != 0 || !strings.Contains(n.Output(), "closing upgraded connections") {
		t.Errorf("exit status %d\n%s", code, n.Output())
	}
}

// The time to read a request ends neither an answer that takes longer nor an
// upgraded connection.
func TestStreamsOutliveReadTimeout(t *testing.T) {
	const timeout = time.Second
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if r.Header.Get("Upgrade") != "" {
			conn, rw, err := rc.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, rw)
			return
		}
		for i := range 4 {
			fmt.Fprintf(w, "%d\n", i)
			if err := rc.Flush(); err != nil {
				t.Error(err)
			}
			<-time.After(timeout)
		}
	}))
	defer upstream.Close()
	n := serve(t, "--limit", "100/hour", "--upstream", upstream.URL, "--config", servertest.Config(t, "http: {read_timeout: %v}", timeout))
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, h2 := range []bool{false, true} {
		wg.Go(func() {
			tr := &http.Transport{Protocols: new(http.Protocols)}
			tr.Protocols.SetHTTP1(!h2)
			tr.Protocols.SetUnencryptedHTTP2(h2)
			defer tr.CloseIdleConnections()
			res, err := (&http.Client{Transport: tr}).Post(n.http, "text/plain", strings.NewReader("small"))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); err != nil || string(body) != "0\n1\n2\n3\n" {
				t.Errorf("HTTP/2 %v: got %q, %v", h2, body, err)
			}
		})
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("got %v, %v", res, err)
	}
	for range 3 {
		<-time.After(timeout)
		fmt.Fprint(conn, "x\n")
		if line, err := r.ReadString('\n'); err != nil || line != "x\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
}

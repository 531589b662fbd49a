package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyEvictionLosesNoRequest: a client whose connection is closed for another just
// as it asks, or just as it is answered, gets each answer that was made; no request is
// carried out twice, or without its answer: one that fails was not carried out. Few fail
// over HTTP/2, as its clients are informed and ask again.
func TestFamilyEvictionLosesNoRequest(t *testing.T) {
	t.Parallel() // each waits for most of its time
	rounds := 15
	if os.Getenv("WEIR_SOAK") == "1" {
		rounds = 300
	}
	for _, kind := range []string{"http1", "http1 tls", "h2c", "h2"} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(kind+" "+method, func(t *testing.T) {
				t.Parallel()
				evictAndAsk(t, kind, method, rounds)
			})
		}
	}
}

func evictAndAsk(t *testing.T, kind, method string, rounds int) {
	var mu sync.Mutex
	carriedOut := map[string]int{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		carriedOut[r.URL.Path]++
		mu.Unlock()
		fmt.Fprint(w, strings.Repeat("x", 3000))
	})
	conf := config.Defaults().HTTP
	conf.StallTimeout = 0
	var cert *certfile.Certificate
	protocols, scheme := new(http.Protocols), "http"
	switch kind {
	case "h2c":
		protocols.SetUnencryptedHTTP2(true)
	case "h2":
		protocols.SetHTTP2(true)
	default:
		protocols.SetHTTP1(true)
	}
	if kind == "h2" || kind == "http1 tls" {
		scheme = "https"
		pem, key, _ := servertest.Certificate(t, t.TempDir(), "server")
		var err error
		if cert, err = certfile.Open(certfile.Files{Cert: pem, Key: key}, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	ln := servertest.Listen(t)
	s := newHTTPServer(handler, conf, cert, config.Drain{Timeout: time.Second}, slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listen.Limit(ln, listen.Limits{Max: 1})) }()
	var answered atomic.Int64
	done := servertest.TakeConnections(t, rounds, &answered, func() error { return holdPlace(ln.Addr().String()) })
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	failed := 0
	for i, more := 0, true; more; i++ {
		path := fmt.Sprintf("/%d", i)
		var body io.Reader
		if method == "POST" {
			body = strings.NewReader("body")
		}
		req, err := http.NewRequestWithContext(t.Context(), method, scheme+"://"+ln.Addr().String()+path, body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		want := 1
		if err == nil {
			var text []byte
			text, err = io.ReadAll(res.Body)
			res.Body.Close()
			if err == nil && len(text) != 3000 {
				err = fmt.Errorf("%d bytes", len(text))
			}
		}
		if err != nil {
			failed++
			want = 0
		}
		mu.Lock()
		if n := carriedOut[path]; n != want {
			t.Errorf("request %d was carried out %d times, want %d: %v", i, n, want, err)
		}
		mu.Unlock()
		if answered.Add(1); t.Failed() {
			break
		}
		select {
		case <-done:
			more = false
		default:
		}
	}
	answered.Add(1 << 40)
	<-done
	t.Logf("%d requests, %d failed", answered.Load()-1<<40, failed)
	end()
	if err := <-served; err != nil && !strings.Contains(err.Error(), "drain") {
		t.Error(err)
	}
}

// TestEvictedClientsAreInformed: an HTTP/2 connection that is closed for another ends
// with a GOAWAY frame.
func TestEvictedClientsAreInformed(t *testing.T) {
	ln := servertest.Listen(t)
	s := newHTTPServer(http.NotFoundHandler(), config.Defaults().HTTP, nil, config.Drain{Timeout: time.Second}, slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listen.Limit(ln, listen.Limits{Max: 1})) }()
	first, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := first.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(first, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	// The acknowledgement says that all has been read: what is not would reset the
	// connection when it is closed, and the last frame would be lost.
	for got := []byte(nil); !bytes.HasSuffix(got, []byte("\x00\x00\x00\x04\x01\x00\x00\x00\x00")); {
		b := make([]byte, 1)
		if _, err := io.ReadFull(first, b); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, b...)
	}
	second, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	text, err := io.ReadAll(first)
	goAway := "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	if err != nil || !strings.HasSuffix(string(text), goAway) {
		t.Errorf("the client read %q, %v", text, err)
	}
	second.Close()
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// holdPlace opens a connection in the place of an idle one, and waits until it is closed
// for another in turn.
func holdPlace(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Minute)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it is not closed")
	}
	return nil
}

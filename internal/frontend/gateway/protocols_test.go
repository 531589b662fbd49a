package gateway_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// speaking returns a client that speaks one protocol: "HTTP/1.1", "h2c" or "h2".
func speaking(t *testing.T, protocol string) *http.Client {
	t.Helper()
	return &http.Client{Transport: transport(t, protocol)}
}

func transport(t *testing.T, protocol string) *http.Transport {
	t.Helper()
	tr := &http.Transport{
		Protocols:          new(http.Protocols),
		DisableCompression: true,
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, // the test's own server
	}
	t.Cleanup(tr.CloseIdleConnections)
	switch protocol {
	case "HTTP/1.1":
		tr.Protocols.SetHTTP1(true)
	case "h2c":
		tr.Protocols.SetUnencryptedHTTP2(true)
	case "h2":
		tr.Protocols.SetHTTP2(true)
	default:
		t.Fatalf("no protocol %q", protocol)
	}
	return tr
}

// behaviours is an upstream with a path for each thing that an HTTP server can
// do.
func behaviours(t *testing.T) http.HandlerFunc {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method)
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Errorf("upstream: %v", err)
		}
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("upstream: %v", err)
		}
		w.Header().Set("Trailer", "X-Sum, X-Got")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Sum", strconv.Itoa(len(body)))
		w.Header().Set("X-Got", r.Trailer.Get("X-Check"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
	})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.PathValue("code"))
		if err != nil {
			t.Errorf("upstream: %v", err)
		}
		if code == 204 || code == 304 {
			w.WriteHeader(code)
			return
		}
		w.Header()["Content-Type"] = nil
		w.WriteHeader(code)
		fmt.Fprintf(w, "<p>%d", code)
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Link", "</b.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header()["Content-Type"] = nil
		fmt.Fprint(w, "<html>")
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		gate := released(r.URL.Query().Get("gate"))
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: first\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("upstream: %v", err)
		}
		// The last goes out when the client has said that it has the first.
		select {
		case <-gate:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "data: last\n\n")
	})
	mux.HandleFunc("/slow-body", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			w.Header().Set("X-Expect", r.Header.Get("Expect"))
		}
		if r.URL.RawQuery == "refuse" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Errorf("upstream: %v", err)
		}
		fmt.Fprint(w, n)
	})
	mux.HandleFunc("/fields", func(w http.ResponseWriter, r *http.Request) {
		if err := r.Header.Write(w); err != nil {
			t.Errorf("upstream: %v", err)
		}
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "file.bin", weirBuilt, strings.NewReader("0123456789"))
	})
	return mux.ServeHTTP
}

// TestProtocols asks every behaviour of an upstream, over each protocol to the
// gateway and each from there on. What the client gets is the upstream's, and
// the limits.
func TestProtocols(t *testing.T) {
	for _, near := range []string{"HTTP/1.1", "h2c", "h2"} {
		for _, far := range []string{"HTTP/1.1", "h2c", "h2"} {
			t.Run(strings.ReplaceAll(near+" then "+far, "/", ""), func(t *testing.T) {
				up := start(t, behaviours(t), far == "h2")
				upstream, err := url.Parse(up.URL)
				if err != nil {
					t.Fatal(err)
				}
				opt := gateway.Options{Default: gateway.Forward{Upstream: upstream}}
				switch far {
				case "h2":
					tr := transport(t, far)
					tr.ExpectContinueTimeout = time.Second
					opt.Default.Transport = tr
				case "h2c":
					upstream.Scheme = "h2c"
				}
				limit := weir.PerHour(1000, algorithm.FixedWindow)
				limit.Name = "all"
				g := newGateway(t, clocked.New(t), weir.Limits{limit}, opt)
				front := start(t, g, near == "h2")
				testBehaviours(t, front.URL, speaking(t, near), near)
			})
		}
	}
}

func testBehaviours(t *testing.T, base string, client *http.Client, protocol string) {
	do := func(req *http.Request, status int) (*http.Response, string) {
		t.Helper()
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if want := protocol != "HTTP/1.1"; (res.ProtoMajor == 2) != want {
			t.Errorf("%s: came over %s", req.URL.Path, res.Proto)
		}
		if res.StatusCode != status || res.Header.Get("RateLimit-Policy") != `"all";q=1000;w=3600` {
			t.Errorf("%s: got %d %v, want %d", req.URL.Path, res.StatusCode, res.Header, status)
		}
		return res, string(body)
	}
	request := func(method, path string, body io.Reader) *http.Request {
		t.Helper()
		req, err := http.NewRequest(method, base+path, body)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}

	t.Run("methods", func(t *testing.T) {
		for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			var body io.Reader
			want, length := "", "0"
			if m != "GET" {
				body, want, length = strings.NewReader("sent"), "sent", "4"
			}
			res, got := do(request(m, "/echo", body), 200)
			if got != want || res.Header.Get("X-Method") != m || res.Header.Get("X-Length") != length {
				t.Errorf("%s: got %q %v", m, got, res.Header)
			}
		}
		res, body := do(request("HEAD", "/file", nil), 200)
		if body != "" || res.ContentLength != 10 || res.Header.Get("ETag") != `"v1"` {
			t.Errorf("HEAD: got %q, %d bytes, %v", body, res.ContentLength, res.Header)
		}
		// A body of unknown length stays one.
		res, body = do(request("POST", "/echo", io.MultiReader(strings.NewReader("in "), strings.NewReader("parts"))), 200)
		if body != "in parts" || res.Header.Get("X-Length") != "-1" {
			t.Errorf("chunked: got %q %v", body, res.Header)
		}
	})
	t.Run("statuses", func(t *testing.T) {
		for _, code := range []int{200, 201, 204, 206, 301, 304, 401, 404, 418, 429, 500, 503, 599} {
			client := *client
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			res, err := client.Do(request("GET", fmt.Sprintf("/status/%d", code), nil))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			want := fmt.Sprintf("<p>%d", code)
			if code == 204 || code == 304 {
				want = ""
			}
			if err != nil || res.StatusCode != code || string(body) != want {
				t.Errorf("%d: got %d %q, %v", code, res.StatusCode, body, err)
			}
			if ct := res.Header.Values("Content-Type"); len(ct) != 0 {
				t.Errorf("%d: a type was guessed: %q", code, ct)
			}
		}
	})
	t.Run("range", func(t *testing.T) {
		req := request("GET", "/file", nil)
		req.Header.Set("Range", "bytes=2-4")
		res, body := do(req, 206)
		if body != "234" || res.Header.Get("Content-Range") != "bytes 2-4/10" {
			t.Errorf("got %q %v", body, res.Header)
		}
		req = request("GET", "/file", nil)
		req.Header.Set("If-None-Match", `"v1"`)
		do(req, 304)
	})
	t.Run("trailers", func(t *testing.T) {
		req := request("POST", "/trailers", nil)
		req.Body = &trailing{Reader: strings.NewReader("12345"), req: req}
		req.ContentLength = -1
		req.Trailer = http.Header{"X-Check": nil, "X-Forwarded-For": nil}
		res, body := do(req, 200)
		tr := res.Trailer
		if body != "body" || tr.Get("X-Sum") != "5" || tr.Get("X-Got") != "sum" || tr.Get("X-Late") != "unannounced" {
			t.Errorf("got %q, trailers %v", body, tr)
		}
	})
	t.Run("early hints", func(t *testing.T) {
		var hints []string
		req := request("GET", "/early", nil)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, " ", h["Link"]))
				return nil
			},
		}))
		res, body := do(req, 200)
		if got := strings.Join(hints, ", "); got != "103 [</a.css>; rel=preload], 103 [</b.css>; rel=preload]" {
			t.Errorf("hints: %s", got)
		}
		if body != "<html>" || res.Header.Get("Link") != "" || res.Header.Get("Content-Type") != "" {
			t.Errorf("got %q %v", body, res.Header)
		}
	})
	t.Run("100-continue", func(t *testing.T) {
		for _, query := range []string{"", "?refuse"} {
			continued := false
			sent := &counting{Reader: strings.NewReader(strings.Repeat("x", 1<<20))}
			req := request("POST", "/slow-body"+query, sent)
			req.ContentLength = 1 << 20
			req.Header.Set("Expect", "100-continue")
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
				Got100Continue: func() { continued = true },
			}))
			tr := client.Transport.(*http.Transport)
			tr.ExpectContinueTimeout = longest // never send unasked
			if query == "" {
				if _, body := do(req, 200); body != "1048576" || !continued {
					t.Errorf("got %q, asked to go on: %v", body, continued)
				}
				continue
			}
			// Go's HTTP/2 server keeps the wish to itself, so the gateway answers
			// that it may go on.
			if do(req, 403); protocol == "HTTP/1.1" && (continued || sent.n != 0) {
				t.Errorf("asked to go on: %v, sent %d bytes to an upstream that wants none", continued, sent.n)
			}
		}
	})
	t.Run("events", func(t *testing.T) {
		gate := newGate()
		res, err := client.Do(request("GET", "/events?gate="+gate, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		first := make([]byte, len("data: first\n\n"))
		if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "data: first\n\n" {
			t.Fatalf("got %q, %v", first, err)
		}
		release(gate)
		if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "data: last\n\n" {
			t.Errorf("then %q, %v", rest, err)
		}
	})
	t.Run("fields", func(t *testing.T) {
		req := request("GET", "/fields", nil)
		req.Header = http.Header{"Accept": {"a/b", "c/d;q=0.5"}, "Cookie": {"a=1; b=2"}, "X-Own": {"1", "2"},
			"User-Agent": {"tester"}, "Te": {"trailers"}, "Authorization": {"Bearer x"}}
		_, body := do(req, 200)
		want := "Accept: a/b\r\nAccept: c/d;q=0.5\r\nAuthorization: Bearer x\r\nCookie: a=1; b=2\r\nTe: trailers\r\n" +
			"User-Agent: tester\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: " + req.URL.Host +
			"\r\nX-Forwarded-Proto: " + req.URL.Scheme + "\r\nX-Own: 1\r\nX-Own: 2\r\n"
		if protocol != "HTTP/1.1" {
			// HTTP/2 sends one field where there are two, or splits it.
			body = strings.ReplaceAll(body, "Cookie: a=1\r\nCookie: b=2", "Cookie: a=1; b=2")
		}
		if body != want {
			t.Errorf("the upstream saw\n%s\nwant\n%s", body, want)
		}
	})
	t.Run("large", func(t *testing.T) {
		big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		if _, body := do(request("PUT", "/echo", bytes.NewReader(big)), 200); body != string(big) {
			t.Errorf("%d bytes came back, want %d", len(body), len(big))
		}
	})
}

// trailing is a body that sets its request's trailers when it has been read.
type trailing struct {
	io.Reader
	req *http.Request
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.req.Trailer.Set("X-Check", "sum")
		b.req.Trailer.Set("X-Forwarded-For", "192.0.2.9")
	}
	return n, err
}

func (b *trailing) Close() error { return nil }

// counting counts what is read of it.
type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

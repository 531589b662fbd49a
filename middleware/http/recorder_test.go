package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// TestSettledByStatus: what counts is what the answer says, once it is known.
func TestSettledByStatus(t *testing.T) {
	s := newSite(t, settled(10, weir.Adjustment{CountOn: codes(200, 401), RefundOn: codes(weir.NoAnswer)}), httplimit.Options{},
		func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/silent":
			case "/implied":
				fmt.Fprint(w, "hello")
			case "/flushed":
				_ = http.NewResponseController(w).Flush()
				w.WriteHeader(500) // too late
			case "/early":
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(401)
			case "/elsewhere":
				w.WriteHeader(302)
			case "/wrong":
				w.WriteHeader(401)
				w.WriteHeader(200) // superfluous
			case "/abort":
				w.WriteHeader(200)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
		})
	f := func(path string, left int64) {
		t.Helper()
		res, err := s.Client().Get(s.URL + path)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		var n int64
		for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
			if n = s.left(); n == left {
				return
			}
		}
		t.Errorf("%s: %d left, want %d", path, n, left)
	}
	f("/silent", 9)
	f("/implied", 8)
	f("/flushed", 7)
	f("/elsewhere", 7)
	f("/early", 6)
	f("/wrong", 5)
	f("/abort", 5)
}

// TestSettledByBytes: whatever way they are written, and none for a HEAD.
func TestSettledByBytes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 300_000), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, settled(1_000, weir.Adjustment{Per: 1000}), httplimit.Options{},
		func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/write":
				for range 3 {
					fmt.Fprint(w, strings.Repeat("x", 1500))
				}
			case "/string":
				_, _ = io.WriteString(w, strings.Repeat("x", 10_001))
			case "/copy":
				_, _ = io.Copy(w, io.LimitReader(zeros{}, 20_000))
			case "/file":
				http.ServeFile(w, r, file)
			}
		})
	want := int64(1000)
	f := func(method, path string, cost int64) {
		t.Helper()
		r, err := http.NewRequest(method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		want -= cost
		until(t, func() bool { return s.left() == want })
	}
	f("GET", "/write", 5)
	f("GET", "/string", 11)
	f("GET", "/copy", 20)
	f("GET", "/file", 300)
	f("HEAD", "/write", 0)
	f("HEAD", "/file", 0)
	f("GET", "/nothing", 0)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestSettledByHeader: a field of the header, or one that follows the body.
func TestSettledByHeader(t *testing.T) {
	s := newSite(t, settled(100, weir.Adjustment{Header: "x-cost"}), httplimit.Options{},
		func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/header":
				w.Header().Set("X-Cost", "7")
			case "/trailer":
				fmt.Fprint(w, "hello")
				_ = http.NewResponseController(w).Flush()
				w.Header().Set(http.TrailerPrefix+"X-Cost", "20")
			case "/junk":
				w.Header().Set("X-Cost", "a lot")
			case "/negative":
				w.Header().Set("X-Cost", "-5")
			}
		})
	for _, c := range []struct {
		path string
		left int64
	}{{"/header", 93}, {"/trailer", 73}, {"/junk", 72}, {"/negative", 71}, {"/none", 70}} {
		res, _ := s.get(c.path)
		if c.path == "/trailer" && res.Trailer.Get("X-Cost") != "20" {
			t.Errorf("the trailer is %v", res.Trailer)
		}
		until(t, func() bool { return s.left() == c.left })
	}
}

// kinds of limits: one leaves the ResponseWriter alone, one does not.
var kinds = map[string]func() weir.Limits{
	"plain":   func() weir.Limits { return permin(1000) },
	"settled": func() weir.Limits { return settled(1000, weir.Adjustment{Per: 1}) },
}

// TestProtocols: streaming, early hints, trailers and deadlines over HTTP/1.1,
// HTTP/2 with TLS, and HTTP/2 without, behind both kinds of limits.
func TestProtocols(t *testing.T) {
	for kind, limits := range kinds {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0", "h2c"} {
			t.Run(kind+" "+proto, func(t *testing.T) {
				next := make(chan struct{})
				s := &site{t: t, store: clocked.New(t)}
				s.Server = httptest.NewUnstartedServer(s.limited(limits(), httplimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					rc := http.NewResponseController(w)
					if err := errors.Join(rc.SetReadDeadline(time.Now().Add(time.Minute)), rc.SetWriteDeadline(time.Now().Add(time.Minute))); err != nil {
						t.Error(err)
					}
					if err := rc.EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
						t.Error(err)
					}
					if _, ok := w.(http.Flusher); !ok {
						t.Error("no Flusher")
					}
					if _, ok := w.(http.Hijacker); ok != (r.ProtoMajor == 1) {
						t.Errorf("a Hijacker: %v", ok)
					}
					if _, ok := w.(http.Pusher); ok != (r.ProtoMajor == 2) {
						t.Errorf("a Pusher: %v", ok)
					}
					if _, ok := w.(io.ReaderFrom); ok != (r.ProtoMajor == 1) {
						t.Errorf("a ReaderFrom: %v", ok)
					}
					w.Header().Set("Link", "</a.css>; rel=preload")
					w.WriteHeader(http.StatusEarlyHints)
					w.Header().Set("Trailer", "X-Sum")
					for i := range 3 {
						fmt.Fprintf(w, "part %d\n", i)
						if err := rc.Flush(); err != nil {
							t.Error(err)
						}
						<-next
					}
					w.Header().Set("X-Sum", "3")
				})))
				transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				t.Cleanup(transport.CloseIdleConnections)
				switch proto {
				case "HTTP/2.0":
					s.EnableHTTP2, transport.ForceAttemptHTTP2 = true, true
					s.StartTLS()
				case "h2c":
					s.Config.Protocols, transport.Protocols = new(http.Protocols), new(http.Protocols)
					s.Config.Protocols.SetUnencryptedHTTP2(true)
					transport.Protocols.SetUnencryptedHTTP2(true)
					s.Start()
				default:
					s.Start()
				}
				t.Cleanup(s.Close)
				hints := 0
				ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					if code == 103 && h.Get("Link") != "" {
						hints++
					}
					return nil
				}})
				r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if want := strings.Replace(proto, "h2c", "HTTP/2.0", 1); res.Proto != want || res.Header.Get("X-RateLimit-Remaining") != "999" || hints != 1 {
					t.Errorf("got %s %v, %d early hints", res.Proto, res.Header, hints)
				}
				// Each part is here before the handler goes on.
				body := bufio.NewReader(res.Body)
				for i := range 3 {
					if line, err := body.ReadString('\n'); err != nil || line != fmt.Sprintf("part %d\n", i) {
						t.Fatalf("got %q, %v", line, err)
					}
					next <- struct{}{}
				}
				if _, err := body.ReadByte(); err != io.EOF || res.Trailer.Get("X-Sum") != "3" {
					t.Errorf("at the end: %v, trailers %v", err, res.Trailer)
				}
				if kind == "settled" {
					until(t, func() bool { return s.left() == 1000-21 })
				}
			})
		}
	}
}

// What a writer can do beside.
type (
	canFlush  struct{ n *int }
	canHijack struct{}
	canRead   struct{ from *io.Reader }
	canPush   struct{}
)

func (c canFlush) Flush() { *c.n++ }
func (canHijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("hijacked")
}
func (c canRead) ReadFrom(r io.Reader) (int64, error) { *c.from = r; return io.Copy(io.Discard, r) }
func (canPush) Push(string, *http.PushOptions) error  { return errors.New("pushed") }

// TestWriterCanDoTheSame: the writer that notes the answer can do what the one
// that it stands for can, and nothing else.
func TestWriterCanDoTheSame(t *testing.T) {
	type plain = *plainWriter
	p := &plainWriter{header: http.Header{}}
	flushed, from := 0, io.Reader(nil)
	f, h, r, u := canFlush{&flushed}, canHijack{}, canRead{&from}, canPush{}
	s := &site{t: t, store: clocked.New(t)}
	for _, under := range []http.ResponseWriter{
		p,
		struct {
			plain
			canFlush
		}{p, f},
		struct {
			plain
			canHijack
		}{p, h},
		struct {
			plain
			canRead
		}{p, r},
		struct {
			plain
			canPush
		}{p, u},
		struct {
			plain
			canFlush
			canPush
		}{p, f, u},
		struct {
			plain
			canFlush
			canHijack
		}{p, f, h},
		struct {
			plain
			canFlush
			canRead
		}{p, f, r},
		struct {
			plain
			canHijack
			canRead
		}{p, h, r},
		struct {
			plain
			canFlush
			canHijack
			canRead
		}{p, f, h, r},
	} {
		served := false
		s.limited(settled(1000, weir.Adjustment{Per: 1}), httplimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			served = true
			if got, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok || got.Unwrap() != under {
				t.Errorf("%T does not unwrap", under)
			}
			_, want := under.(http.Flusher)
			if w, ok := w.(http.Flusher); ok != want {
				t.Errorf("%T: a Flusher is %v", under, ok)
			} else if before := flushed; ok {
				if w.Flush(); flushed != before+1 {
					t.Errorf("%T is not flushed", under)
				}
			}
			_, want = under.(http.Hijacker)
			if w, ok := w.(http.Hijacker); ok != want {
				t.Errorf("%T: a Hijacker is %v", under, ok)
			} else if ok {
				if _, _, err := w.Hijack(); err == nil || err.Error() != "hijacked" {
					t.Errorf("%T is not hijacked: %v", under, err)
				}
			}
			_, want = under.(http.Pusher)
			if w, ok := w.(http.Pusher); ok != want {
				t.Errorf("%T: a Pusher is %v", under, ok)
			} else if ok {
				if err := w.Push("/", nil); err == nil || err.Error() != "pushed" {
					t.Errorf("%T: %v", under, err)
				}
			}
			_, want = under.(io.ReaderFrom)
			if w, ok := w.(io.ReaderFrom); ok != want {
				t.Errorf("%T: a ReaderFrom is %v", under, ok)
			} else if ok {
				src := strings.NewReader("hello") // as it is: net/http knows files by their type
				if n, err := w.ReadFrom(src); n != 5 || err != nil || from != src {
					t.Errorf("%T: %d bytes, %v, from %T", under, n, err, from)
				}
			}
		})).ServeHTTP(under, httptest.NewRequest("GET", "/", nil))
		if !served {
			t.Errorf("%T: not served", under)
		}
	}
}

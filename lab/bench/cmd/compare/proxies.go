package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/worker"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// gatewayLimit is the limit of weir serve, which refuses nothing.
const gatewayLimit = "1000000000/second by ip using token_bucket"

// startTime bounds how long weir serve may take to listen.
const startTime = 20 * time.Second

// proxying tells a worker its upstream; the address is empty for the upstream
// itself.
type proxying struct{ Upstream string }

// workerProxy starts one of the workers of serveProxy.
func workerProxy(index int) func(context.Context, string, string) (*proxy, error) {
	return func(ctx context.Context, _, upstream string) (*proxy, error) {
		w, err := worker.Start(ctx, "worker", "proxy", strconv.Itoa(index))
		if err != nil {
			return nil, err
		}
		var at serving
		if err := w.Ask(proxying{upstream}, &at); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		return &proxy{at.Address, w.Pid(), w.Close}, nil
	}
}

// buildWeir builds weir into a folder and returns its name.
func buildWeir(ctx context.Context, dir string) (string, error) {
	source, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/weirlimit/weir").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of weir: %w", err)
	}
	program := filepath.Join(dir, "weir")
	build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(source)), "-o", program, "./cmd/weir")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build weir: %w: %s", err, out)
	}
	return program, nil
}

// weirProxy builds weir and starts it.
func weirProxy(ctx context.Context, dir, upstream string) (*proxy, error) {
	program, err := buildWeir(ctx, dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "serve", "--limit", gatewayLimit, "--upstream", "http://"+upstream,
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json")
	cmd.Dir = dir
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	address, logged := make(chan string, 1), make(chan string, 1)
	go func() { logged <- readLog(stderr, address) }()
	stop := func() error {
		// Interrupt drains, a second one would exit at once; ctx kills.
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return err
		}
		text := <-logged
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("weir serve: %w: %s", err, text)
		}
		return nil
	}
	select {
	case at := <-address:
		return &proxy{at, cmd.Process.Pid, stop}, nil
	case text := <-logged:
		return nil, fmt.Errorf("weir serve ended: %w: %s", cmd.Wait(), text)
	case <-time.After(startTime):
		return nil, errors.Join(fmt.Errorf("weir serve does not listen after %s", startTime), stop())
	}
}

// readLog reads the log of weir serve to its end and returns the last lines. It
// sends the address that the gateway listens on.
func readLog(r io.Reader, address chan<- string) string {
	var last []string
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var l struct{ Msg, Section, Addr string }
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "listening" && l.Section == "http" {
			address <- l.Addr
		}
		if last = append(last, lines.Text()); len(last) > 20 {
			last = last[1:]
		}
	}
	return strings.Join(last, "\n")
}

// sameForwarded fails unless the proxy at address hands on the upstream's
// answer as every one must, and tells of limits if it has some.
func sameForwarded(ctx context.Context, address string, limited bool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+gatewayPath, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != 200 || !bytes.Equal(body, upstreamBody) || res.Header.Get("Etag") != upstreamTag[0] {
		return fmt.Errorf("answers %d with %d bytes and the tag %s, want 200 with the upstream's %d and %s",
			res.StatusCode, len(body), res.Header.Get("Etag"), len(upstreamBody), upstreamTag[0])
	}
	if hasFields := res.Header.Get("RateLimit") != ""; hasFields != limited {
		return fmt.Errorf("RateLimit is %q: limited should be %t", res.Header.Get("RateLimit"), limited)
	}
	return nil
}

var (
	upstreamBody = bytes.Repeat([]byte(`{"id":17,"n":1}`+"\n"), 64)
	upstreamKind = []string{"application/json"}
	upstreamTag  = []string{`"a1b2c3"`}
	upstreamTime = []string{"max-age=60"}
	upstreamSize = []string{strconv.Itoa(len(upstreamBody))}
)

// answerUpstream is the upstream's handler, the same for all.
func answerUpstream(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h["Content-Type"], h["Content-Length"], h["Etag"], h["Cache-Control"] = upstreamKind, upstreamSize, upstreamTag, upstreamTime
	// An error here means that the client has gone.
	_, _ = w.Write(upstreamBody)
}

// serveUpstream is the worker that stands behind all proxies.
func serveUpstream() error {
	// Its garbage is nobody's that is compared: it is collected seldom.
	debug.SetGCPercent(1600)
	return serveLike(func(string) (http.Handler, error) { return http.HandlerFunc(answerUpstream), nil })
}

// serveProxy is the worker: the bare proxy, or the gateway.
func serveProxy(index int) error {
	switch index {
	case 0:
		return serveLike(bareProxy)
	case 1:
		return serveLike(gatewayProxy)
	}
	return fmt.Errorf("no proxy %d", index)
}

// serveLike serves what open returns for the first question's upstream, with
// the server settings of weir serve.
func serveLike(open func(upstream string) (http.Handler, error)) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	srv := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 32 << 10, Protocols: new(http.Protocols),
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	defer srv.Close()
	served := false
	return worker.Serve(func(q proxying) (serving, error) {
		if !served {
			h, err := open(q.Upstream)
			if err != nil {
				return serving{}, err
			}
			srv.Handler, served = h, true
			go srv.Serve(ln) // until Close
		}
		return serving{Address: ln.Addr().String(), CPU: measure.CPU()}, nil
	})
}

// bareProxy is what standard library users write, with the gateway's transport
// and buffers: a proxy with smaller pools would make connections anew.
func bareProxy(upstream string) (http.Handler, error) {
	to := &url.URL{Scheme: "http", Host: upstream}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout, t.IdleConnTimeout = 5*time.Second, time.Minute, time.Minute
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
	t.MaxResponseHeaderBytes = 1 << 20
	t.DisableCompression = true
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.SetXForwarded()
		},
		Transport:  t,
		BufferPool: &bareBuffers{},
	}, nil
}

// bareBuffers are of 32 KiB, as the gateway's.
type bareBuffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bareBuffers) Get() []byte {
	if p, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return p[:]
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *bareBuffers) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }

// gatewayProxy is the gateway without the server around it. Its limiter lives
// as long as the process.
func gatewayProxy(upstream string) (http.Handler, error) {
	limiter, _, err := ours.Open(weir.Limits{weir.PerSecond(1_000_000_000, algorithm.TokenBucket)}, memory.Options{})
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Options{
		Limits:  httplimit.Options{Limiter: limiter},
		Default: gateway.Forward{Upstream: &url.URL{Scheme: "http", Host: upstream}},
	})
}

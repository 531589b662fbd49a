package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// past is the shop behind the limits of the rules on a clock of its own, without a network.
// What is decided goes to a queue as the events of a node do. Close it.
type past struct {
	store    *memory.Store
	observer *event.Observer
	shop     http.Handler
	// now is in microseconds since the Unix epoch; the store's own goroutine reads it too.
	now atomic.Int64
	// flushed is the end of the last second whose events were handed over.
	flushed time.Time
}

// newPast returns the past from an instant on, with the rules of a file.
func newPast(from time.Time, ruleFile string, conf event.Options) (*past, error) {
	live, err := rules.Open([]string{ruleFile}, rules.Options{})
	if err != nil {
		return nil, err
	}
	p := &past{flushed: from}
	p.now.Store(from.UnixMicro())
	conf.Now = func() time.Time { return time.UnixMicro(p.now.Load()) }
	conf.Limits = func() []limits.Ref { return live.Set().Refs() }
	if p.observer, err = event.New(conf); err != nil {
		return nil, err
	}
	who, err := identity.New(identity.Options{
		Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Header: "X-Forwarded-For"},
		User:    []string{"header:X-User"},
	})
	if err != nil {
		return nil, err
	}
	p.store = memory.New(memory.Options{MaxBytes: 4 << 20, Now: p.now.Load})
	limiter, err := weir.New(p.store, live, weir.Options{Observers: []weir.Observer{working{p.observer}}})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	limits, err := httplimit.New(httplimit.Options{Limiter: limiter, Identity: who})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.shop = limits.Handler(http.HandlerFunc(serveShop))
	return p, nil
}

// working tells an observer that responses took as long as they do over the network.
type working struct{ *event.Observer }

// ObserveResult implements weir.ResultObserver.
func (w working) ObserveResult(r *weir.Request, res weir.Result) {
	res.Duration = drawWork()
	w.Observer.ObserveResult(r, res)
}

func (p *past) close() error { return p.store.Close() }

// playClients lets the clients act one after the other until an instant.
func (p *past) playClients(ctx context.Context, clients []*client, url string, until time.Time) error {
	if err := p.observer.Flush(ctx); err != nil {
		return err
	}
	for {
		next := slices.MinFunc(clients, func(a, b *client) int { return a.at.Compare(b.at) })
		if !next.at.Before(until) {
			return p.setClock(ctx, until)
		}
		if err := p.setClock(ctx, next.at); err != nil {
			return err
		}
		if err := next.sendRequest(ctx, p, url); err != nil {
			return err
		}
	}
}

// setClock sets the clock. The events of each second are handed over when it has ended.
func (p *past) setClock(ctx context.Context, at time.Time) error {
	if second := at.Truncate(time.Second); second.After(p.flushed) {
		p.now.Store(second.UnixMicro())
		p.flushed = second
		if err := p.observer.Flush(ctx); err != nil {
			return err
		}
	}
	p.now.Store(at.UnixMicro())
	return ctx.Err()
}

// RoundTrip implements http.RoundTripper.
func (p *past) RoundTrip(r *http.Request) (*http.Response, error) {
	r.RemoteAddr, r.RequestURI = "127.0.0.1:1", r.URL.RequestURI()
	w := &written{header: http.Header{}, status: http.StatusOK}
	p.shop.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body)}, nil
}

// written is a response that is kept.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *written) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *written) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *written) Write(b []byte) (int, error) { return w.body.Write(b) }

package ours

import (
	"net/http"
	"net/url"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/lab/bench/measure"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// Answer is an http.ResponseWriter that costs next to nothing: what is measured
// is what stands in front of the handler.
type Answer struct {
	Fields http.Header
	Status int
}

// Header implements http.ResponseWriter.
func (w *Answer) Header() http.Header { return w.Fields }

// WriteHeader implements http.ResponseWriter.
func (w *Answer) WriteHeader(status int) { w.Status = status }

// Write implements http.ResponseWriter.
func (w *Answer) Write(b []byte) (int, error) { return len(b), nil }

// Request returns what is asked: a page of an item, from 192.0.2.1.
func Request() *http.Request {
	return &http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: "/items/17", RawQuery: "page=2"}, RequestURI: "/items/17?page=2",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "api.example", RemoteAddr: "192.0.2.1:1234",
		Header: http.Header{"Accept": {"application/json"}, "User-Agent": {"bench/1"}},
	}
}

var contentType = []string{"text/plain"}

// Handle is the handler that is limited.
func Handle(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = contentType
	w.WriteHeader(http.StatusOK)
}

// Behind returns Handle behind limits by client address, alone if there are
// none, and the function that ends it.
func Behind(limits weir.Limits) (http.Handler, func(), error) {
	if len(limits) == 0 {
		return http.HandlerFunc(Handle), func() {}, nil
	}
	limiter, done, err := Open(limits, memory.Options{})
	if err != nil {
		return nil, nil, err
	}
	m, err := httplimit.New(httplimit.Options{Limiter: limiter})
	if err != nil {
		done()
		return nil, nil, err
	}
	return m.Handler(http.HandlerFunc(Handle)), done, nil
}

// Serving returns the work of having h answer requests. Every answer must be of
// status 200 and, if told, tell what is left: others count as refused.
func Serving(h http.Handler, withFields bool) measure.Work {
	r := Request()
	return func(_ int, n int64) (refused int64) {
		w := &Answer{Fields: http.Header{}}
		for range n {
			clear(w.Fields)
			h.ServeHTTP(w, r)
			if w.Status != http.StatusOK || withFields != (len(w.Fields["Ratelimit"]) == 1) {
				refused++
			}
		}
		return refused
	}
}

package ratelimit

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyRequestsUnderWayStay: where all connections are taken, one without a request
// makes room, and never one whose request is under way.
func TestFamilyRequestsUnderWayStay(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	ln := listen.Limit(servertest.Listen(t), listen.Limits{Max: 2, Log: log})
	arrived, release := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			arrived <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "up")
	})
	served := make(chan error, 1)
	go func() { served <- serveWeb(t.Context(), ln, handler, time.Minute, log) }()
	t.Cleanup(func() {
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	ask := func(path string) (string, error) {
		client := &http.Client{Transport: new(http.Transport), Timeout: time.Minute}
		res, err := client.Get("http://" + ln.Addr().String() + path)
		if err != nil {
			return "", err
		}
		defer res.Body.Close() // and the connection stays, idle
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	waits := make(chan error, 1)
	go func() {
		got, err := ask("/wait")
		if err == nil && got != "up" {
			err = errors.New(got)
		}
		waits <- err
	}()
	<-arrived
	for i := range 5 {
		if got, err := ask("/"); err != nil || got != "up" {
			t.Errorf("connection %d is answered %q, %v", i, got, err)
		}
	}
	close(release)
	if err := <-waits; err != nil {
		t.Errorf("the request under way: %v", err)
	}
}

// The paths, and where the reference sends who asks for them.
func TestPaths(t *testing.T) {
	handler := paths{"/json": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	for _, tt := range []struct {
		path string
		code int
		to   string
	}{
		{"/json", 200, ""},
		{"/json?x=1", 200, ""},
		{"/js%6fn", 200, ""},
		{"/json/", 404, ""},
		{"/JSON", 404, ""},
		{"/json;a", 404, ""},
		{"/", 404, ""},
		{"//json", 301, "/json"},
		{"//json?x=1", 301, "/json?x=1"},
		{"/a/../json", 301, "/json"},
		{"/%2e/json", 301, "/json"},
		{"/json//", 301, "/json/"},
		{"/a/..", 301, "/"},
		{"//", 301, "/"},
		{"*", 301, "/%2A"},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", tt.path, nil))
		if w.Code != tt.code || w.Header().Get("Location") != tt.to || tt.code == 301 && w.Body.Len() > 0 {
			t.Errorf("%s: %d %q %q, want %d %q", tt.path, w.Code, w.Header().Get("Location"), w.Body, tt.code, tt.to)
		}
	}
}

package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A server that cannot be asked is told with what can be done about it, and
// with nothing that has no bearing on it.
func TestUnreachableServers(t *testing.T) {
	refuses := httptest.NewServer(nil)
	refuses.Close()
	strange := httptest.NewUnstartedServer(nil)
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS()
	defer strange.Close()
	wait := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-wait }))
	defer slow.Close()
	defer close(wait)
	f := func(url string, timeout time.Duration, hint string) {
		t.Helper()
		srv := remote{url: url, timeout: timeout}
		_, err := srv.ask("/v1/check", question{})
		if err == nil {
			t.Fatalf("%s answered", url)
		}
		for _, h := range []string{"is `weir serve` running", "SSL_CERT_FILE"} {
			if strings.Contains(err.Error(), h) != (h == hint) {
				t.Errorf("want the hint %q alone in: %v", hint, err)
			}
		}
	}
	f(refuses.URL, time.Second, "is `weir serve` running")
	f(strange.URL, time.Second, "SSL_CERT_FILE")
	f(slow.URL, 10*time.Millisecond, "")
}

package remote

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
		srv := Server{URL: url, Timeout: timeout}
		_, err := srv.Ask("/v1/check", Question{})
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

// A server is named by its URL, by HOST:PORT, or by a port of this machine alone.
func TestServersAreNamedBriefly(t *testing.T) {
	for given, want := range map[string]string{
		"https://limits.internal/": "https://limits.internal/v1/check",
		"limits.internal:8080":     "http://limits.internal:8080/v1/check",
		"8080":                     "http://127.0.0.1:8080/v1/check",
		":8080":                    "http://:8080/v1/check",
		"65536":                    "http://65536/v1/check", // a host: no such port
	} {
		if got := (&Server{URL: given}).locate("/v1/check"); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

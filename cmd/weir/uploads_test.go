package main_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestUploadsAreAnswered: curl hears why nobody wants what it uploads, over both versions of
// HTTP, also where it waits to be asked or does not say how much there is.
func TestUploadsAreAnswered(t *testing.T) {
	curl := servertest.Binary(t, "curl")
	early := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer early.Close()
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer late.Close()
	n := serve(t, "--config", servertest.Config(t, `
routes:
  - {path: /small, upstream: %[2]q, max_body: 1000}
  - {path: /away, upstream: "http://127.0.0.1:1"}
  - {path: /early, upstream: %[1]q}
  - {path: /limited, upstream: %[1]q, limit: 1/hour by ip}
`, early.URL, late.URL))
	if code, _ := get(t, n.http+"/limited"); code != http.StatusForbidden {
		t.Errorf("the one request of an hour: %d", code)
	}
	for _, version := range []string{"--http1.1", "--http2-prior-knowledge"} {
		for _, size := range []int{5_000, 70_000, 900_000} {
			for path, want := range map[string]string{"small": "413", "away": "502", "early": "403", "nothing/here": "404", "limited": "429"} {
				for _, way := range []string{"--data-binary @-", "--data-binary @- -HExpect:", "-T - -XPOST"} {
					if version == "--http1.1" && path == "early" && size > 70_000 {
						continue // Go's server closes such a connection, and the answer may be lost with it
					}
					tries := 1
					if path == "away" {
						tries = 5 // how much of it has come when the answer is there differs
					}
					for range tries {
						hears(t, curl, want, size, n.http+"/"+path, append(strings.Fields(way), version)...)
					}
				}
			}
		}
	}
}

// hears uploads so many bytes with curl, which is to hear a status and nothing else.
func hears(t *testing.T, curl, want string, size int, url string, args ...string) {
	t.Helper()
	cmd := exec.Command(curl, append(args, "-s", "-o", "/dev/null", "-m", "20", "-w", "%{http_code} %{errormsg}", url)...)
	cmd.Stdin = bytes.NewReader(make([]byte, size))
	if out, err := cmd.Output(); err != nil || string(out) != want+" " {
		t.Errorf("%s, %d bytes by %s: %q, %v, want %s", url, size, args, out, err, want)
	}
}

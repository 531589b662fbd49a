package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestUploadsBehindNginxAreAnswered: a client of nginx hears 413 of a body above a bound of
// the node, not a 502 of a connection that ended before nginx had sent it all.
func TestUploadsBehindNginxAreAnswered(t *testing.T) {
	curl := servertest.Binary(t, "curl")
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer late.Close()
	n := serve(t, "--config", servertest.Config(t, `
routes:
  - {path: /small, upstream: %[1]q, max_body: 1000}
  - {path: /limited, upstream: %[1]q, limit: 1/hour by ip}
`, late.URL))
	if code, _ := get(t, n.http+"/limited"); code != http.StatusOK {
		t.Errorf("the one request of an hour: %d", code)
	}
	api := serve(t, "--limit", "1/hour by client_id")
	addr := servertest.NginxServers(t, func(addr string) string {
		return strings.NewReplacer("ADDR", addr, "WEIR", strings.TrimPrefix(n.http, "http://"), "API", strings.TrimPrefix(api.http, "http://")).Replace(`
upstream weir { server WEIR; keepalive 8; }
server {
  listen ADDR;
  client_max_body_size 0;
  location /kept/ { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://weir/; }
  location /streamed/ { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off; proxy_pass http://weir/; }
  location /closed/ { proxy_http_version 1.1; proxy_pass http://weir/; }
  location /old/ { proxy_pass http://weir/; }
  location = /kept/v1/check { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://API/v1/check; }
  location = /streamed/v1/check { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off; proxy_pass http://API/v1/check; }
  location = /closed/v1/check { proxy_http_version 1.1; proxy_pass http://API/v1/check; }
  location = /old/v1/check { proxy_pass http://API/v1/check; }
}`)
	})
	for _, way := range []string{"kept", "streamed", "closed", "old"} {
		for _, size := range []int{5_000, 70_000, 900_000, 4_000_000} {
			for path, want := range map[string]string{"small": "413", "limited": "429", "nothing/here": "404", "v1/check": "413"} {
				if path == "v1/check" && size < 4_000_000 {
					continue // is read
				}
				for _, how := range []string{"--data-binary @-", "-T - -XPOST"} {
					for range 2 {
						hears(t, curl, want, size, "http://"+addr+"/"+way+"/"+path, strings.Fields(how)...)
					}
				}
			}
		}
	}
}

package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestLimitOnARoute: a limit that is written on a route holds for its requests and no
// others, beside --limit, and the banner's request meets it.
func TestLimitOnARoute(t *testing.T) {
	servertest.Binary(t, "curl")
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	config := servertest.Config(t, `
upstream: %s
routes:
  - {path: /login, methods: [POST], limit: "2/year by ip using fixed_window"}
  - {path: '/search/{id}', limit: ["1/year by header:X-Shop using fixed_window", "2/year by all using fixed_window"]}
  - {path: /free}
`, up.URL)
	n := serve(t, "--config", config, "--limit", "7/year by ip using fixed_window")
	for i, r := range strings.Split("POST /login a 200, GET /login a 200, POST /login a 200, POST /login a 429, "+
		"GET /search/1 a 200, GET /search/2 a 429, GET /search/3 b 200, GET /search/4 c 429, GET /free a 200, GET / a 200, GET /free a 429", ", ") {
		words := strings.Fields(r)
		req, err := http.NewRequest(words[0], n.http+words[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Shop", words[2])
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Status[:3] != words[3] {
			t.Errorf("request %d, %s: %s", i+1, r, res.Status)
		}
	}
	if _, body := get(t, n.admin+"/metrics"); !strings.Contains(body, `limit="2/year by ip using fixed_window on POST /login"`) {
		t.Error("no metric is named by the limit and its route")
	}
}

// TestLimitOnARouteAlone: the limit of a route is enough to decide by, the banner says so,
// and its command meets it.
func TestLimitOnARouteAlone(t *testing.T) {
	servertest.Binary(t, "curl")
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	config := servertest.Config(t, "routes:\n  - {path: '/a/{b}', methods: [PUT], host: shop.example, upstream: %q, limit: 1/year by header:X-Key using fixed_window}\n", up.URL)
	n := servertest.Serve(t, exec.Command(binary, "serve", "--config", config, "--http", "127.0.0.1:0", "--grpc", "", "--admin", ""), "http")
	servertest.Await(t, "the banner", func() bool { return strings.Contains(n.Output(), "\nAPI ") })
	if !strings.Contains(n.Output(), "\nlimits   1/year by header:X-Key using fixed_window on PUT shop.example/a/{b}\n") {
		t.Errorf("the limit is not in\n%s", n.Output())
	}
	_, rest, _ := strings.Cut(n.Output(), "\n         curl -i ")
	command, _, _ := strings.Cut(rest, "\n")
	for _, want := range []string{"200", "429"} {
		out, err := exec.Command("sh", "-c", "curl -s -o /dev/null -w '%{http_code}' "+command).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%s: %s %v, want %s", command, out, err, want)
		}
	}
}

// TestCheckOfLimitsOnRoutes: what is wrong with the limit of a route is said once, at its place.
func TestCheckOfLimitsOnRoutes(t *testing.T) {
	for route, want := range map[string]string{
		`limit: 5/minut`:                                 `routes[0].limit: limit "5/minut": unknown period "minut" (did you mean "minute"?)`,
		`limit: 5/minute by client_id`:                   `routes[0].limit: limit "5/minute by client_id": a route has no client_id`,
		`limit: [1/s, 1/s]`:                              `routes[0].limit: limit "1/s on /x" is given twice`,
		`limit: 1/s by user`:                             `no request has a user`,
		`limit: 1/s, unlimited: true`:                    `routes[0] is unlimited: remove its limit`,
		`limit: 1/s}, {path: /x, limit: 1/s`:             `routes[1].limit: routes[0] has limits under the name "/x" too: give one of them a name`,
		`limit: 1/s, name: ` + strings.Repeat("x", 2000): `is longer than 128 bytes`,
	} {
		config := servertest.Config(t, "%s", fmt.Sprintf("routes: [{path: /x, upstream: 'http://127.0.0.1:1', %s}]\n", route))
		out, err := exec.Command(binary, "check", "--config", config).CombinedOutput()
		if err == nil || strings.Count(string(out), want) != 1 {
			t.Errorf("%s: %v\n%s\nwant %s once", route, err, out, want)
		}
	}
}

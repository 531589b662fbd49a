package main_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Other ways to ask than the files of deploy/ have: those of the comments there,
// and of configurations that people have already.
func TestOtherWaysToAsk(t *testing.T) {
	ways := map[string]func(t *testing.T, weir, app string) string{
		"caddy in short": func(t *testing.T, weir, app string) string {
			return servertest.Caddy(t, func(addr string) string {
				return ":" + port(addr) + " {\n forward_auth " + weir + " {\n uri /auth:from=forwarded?\n }\n reverse_proxy " + app + "\n}\n"
			})
		},
		// Keeps the client's query, which must not be taken for parameters.
		"caddy without a question mark": func(t *testing.T, weir, app string) string {
			return servertest.Caddy(t, func(addr string) string {
				return ":" + port(addr) + " {\n forward_auth " + weir + " {\n uri /auth\n }\n reverse_proxy " + app + "\n}\n"
			})
		},
		// As for other answerers, with the fields of many tutorials.
		"nginx with X-Original-URI": func(t *testing.T, weir, app string) string {
			return servertest.NginxServers(t, func(addr string) string {
				return `server { listen ` + addr + `;
	location / {
		auth_request /auth;
		auth_request_set $ra $upstream_http_retry_after;
		error_page 403 = @limited;
		proxy_pass http://` + app + `;
	}
	location @limited { add_header Retry-After $ra always; return 429 "{}"; }
	location = /auth {
		internal;
		proxy_pass http://` + weir + `/auth:deny=403;
		proxy_pass_request_body off;
		proxy_set_header X-Original-URI $request_uri;
		proxy_set_header X-Original-Method $request_method;
		proxy_set_header X-Forwarded-For $remote_addr;
	}
}`
			})
		},
	}
	for name, start := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, requests := behind(t)
			_, weir := asked(t, "--limit", "2/year by ip using fixed_window")
			url := "http://" + start(t, weir, app)
			for i, want := range []int{200, 200, 429} {
				// nginx hands Content-Length on here, and not the body.
				res, body := through(t, "POST", url+"/a?fail=open&cost=0&domain=other", "some")
				if res.StatusCode != want || (want == 429) != (res.Header.Get("Retry-After") != "") {
					t.Errorf("request %d: %d %v %s", i, res.StatusCode, res.Header, body)
				}
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("the application had %d requests, want 2", n)
			}
		})
	}
}

// The files of deploy/ keep their connections to Weir: a question costs no
// handshake.
func TestProxiesKeepTheirConnections(t *testing.T) {
	for _, f := range proxyFiles(true) {
		t.Run(strings.NewReplacer("/", "_", " ", "_").Replace(f.name), func(t *testing.T) {
			t.Parallel()
			h := &heard{}
			weir, app := h.listen(t)
			url := "http://" + f.start(t, weir, app)
			for range 30 {
				if res, body := through(t, "GET", url+"/", ""); res.StatusCode != 200 {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
			}
			if asked, _ := h.take(); len(asked) != 30 {
				t.Errorf("asked %d times", len(asked))
			}
			if n := h.conns.Load(); n < 1 || n > 5 {
				t.Errorf("%d connections for 30 questions", n)
			}
		})
	}
}

// However many requests come at once, exactly the limit reaches the application.
func TestProxiesAdmitExactly(t *testing.T) {
	for _, f := range proxyFiles(true) {
		if f.open {
			continue // a slow machine would be let through
		}
		t.Run(strings.NewReplacer("/", "_", " ", "_").Replace(f.name), func(t *testing.T) {
			t.Parallel()
			app, requests := behind(t)
			_, weir := asked(t, "--limit", "10/hour by ip")
			url := "http://" + f.start(t, weir, app)
			var codes statuses
			var wg sync.WaitGroup
			for range 40 {
				wg.Go(func() {
					res, err := client.Get(url + "/")
					if err != nil {
						t.Error(err)
						return
					}
					defer res.Body.Close()
					codes.add(res.StatusCode)
				})
			}
			wg.Wait()
			if codes.n[200] != 10 || codes.n[429] != 30 || requests.Load() != 10 {
				t.Errorf("answered %v, and the application had %d requests; want 10 of 200 and 30 of 429", codes.n, requests.Load())
			}
		})
	}
}

// A limiter that comes back is asked again.
func TestProxiesFindTheLimiterAgain(t *testing.T) {
	otherLoopback(t)
	for _, f := range proxyFiles(false) {
		if !f.open {
			continue
		}
		t.Run(strings.NewReplacer("/", "_", " ", "_").Replace(f.name), func(t *testing.T) {
			t.Parallel()
			app, _ := behind(t)
			// Nobody else takes a port there while nobody listens.
			n, weir := asked(t, "--limit", "1000/hour by ip", "--http", "127.0.0.5:0")
			url := "http://" + f.start(t, weir, app)
			told := func() bool {
				res, body := through(t, "GET", url+"/", "")
				if res.StatusCode != 200 {
					t.Fatalf("%d %s", res.StatusCode, body)
				}
				return res.Header.Get("RateLimit") != ""
			}
			servertest.Await(t, "the proxy to ask", told)
			if err := n.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := ended(t, n); code != 0 {
				t.Errorf("weir ended with %d", code)
			}
			for range 3 {
				if told() {
					t.Error("nobody is there to be asked")
				}
			}
			asked(t, "--limit", "1000/hour by ip", "--http", weir)
			servertest.Await(t, "the proxy to ask again", told)
		})
	}
}

package node_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// withAdmin runs a node for as long as f takes, which gets the admin port's URL.
func withAdmin(t *testing.T, conf *config.Config, f func(admin string)) {
	t.Helper()
	s, err := node.New(conf, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready, ended := make(chan node.Ready, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
	f((<-ready).URLs["admin"])
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDashboardIsMounted asks the admin port as a browser and as a command does.
func TestDashboardIsMounted(t *testing.T) {
	client := &http.Client{Transport: client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, url, body string, headers ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			if headers[i] == "Host" {
				r.Host = headers[i+1]
			}
			r.Header.Set(headers[i], headers[i+1])
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(text)
	}
	const explain = `{"domain":"api","descriptors":[{"entries":{"client_id":"1"}}]}`

	t.Run("without a token", func(t *testing.T) {
		withAdmin(t, local("3/hour by client_id"), func(admin string) {
			if res, _ := ask("GET", admin+"/", "", "Accept", "text/html,*/*;q=0.8"); res.StatusCode != 303 || res.Header.Get("Location") != "/ui/" {
				t.Errorf("a browser at /: %s %v", res.Status, res.Header)
			}
			if res, text := ask("GET", admin+"/", "", "Accept", "*/*"); res.StatusCode != 200 || !strings.HasPrefix(text, "weir admin\n") {
				t.Errorf("a command at /: %s %s", res.Status, text)
			}
			if res, text := ask("GET", admin+"/ui/", ""); res.StatusCode != 200 || !strings.Contains(text, "<!doctype html>") {
				t.Errorf("the page: %s %.80s", res.Status, text)
			}
			if res, _ := ask("GET", admin+"/ui/", "", "Host", "rebound.test"); res.StatusCode != 403 {
				t.Errorf("the page by a foreign name: %s", res.Status)
			}
			if res, text := ask("POST", admin+"/v1/explain", explain, "Sec-Fetch-Site", "same-origin"); res.StatusCode != 200 {
				t.Errorf("explain: %s %s", res.Status, text)
			}
			if res, _ := ask("POST", admin+"/v1/explain", explain, "Sec-Fetch-Site", "cross-site"); res.StatusCode != 403 {
				t.Errorf("explain from another site: %s", res.Status)
			}
		})
	})
	t.Run("with a token", func(t *testing.T) {
		const token = "an admin token of some length"
		conf := local("3/hour by client_id")
		conf.Admin.TokenFile = filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(conf.Admin.TokenFile, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		withAdmin(t, conf, func(admin string) {
			for _, path := range []string{"/rules", "/metrics", "/v1/rules", "/ui/session", "/debug/pprof/"} {
				if res, _ := ask("GET", admin+path, ""); res.StatusCode != 401 {
					t.Errorf("%s without a login: %s", path, res.Status)
				}
			}
			res, _ := ask("POST", admin+"/ui/login", url.Values{"token": {token}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
			if res.StatusCode != 303 || len(res.Cookies()) != 1 {
				t.Fatalf("login: %s %v", res.Status, res.Cookies())
			}
			cookie := res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
			for _, path := range []string{"/", "/rules", "/metrics", "/v1/rules", "/ui/session"} {
				if res, text := ask("GET", admin+path, "", "Cookie", cookie); res.StatusCode != 200 && res.StatusCode != 303 {
					t.Errorf("%s with a session: %s %s", path, res.Status, text)
				}
			}
			_, text := ask("GET", admin+"/ui/session", "", "Cookie", cookie)
			var told struct{ CSRF string }
			if err := json.Unmarshal([]byte(text), &told); err != nil {
				t.Fatal(err)
			}
			if res, _ := ask("POST", admin+"/v1/explain", explain, "Cookie", cookie); res.StatusCode != 403 {
				t.Errorf("explain without the header: %s", res.Status)
			}
			if res, text := ask("POST", admin+"/v1/explain", explain, "Cookie", cookie, "Weir-CSRF", told.CSRF); res.StatusCode != 200 {
				t.Errorf("explain: %s %s", res.Status, text)
			}
			if res, _ := ask("GET", admin+"/v1/rules", "", "Cookie", "weir_session="+strings.Repeat("A", 75)); res.StatusCode != 401 {
				t.Errorf("with a cookie made up: %s", res.Status)
			}
		})
	})
}

// TestDashboardOfAnalytics asks the process of analytics, whose queue is away.
func TestDashboardOfAnalytics(t *testing.T) {
	const token = "an admin token of some length"
	ask := func(url string, headers ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		res, err := client.Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	conf := &config.AnalyticsProcess{Events: "kafka://127.0.0.1:1/weir", Listen: "127.0.0.1:0", Token: token}
	conf.URL, conf.Log = "memory:", config.Defaults().Log
	s, err := node.NewAnalytics(conf, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(url string) { ready <- url }) }()
	base := <-ready
	servertest.Await(t, "the database to be open", func() bool { return ask(base+"/healthz/ready").StatusCode == 200 })
	if res := ask(base+"/", "Accept", "text/html"); res.StatusCode != 303 || res.Header.Get("Location") != "/ui/" {
		t.Errorf("a browser at /: %s", res.Status)
	}
	for _, path := range []string{"/", "/version", "/v1/analytics/filters"} {
		if res := ask(base + path); res.StatusCode != 401 {
			t.Errorf("%s without a token: %s", path, res.Status)
		}
	}
	if res := ask(base + "/ui/"); res.StatusCode != 303 || res.Header.Get("Location") != "/ui/login" {
		t.Errorf("the page without a login: %s", res.Status)
	}
	res, err := client.Transport.RoundTrip(postForm(t, base+"/ui/login", url.Values{"token": {token}}))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 303 || len(res.Cookies()) != 1 {
		t.Fatalf("login: %s", res.Status)
	}
	cookie := res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	for _, path := range []string{"/ui/", "/version", "/v1/analytics/filters"} {
		if res := ask(base+path, "Cookie", cookie); res.StatusCode != 200 {
			t.Errorf("%s with a session: %s", path, res.Status)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func postForm(t *testing.T, to string, form url.Values) *http.Request {
	t.Helper()
	r, err := http.NewRequest("POST", to, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

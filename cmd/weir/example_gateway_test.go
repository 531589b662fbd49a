package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// example returns a configuration of examples/gateway with its paths from here
// and other upstreams than it names.
func example(t *testing.T, name string, upstreams map[string]string) string {
	t.Helper()
	data, err := os.ReadFile("../../examples/gateway/" + name)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), ": examples/", ": ../../examples/")
	for from, to := range upstreams {
		if !strings.Contains(text, from) {
			t.Fatalf("%s does not name %s", name, from)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The gateway of examples/gateway/weir.yaml does what its comments say.
func TestExampleGateway(t *testing.T) {
	arrived, held := make(chan struct{}, 2), make(chan struct{})
	server := func(name string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Query().Has("hold"):
				arrived <- struct{}{}
				<-held
			case r.URL.Query().Has("fail"):
				w.WriteHeader(http.StatusInternalServerError)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			w.Header().Set("X-Cost", r.Header.Get("X-Ask-Cost"))
			fmt.Fprintf(w, "%s %s %s", name, r.Method, r.URL.Path)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	file := example(t, "weir.yaml", map[string]string{
		"http://127.0.0.1:3000": server("app"), "http://127.0.0.1:3001": server("files"), "10.0.0.0/8": "127.0.0.1",
	})
	n := serve(t, "--config", file)
	const acme, fry = "demo-key-of-acme-0123456789abcdef", "demo-key-of-small-fry-0123456789"
	type ask struct{ method, path, body, key, from, cost string }
	do := func(a ask) (int, string, http.Header) {
		t.Helper()
		if a.method == "" {
			a.method = "GET"
		}
		if a.from == "" {
			a.from = "203.0.113.1"
		}
		req, err := http.NewRequest(a.method, n.http+a.path, strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", a.from)
		for name, value := range map[string]string{"X-API-Key": a.key, "X-Ask-Cost": a.cost} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		code, body := read(t, res)
		return code, body, res.Header
	}
	f := func(a ask, want string, left ...string) {
		t.Helper()
		code, body, h := do(a)
		if code != 200 {
			body = ""
		}
		if got := strings.TrimSpace(fmt.Sprint(code, " ", body)); got != want {
			t.Errorf("%+v: got %s, want %s", a, got, want)
		}
		for _, l := range left {
			if !strings.Contains(h.Get("RateLimit"), l) {
				t.Errorf("%+v: told %s, want %s", a, h.Get("RateLimit"), l)
			}
		}
	}
	// The first match is taken, by canonical paths; a known key is a user with a
	// tier, whatever the address.
	for range 5 {
		f(ask{path: "/health"}, "200 app GET /health")
	}
	for range 5 {
		f(ask{path: "/users/7", key: fry}, "200 app GET /users/7")
	}
	f(ask{path: "/users/7", key: fry, from: "203.0.113.2"}, "429")
	f(ask{path: "/users/7", key: acme}, "200 app GET /users/7", "r=999;")
	// Without a key, or with one that nobody has, the address counts.
	f(ask{path: "/a"}, "200 app GET /a", `r=2;`)
	f(ask{path: "/b", key: "guessed"}, "200 app GET /b", `r=1;`)
	f(ask{path: "/f%69les/y"}, "200 files GET /y", `r=0;`)
	f(ask{path: "/a"}, "429")
	f(ask{path: "/health"}, "200 app GET /health")
	// Searches cost two units of the first limit and one of their own; those that
	// the upstream fails are given back; two run at once.
	f(ask{path: "/search", key: acme}, "200 app GET /search", `r=997;`, `"searches";r=9;`)
	f(ask{path: "/search?fail", key: acme}, "500")
	f(ask{path: "/search", key: acme}, "200 app GET /search", `"searches";r=8;`)
	both := make(chan int, 2)
	for range 2 {
		go func() {
			code, _, _ := do(ask{path: "/search?hold", key: acme})
			both <- code
		}()
	}
	<-arrived
	<-arrived
	if code, body, _ := do(ask{path: "/search", key: acme}); code != 429 || !strings.Contains(body, `"violated-policies":["searches_at_once"]`) {
		t.Errorf("a third search at once: %d %s", code, body)
	}
	close(held)
	for range 2 {
		if code := <-both; code != 200 {
			t.Errorf("held searches were answered %d", code)
		}
	}
	// Uploads cost what the upstream says, and may be larger than the rest.
	big := strings.Repeat("x", 2<<20)
	f(ask{method: "POST", path: "/users", body: big, key: acme}, "413")
	f(ask{method: "PUT", path: "/upload/cat", body: big, key: acme, cost: "60"}, "200 app PUT /upload/cat", `"upload_units";r=40;`)
	f(ask{method: "PUT", path: "/upload/cat", body: "x", key: acme, cost: "60"}, "200 app PUT /upload/cat", `"upload_units";r=0;`)
	f(ask{method: "PUT", path: "/upload/cat", body: "x", key: acme}, "429")
}

// The cases of examples/gateway hold.
func TestExampleOfCases(t *testing.T) {
	out, err := exec.Command(binary, "test", example(t, "weir.yaml", nil), "../../examples/gateway/cases.yaml").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n3 cases, 0 failed\n") {
		t.Errorf("%v: %s", err, out)
	}
}

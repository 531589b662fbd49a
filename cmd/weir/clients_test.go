package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// fetched is what curl got.
type fetched struct {
	status  string
	version string // "1.1" or "2"
	header  []string
	body    string
}

// fetch asks with curl.
func fetch(t *testing.T, args ...string) fetched {
	t.Helper()
	dir := t.TempDir()
	head, body := filepath.Join(dir, "head"), filepath.Join(dir, "body")
	cmd := exec.Command(servertest.Binary(t, "curl"), append([]string{"-sS", "--path-as-is", "-D", head, "-o", body, "-w", "%{http_version}"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("curl %q: %v", args, err)
	}
	f := fetched{version: string(out)}
	text, err := os.ReadFile(head)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			if _, status, ok := strings.Cut(name, " "); ok {
				f.status, f.header = status[:3], nil // the last of several answers
			}
			continue
		}
		f.header = append(f.header, strings.ToLower(name)+":"+value)
	}
	slices.Sort(f.header)
	if slices.Contains(args, "-I") {
		return f // curl writes the fields in the place of the body
	}
	if data, err := os.ReadFile(body); err == nil {
		f.body = string(data)
	} else if !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return f
}

// own are fields that belong to one connection, or are the gateway's.
var own = regexp.MustCompile(`^(date|connection|keep-alive|transfer-encoding|ratelimit|ratelimit-policy|x-ratelimit-.*):`)

func (f fetched) without() string {
	f.header = slices.DeleteFunc(slices.Clone(f.header), own.MatchString)
	return fmt.Sprintf("%s\n%s\n%q", f.status, strings.Join(f.header, "\n"), f.body)
}

// What a real nginx answers to a real curl is the same through the gateway, over
// every protocol, byte for byte and field for field, and the limits beside it.
func TestAnswersAreNginx(t *testing.T) {
	// Started by root, nginx reads as nobody, for whom t.TempDir is closed.
	root, err := os.MkdirTemp("", "weir-nginx")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	page := strings.Repeat("<p>a page that is worth compressing</p>\n", 400)
	for name, text := range map[string]string{"page.html": page, "data.bin": "0123456789", "a b.txt": "space", "none": ""} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	addr, _ := servertest.Nginx(t, `root `+root+`; gzip on; gzip_types *; gzip_min_length 1; port_in_redirect off; absolute_redirect off;
		location /teapot { add_header X-Twice one always; add_header X-Twice two always; return 418 "short"; }
		location /typeless { types {} default_type ""; return 200 "<html>"; }
		location /moved { return 301 /page.html; }
		location /cookies { add_header Set-Cookie "a=1; Path=/"; add_header Set-Cookie "b=2; HttpOnly"; return 204; }
		location /uri { return 200 "$request_method $request_uri"; }
		location /auth { return 401; }`)
	direct := "http://" + addr
	cert, key, _ := servertest.Certificate(t, t.TempDir(), "gateway")
	plain := serve(t, "--limit", "100000/hour", "--upstream", direct)
	secure := serve(t, "--limit", "100000/hour", "--upstream", direct, "WEIR_TLS_CERT="+cert, "WEIR_TLS_KEY="+key)
	ways := []struct {
		base, version string
		args          []string
	}{
		{plain.http, "1.1", nil},
		{plain.http, "2", []string{"--http2-prior-knowledge"}},
		{secure.http, "2", []string{"--cacert", cert}},
		{secure.http, "1.1", []string{"--cacert", cert, "--http1.1"}},
	}
	f := func(path string, args ...string) {
		t.Helper()
		want := fetch(t, append(args, direct+path)...)
		for _, way := range ways {
			got := fetch(t, append(append(slices.Clone(args), way.args...), way.base+path)...)
			if got.version != way.version || got.without() != want.without() {
				t.Errorf("%s %q over %s got\n%s\nwant\n%s", path, args, got.version, got.without(), want.without())
			}
			if !slices.ContainsFunc(got.header, func(h string) bool { return strings.HasPrefix(h, "x-ratelimit-remaining: ") }) {
				t.Errorf("%s: no limits among %q", path, got.header)
			}
		}
	}
	f("/page.html")
	f("/page.html", "-I")
	f("/page.html", "-H", "Accept-Encoding: gzip") // compressed by nginx, not opened
	f("/data.bin", "-r", "2-5")
	f("/data.bin", "-r", "100-")
	f("/data.bin", "-r", "0-0,9-9", "-H", "If-Range: never")
	f("/data.bin", "-H", "If-Modified-Since: "+time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	f("/data.bin", "-X", "POST", "-d", "x=1")
	f("/a%20b.txt")
	f("/none")
	f("/absent")
	f("/teapot")
	f("/typeless")
	f("/moved")
	f("/cookies")
	f("/auth")
	f("/uri//a/./b/../%2e%2e;c=d/%2F?q=1&&r=%zz", "-X", "PROPFIND")
	f("/uri", "-d", "@"+filepath.Join(root, "page.html"), "-H", "Expect: 100-continue")
	f("/uri", "-H", "X-Many: "+strings.Repeat("y", 5000))
}

// h2load's clients, over HTTP/2 with and without encryption and HTTP/1.1, are
// admitted the limit between them, and every one of their requests is answered.
func TestH2load(t *testing.T) {
	h2load := servertest.Binary(t, "h2load")
	upstream, requests := nginx(t)
	cert, key, _ := servertest.Certificate(t, t.TempDir(), "gateway")
	const limit, total = 700, 2000
	for name, args := range map[string][]string{"h2c": nil, "HTTP1": {"--h1"}, "TLS": nil} {
		t.Run(name, func(t *testing.T) {
			before := requests()
			conf := []string{"--limit", fmt.Sprintf("%d/hour", limit), "--upstream", upstream}
			if name == "TLS" {
				conf = append(conf, "WEIR_TLS_CERT="+cert, "WEIR_TLS_KEY="+key)
			}
			n := serve(t, conf...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, h2load, append(args, "-n", strconv.Itoa(total), "-c", "8", "-m", "16", "-t", "2", n.http+"/x")...).Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{
				fmt.Sprintf("%d total, %[1]d started, %[1]d done, %d succeeded, %d failed, 0 errored, 0 timeout", total, limit, total-limit),
				fmt.Sprintf("status codes: %d 2xx, 0 3xx, ", limit), " 4xx, 0 5xx\n",
			} {
				if !strings.Contains(string(out), want) {
					t.Errorf("h2load did not say %q:\n%s", want, out)
				}
			}
			// h2load now and then counts a 4xx twice over HTTP/1.1.
			_, text := get(t, n.admin+"/metrics")
			if refused := fmt.Sprintf(`weir_decisions_total{decision="refused",domain="api",limit="%d/hour",rule="remote_address"} %d`, limit, total-limit); !strings.Contains(text, refused+"\n") {
				t.Errorf("the metrics do not say %s", refused)
			}
			servertest.Await(t, "nginx's log", func() bool { return requests()-before >= limit })
			if got := requests() - before; got != limit {
				t.Errorf("nginx had %d requests, want %d", got, limit)
			}
		})
	}
}

// fetchScript is for node: it reads an event stream while it is written, sends
// and receives a stream, and comes to the limit.
const fetchScript = `
const base = process.argv[1], out = {};
const events = await fetch(base + "/events");
const reader = events.body.getReader(), text = new TextDecoder();
out.first = text.decode((await reader.read()).value);
await (await fetch(base + "/go")).text();
for (out.rest = ""; ;) {
  const { value, done } = await reader.read();
  if (done) break;
  out.rest += text.decode(value);
}
async function* parts() { for (let i = 0; i < 5; i++) { yield new TextEncoder().encode("part" + i); } }
const echo = await fetch(base + "/echo", { method: "POST", body: parts(), duplex: "half" });
out.echo = await echo.text();
const one = await fetch(base + "/echo", { method: "POST", body: "hello", headers: { "content-type": "text/plain" } });
out.one = [one.status, await one.text(), one.headers.get("ratelimit-policy"), one.headers.get("x-ratelimit-remaining"), one.headers.get("content-type")];
const over = await fetch(base + "/echo");
out.over = [over.status, over.headers.get("retry-after") !== null, (await over.json()).title];
console.log(JSON.stringify(out));
`

// Node's fetch, as browsers have it.
func TestNodeFetch(t *testing.T) {
	testNode := servertest.Binary(t, "node")
	proceed := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-proceed:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, "data: 2\n\n")
		case "/go":
			close(proceed)
		case "/echo":
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			_, _ = io.Copy(w, r.Body)
		}
	}))
	defer upstream.Close()
	n := serve(t, "--limit", "4/year using fixed_window", "--upstream", upstream.URL)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, testNode, "--input-type=module", "-e", fetchScript, n.http).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			out = exit.Stderr
		}
		t.Fatalf("%v: %s", err, out)
	}
	var got struct {
		First, Rest, Echo string
		One, Over         []any
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got.First != "data: 1\n\n" || got.Rest != "data: 2\n\n" || got.Echo != "part0part1part2part3part4" {
		t.Errorf("streams: %+v", got)
	}
	if s := fmt.Sprint(got.One); s != `[200 hello "4/year using fixed_window";q=4;w=31536000 0 text/plain]` {
		t.Errorf("one request: %s", s)
	}
	if s := fmt.Sprint(got.Over); s != `[429 true Too many requests]` {
		t.Errorf("over the limit: %s", s)
	}
}

package chromium

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

var update = flag.Bool("update", false, "take docs/images/browser-throttle.png anew")

// command is the path of the built command. Set once by TestMain.
var command string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	path, clean, err := servertest.Command()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer clean()
	command = path
	return m.Run()
}

// browse starts a browser and returns the context of a tab.
func browse(t *testing.T) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(servertest.Binary(t, "chromium")), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true),
		// The tests' own servers alone are reached, whatever a browser would like.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	alloc, cancelAlloc := chromedp.NewExecAllocator(t.Context(), opts...)
	tab, cancelTab := chromedp.NewContext(alloc, chromedp.WithErrorf(t.Logf))
	ctx, cancel := context.WithTimeout(tab, 8*time.Minute)
	t.Cleanup(func() {
		cancel()
		if err := chromedp.Cancel(tab); err != nil {
			t.Logf("browser: %v", err)
		}
		cancelTab()
		cancelAlloc()
	})
	return ctx
}

// serve starts a gateway before upstream and returns its URL.
func serve(t *testing.T, upstream string, args ...string) *url.URL {
	t.Helper()
	args = append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--grpc", "", "--upstream", upstream}, args...)
	p := servertest.Serve(t, servertest.Invoke(command, args...), "http")
	return &url.URL{Scheme: "http", Host: p.Listening("http")}
}

const page = `<!doctype html><html lang="en"><title>order</title>
<style>body{font:16px sans-serif;margin:2em} button{font:inherit;padding:.4em 1em} [aria-disabled=true]{opacity:.5;cursor:not-allowed} .weir-wait{margin-left:1em;color:#555}</style>
<form><input id="field" aria-label="note" style="display:none"><button id="order">Order</button></form><a id="next" href="#">next</a>
<script type="module">
import * as weir from "/module/index.js";
window.weir = weir;
window.sent = 0; window.failed = "";
window.api = new URLSearchParams(location.search).get("api");
window.send = weir.throttledFetch({ maxWait: 0 });
window.throttled = weir.throttle(document.querySelector("#order"), async () => {
  window.sent++;
  try { return window.last = await fetch(api, { method: "POST" }); } catch (err) { window.failed = String(err); }
}, { jitter: 0 });
window.heard = [];
new MutationObserver(() => heard.push(document.querySelector(".weir-status").textContent))
  .observe(document.querySelector(".weir-status"), { childList: true, characterData: true, subtree: true });
window.ready = true;
</script></html>`

// pages serves the page and the module.
func pages(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, page)
	})
	mux.Handle("/module/", http.StripPrefix("/module/", http.FileServer(http.Dir(".."))))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func open(site string, api *url.URL) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		chromedp.EmulateViewport(480, 110),
		chromedp.Navigate(site+"/?api="+url.QueryEscape(api.String()+"/order")),
		until("window.ready"),
	)
}

// until waits until an expression is true. An error may be of a page that is
// just being left.
func until(expression string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			ok, err := chromedp.Evaluate[bool]("!!("+expression+")")(ctx, t)
			if ok {
				return v, nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return v, fmt.Errorf("waited in vain for %s: %w", expression, errors.Join(ctx.Err(), err))
			}
		}
	}
}

// do evaluates an expression for its effect.
func do(expression string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = chromedp.Evaluate[bool]("("+expression+", true)")(ctx, t)
		return v, err
	}
}

// click presses the mouse in the middle of the button.
func click(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
	at, err := chromedp.Evaluate[struct{ X, Y float64 }](`(() => {
		const r = document.querySelector("#order").getBoundingClientRect();
		return { X: r.x + r.width / 2, Y: r.y + r.height / 2 } })()`)(ctx, t)
	if err != nil {
		return v, err
	}
	return chromedp.MouseClickXY(at.X, at.Y)(ctx, t)
}

// js evaluates an expression.
func js[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func run(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

const idle = `document.querySelector("#order").getAttribute("aria-busy") === null`

// across answers CORS before weir, for scripts of other origins.
func across(t *testing.T, weir *url.URL) *url.URL {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(weir)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func upstream(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	var served atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		fmt.Fprint(w, "ordered")
	}))
	t.Cleanup(s.Close)
	return s.URL, &served
}

// TestButton presses a button of a page of one origin whose service is of
// another: by mouse, by keyboard, and while it waits.
func TestButton(t *testing.T) {
	ctx := browse(t)
	up, served := upstream(t)
	// A quarter of a minute for a unit: time to look at a button that waits.
	api := across(t, serve(t, up, "--limit", "4/minute by all burst 2 using token_bucket", "--config", servertest.Config(t, "response: {expose: true}")))
	run(t, ctx, open(pages(t).URL, api))

	run(t, ctx, click, until("window.last?.status === 200 && "+idle))
	if got := js[string](t, ctx, `JSON.stringify(weir.limitsOf(last)[0])`); !strings.Contains(got, `"remaining":1`) || !strings.Contains(got, `"quota":2`) {
		t.Errorf("limits across origins: %s", got)
	}
	if js[bool](t, ctx, "throttled.waiting") {
		t.Error("the button waits though a unit is left")
	}
	// The second by keyboard: it leaves nothing, which its answer says.
	run(t, ctx, do(`document.querySelector("#order").focus()`), chromedp.KeyEvent(kb.Enter), until("sent === 2 && "+idle))
	if wait := js[float64](t, ctx, "throttled.retryAfter"); wait < 1000 || wait > 15_000 {
		t.Errorf("the button waits %v ms, want up to 15 s", wait)
	}
	run(t, ctx, click, chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(" "))
	run(t, ctx, do(`document.querySelector("#order").click()`))
	if n := js[int](t, ctx, "sent"); n != 2 || served.Load() != 2 {
		t.Errorf("%d presses were sent of a button that waits, %d were served", n, served.Load())
	}
	type buttonState struct{ Disabled, Focus, Described, Shown, Heard, URL string }
	state := js[buttonState](t, ctx, `(() => { const b = document.querySelector("#order"); return {
		Disabled: b.getAttribute("aria-disabled"), Focus: document.activeElement.id,
		Described: document.getElementById(b.getAttribute("aria-describedby"))?.textContent ?? "",
		Shown: document.querySelector(".weir-wait").innerText, Heard: document.querySelector("[role=status][aria-live=polite]").textContent,
		URL: location.pathname } })()`)
	if state.Disabled != "true" || state.Focus != "order" || state.URL != "/" {
		t.Errorf("a button that waits: %+v", state)
	}
	for _, text := range []string{state.Described, state.Shown, state.Heard} {
		if !strings.HasPrefix(text, "Available again in ") || !strings.HasSuffix(text, " s") {
			t.Errorf("a button that waits says %q: %+v", text, state)
		}
	}
	if *update {
		png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("..", "..", "..", "docs", "images", "browser-throttle.png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, ctx, chromedp.KeyEvent(kb.Tab))
	if at := js[string](t, ctx, "document.activeElement.id"); at != "next" {
		t.Errorf("Tab leads to %q", at)
	}
	run(t, ctx, until("!throttled.waiting && document.querySelector('.weir-wait').hidden"))
	if got := js[string](t, ctx, `document.querySelector("#order").outerHTML`); got != `<button id="order">Order</button>` {
		t.Errorf("a button that is free again: %s", got)
	}
	if heard := js[[]string](t, ctx, "heard"); len(heard) != 2 || heard[1] != "Available again" {
		t.Errorf("a screen reader heard %q, want two sentences", heard)
	}
	run(t, ctx, click, until("sent === 3 && last.status === 200 && "+idle))
}

// TestRefusalAcrossOrigins: what a page reads of a 429, and what it does not
// where the fields are not exposed.
func TestRefusalAcrossOrigins(t *testing.T) {
	ctx := browse(t)
	up, _ := upstream(t)
	site := pages(t).URL
	for _, headers := range []string{"ietf-08", "ietf-06", "x-ratelimit-reset"} {
		for _, expose := range []bool{true, false} {
			args := []string{"--limit", "1/hour by all", "WEIR_RESPONSE_HEADERS=" + headers}
			if expose {
				args = append(args, "--config", servertest.Config(t, "response: {expose: true}"))
			}
			run(t, ctx, open(site, across(t, serve(t, up, args...))),
				do(`fetch(api).then(() => send(api)).then((r) => window.answer = r, (err) => window.answer = err)`),
				until("window.answer"))
			got := js[string](t, ctx, `[answer.status, weir.waitOf(answer) > 3000000, weir.limitsOf(answer)[0]?.remaining].join()`)
			want := "429,true,0"
			if !expose {
				want = "429,false,"
			}
			if got != want {
				t.Errorf("%s, exposed %v: %q, want %q", headers, expose, got, want)
			}
			run(t, ctx, do(`send(api).then((r) => window.again = String(r.status), (err) => window.again = err.name)`), until("window.again"))
			again := js[string](t, ctx, "window.again")
			if want = map[bool]string{true: "LimitedError", false: "429"}[expose]; again != want {
				t.Errorf("%s, exposed %v: sent again: %s, want %s", headers, expose, again, want)
			}
		}
	}
}

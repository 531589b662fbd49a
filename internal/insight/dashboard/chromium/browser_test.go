package chromium

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

var update = flag.Bool("update", false, "take the screenshots in docs/images/ anew")

// command is the path of the built command. Set once by TestMain.
var command string

// chromium is the browser of all tests, started by the first that needs it and stopped by
// TestMain: each test has a profile of its own in it.
var chromium struct {
	start sync.Once
	ctx   context.Context
	stop  func()
	err   error
}

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	defer func() {
		if chromium.stop != nil {
			chromium.stop()
		}
	}()
	// One that is built already can be tried instead.
	if command = os.Getenv("WEIR_COMMAND"); command != "" {
		return m.Run()
	}
	path, clean, err := servertest.Command()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer clean()
	command = path
	return m.Run()
}

// patience is how long anything may take on a machine that is slow and busy.
const patience = 90 * time.Second

// tab is a page in a browser, and what went wrong in it.
type tab struct {
	t   *testing.T
	ctx context.Context
	// base is the URL of the admin port.
	base string

	mu     sync.Mutex
	faults []string
	// expected are beginnings of faults that a test is about.
	expected []string
}

// startChromium starts the browser at a path, with its profiles in a folder of its own.
func startChromium(path string) (ctx context.Context, stop func(), err error) {
	dir, err := os.MkdirTemp("", "weir-chromium")
	if err != nil {
		return nil, nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("no-first-run", true),
		// The tests' own servers alone are reached, whatever a browser would like.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	stop = func() {
		// It is to be gone before its folder goes; how it went does not matter.
		_ = chromedp.Cancel(ctx)
		cancel()
		cancelAlloc()
		_ = os.RemoveAll(dir)
	}
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

// browse opens a window with a profile of its own that faces the given admin port.
func browse(t *testing.T, base string) *tab {
	t.Helper()
	path := servertest.Binary(t, "chromium")
	chromium.start.Do(func() { chromium.ctx, chromium.stop, chromium.err = startChromium(path) })
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("browser: %v", err)
		}
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, f := range b.faults {
			t.Errorf("the browser reports: %s", f)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	b.run(
		call(log.Enable, struct{}{}),
		// Of several windows each has the focus.
		call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
		// A violation of the policy is told to the page before anything else.
		call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `document.addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample))`}),
	)
	return b
}

// call is a command of the browser's protocol as a step.
func call[P, R any](cmd cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, cmd, params)
		return v, err
	}
}

// hear notes what a browser writes on its console.
func (b *tab) hear(ev any) {
	var text string
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeWarning {
			return
		}
		for _, a := range e.Args {
			text += string(a.Value) + a.Description + " "
		}
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError && e.Entry.Level != log.EntryLevelWarning {
			return
		}
		text = e.Entry.Text + " " + e.Entry.URL
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, begin := range b.expected {
		if strings.Contains(text, begin) {
			return
		}
	}
	b.faults = append(b.faults, text)
}

// expect says that the browser will report something that contains text.
func (b *tab) expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text)
}

func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// until waits until an expression is true. An error may be of a page that is
// just being left.
func (b *tab) until(expression string) {
	b.t.Helper()
	b.await(patience, expression)
}

func (b *tab) await(most time.Duration, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("main")?.innerText.slice(0, 3000) ?? document.body.innerText`))
			b.t.Fatalf("waited %s in vain for %s: %v\nthe page says:\n%s", most, expression, errors.Join(ctx.Err(), err), text)
		}
	}
}

// do evaluates an expression for its effect.
func (b *tab) do(expression string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("(() => { "+expression+"; return true })()")); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// js evaluates an expression.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// settled holds when nothing that was asked for is still on its way.
const settled = `document.querySelector("h1") && !document.querySelector("[aria-busy=true]")`

// open goes to a page of the dashboard and waits until it has its answers.
func (b *tab) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base + "/ui" + path))
	b.until(settled)
}

// wide and narrow are the widths of a desk and of a phone.
const (
	wide   = 1360
	narrow = 360
	phone  = 375
)

func (b *tab) width(w int64) {
	b.t.Helper()
	b.size(w, 900)
}

func (b *tab) size(w, h int64) {
	b.t.Helper()
	b.run(chromedp.EmulateViewport(w, h))
}

// media sets what the system prefers.
func (b *tab) media(features map[string]string) {
	b.t.Helper()
	p := emulation.SetEmulatedMediaParams{}
	for name, value := range features {
		p.Features = append(p.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	b.run(call(emulation.SetEmulatedMedia, p))
}

// press clicks the button or link of the given text, within what a selector finds.
func (b *tab) press(within, text string) {
	b.t.Helper()
	name, err := json.Marshal(text)
	if err != nil {
		b.t.Fatal(err)
	}
	find := fmt.Sprintf(`[...document.querySelectorAll(%q)].flatMap((e) => [...e.querySelectorAll("button, a")]).find((e) => (e.textContent.trim() === %s || e.ariaLabel === %[2]s) && !e.disabled)`, within, name)
	b.until(find)
	b.do(find + ".click()")
}

// choose takes an option of a select, or an item of the menu of a button.
func (b *tab) choose(selector, text string) {
	b.t.Helper()
	find := fmt.Sprintf(`document.querySelector(%q)`, selector)
	b.until(find)
	if js[bool](b, find+`.matches("select")`) {
		option := fmt.Sprintf(`[...(%s?.options ?? [])].find((o) => o.textContent.trim() === %q)`, find, text)
		b.until(option)
		b.do(fmt.Sprintf(`const s = %s; s.focus(); s.value = %s.value; s.dispatchEvent(new Event("change", { bubbles: true }))`, find, option))
		return
	}
	b.do(find + `.click()`)
	item := fmt.Sprintf(`[...document.querySelectorAll(".menu:popover-open [role^=menuitem]")].find((i) => i.textContent.trim() === %q)`, text)
	b.until(item)
	b.do(item + `.click()`)
}

// fill writes into a field as a person does, in one go.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector(%q)`, selector))
	b.do(fmt.Sprintf(`const f = document.querySelector(%q); f.value = %q; f.dispatchEvent(new Event("input", { bubbles: true })); f.dispatchEvent(new Event("change", { bubbles: true }))`, selector, text))
}

// shot writes what the browser shows to docs/images/ if the flag -update is given.
func (b *tab) shot(name string, whole bool) {
	b.t.Helper()
	if !*update {
		return
	}
	b.do(`document.activeElement?.blur?.()`)
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	png, err := chromedp.Run(b.ctx, take)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("..", "..", "..", "..", "docs", "images", name), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

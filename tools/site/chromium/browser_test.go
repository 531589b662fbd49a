package chromium

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// dist is the folder that the site was built into. Set once by TestMain.
var dist string

func TestMain(m *testing.M) { os.Exit(build(m)) }

// build builds the site as it is to be published: a dead link is an error.
func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "site")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("npm", "run", "build", "--", "--outDir", dir)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "npm run build: %v (make site installs what it needs)\n%s", err, out)
		return 1
	}
	dist = dir
	return m.Run()
}

// patience is how long anything may take on a machine that is slow and busy.
const patience = 60 * time.Second

// A tab is a page in a browser, and the errors that it reports.
type tab struct {
	t   *testing.T
	ctx context.Context
	// site is the URL of the site's first page.
	site string

	mu     sync.Mutex
	faults []string
}

// browse serves the site and starts a browser of the size of a phone.
func browse(t *testing.T) *tab {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix(base[:len(base)-1], http.FileServer(http.Dir(dist))))
	t.Cleanup(server.Close)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(servertest.Binary(t, "chromium")), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("no-first-run", true),
		// The test's own server is reached, and nothing else.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	alloc, cancelAlloc := chromedp.NewExecAllocator(t.Context(), opts...)
	ctx, cancelTab := chromedp.NewContext(alloc, chromedp.WithErrorf(t.Logf))
	b := &tab{t: t, ctx: ctx, site: server.URL + base}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("browser: %v", err)
		}
		cancelTab()
		cancelAlloc()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, f := range b.faults {
			t.Errorf("the browser reports: %s", f)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.record); err != nil {
		t.Fatal(err)
	}
	b.run(call(log.Enable, struct{}{}), chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	return b
}

// call is a command of the browser's protocol as a step.
func call[P, R any](cmd cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, cmd, params)
		return v, err
	}
}

// record keeps the errors and warnings that a page reports.
func (b *tab) record(ev any) {
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
	b.faults = append(b.faults, text)
}

func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to a page and waits until its script runs.
func (b *tab) open(page string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.site + page))
	b.until(`document.querySelector("#app")?.__vue_app__ && document.querySelector(":is(main, .VPHome) h1")`)
}

// prefer sets the colour scheme that the system prefers.
func (b *tab) prefer(scheme string) {
	b.t.Helper()
	b.run(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// until waits until an expression is true. An error may be of a page that is being left.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
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
			b.t.Fatalf("waited %s in vain for %s: %v", patience, expression, err)
		}
	}
}

// click clicks what a selector finds, once that is shown.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)?.checkVisibility({ visibilityProperty: true })", selector))
	js[bool](b, fmt.Sprintf("(document.querySelector(%q).click(), true)", selector))
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

// shot writes what the browser shows into the folder WEIR_SITE_SHOTS, if that is set.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("WEIR_SITE_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+strings.ReplaceAll(name, "/", "-")+".png", png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

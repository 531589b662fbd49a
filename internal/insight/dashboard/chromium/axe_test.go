package chromium

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// axe is axe-core, as testdata/axe-core/README.md says.
const axe = "testdata/axe-core/axe.min.js"

// TestAxeIsTheLockedOne compares the checker with the one that the lock file pins.
func TestAxeIsTheLockedOne(t *testing.T) {
	modules := filepath.Join("..", "web", "node_modules", "axe-core")
	for _, name := range []string{"axe.min.js", "LICENSE"} {
		want, err := os.ReadFile(filepath.Join(modules, name))
		if err != nil {
			const advice = "axe-core is not installed: `make servers` installs it, or `npm --prefix internal/insight/dashboard/web ci`"
			if os.Getenv("WEIR_REQUIRE_SERVERS") == "1" {
				t.Fatal(advice)
			}
			t.Skip(advice)
		}
		got, err := os.ReadFile(filepath.Join(filepath.Dir(axe), name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not that of internal/insight/dashboard/web/package-lock.json: copy it from dashboard/web/node_modules/axe-core", name)
		}
	}
}

// violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []string
}

// audit returns what axe-core finds serious or critical on the page that is shown, by
// WCAG 2.2 A and AA and by best practice.
func (b *tab) audit(script string) []violation {
	b.t.Helper()
	if !js[bool](b, `typeof axe === "object"`) {
		b.do(script)
	}
	b.do(`window.audited = undefined;
		axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental"] }).then(
			(r) => (window.audited = { found: r.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => ({ ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map((n) => n.target.join(" ") + ": " + n.html.slice(0, 160) + " " + (n.failureSummary ?? "").slice(0, 300)) })), passed: r.passes.length }),
			(e) => (window.audited = { fault: String(e) }))`)
	b.until(`window.audited`)
	type report struct {
		Found  []violation
		Passed int
		Fault  string
	}
	r := js[report](b, `window.audited`)
	if r.Fault != "" || r.Passed == 0 {
		b.t.Fatalf("axe-core did not run: %d rules passed: %s", r.Passed, r.Fault)
	}
	return r.Found
}

// TestFamilyAxe lets axe-core look at every page, at the width of a desk and of a phone,
// light and dark, with menus and dialogs open, and without analytics.
func TestFamilyAxe(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(axe)
	if err != nil {
		t.Fatal(err)
	}
	script := string(source)
	end := time.Now().Truncate(time.Minute)
	events, span := throttled(end)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(adminToken), 0o600); err != nil {
		t.Fatal(err)
	}
	n := serve(t, "--admin-token-file", token, "--events-sample", "1", "--analytics", "sqlite:"+filled(t, events))
	n.bearerToken = adminToken
	n.spend("one", 105)
	bare := serve(t, "--analytics", "off")
	b := browse(t, n.admin)
	b.expect("status of 401")
	off := browse(t, bare.admin)
	off.expect("/v1/analytics/")
	// A page follows the system's colours while it is open: it is opened once for both.
	check := func(b *tab, what string) {
		t.Helper()
		for _, colours := range []string{"light", "dark"} {
			b.media(map[string]string{"prefers-color-scheme": colours, "prefers-reduced-motion": "reduce"})
			b.until(fmt.Sprintf(`(document.documentElement.dataset.theme ?? %q) === %[1]q`, colours))
			for _, v := range b.audit(script) {
				t.Errorf("%s, %s: %s (%s): %s\n\t%s", what, colours, v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n\t"))
			}
		}
	}
	in := false
	for _, width := range []int64{wide, phone} {
		for _, b := range []*tab{b, off} {
			b.width(width)
		}
		at := func(path string) string { return fmt.Sprintf("%s at %d", path, width) }
		if !in {
			b.run(navigate(n.admin + "/ui/"))
			b.until(`document.querySelector("#token")`)
			check(b, at("login"))
			b.logIn("not the token, but as long")
			b.until(`document.querySelector("#fault")`)
			check(b, at("login that failed"))
			b.logIn(adminToken)
			b.until(`location.pathname === "/ui/" && ` + settled)
			in = true
		}
		for _, path := range append(views, "/client?key=client-b", "/rule?domain=api&rule=remote_address&limit=remote_address&replay=1") {
			join := "?"
			if strings.Contains(path, "?") {
				join = "&"
			}
			b.open(path + join + "live=0&utc=1" + span)
			check(b, at(path))
			if path == "/" || path == "/upstream" {
				b.do(`for (const t of document.querySelectorAll("[aria-label$='as a table']")) t.click()`)
				b.until(`document.querySelector(".table-of-chart")`)
				check(b, at(path+" with tables"))
			}
		}
		b.open("/?live=0&by=request" + span)
		b.do(`document.querySelector(".unfold").click()`)
		b.press(".bar", "Filter")
		b.until(`document.querySelector(".popover")`)
		check(b, at("the filter"))
		b.do(`document.querySelector(".bar .presets + .anchor button").click()`)
		b.until(`document.querySelector("#range-from")`)
		check(b, at("a range of one's own"))
		b.open("/clients?live=0" + span)
		b.do(`document.querySelector("[data-test=client-actions]").click()`)
		b.until(`document.querySelector(".menu:popover-open [role=menuitem]")`)
		check(b, at("the menu of a client"))
		for _, action := range []string{"Another limit…", "Give units back…", "Ban…"} {
			b.open("/clients?live=0" + span)
			b.choose("[data-test=client-actions]", action)
			b.until(`document.querySelector("dialog[open]")`)
			check(b, at(action))
		}
		b.open("/rule?domain=api&rule=client_id&live=0" + span)
		b.press("[aria-label='Change the mode']", "10 %")
		b.until(`document.querySelector("dialog[open]")`)
		check(b, at("the dialog of a mode"))
		b.fill("#action-reason", "axe looks")
		b.press("dialog .actions", "Enforce for 10 %")
		b.until(`document.querySelector("dialog [data-test=done]")`)
		check(b, at("the answer to a change of a mode"))
		b.press("dialog .actions", "Close")
		b.until(`!document.querySelector("dialog")`)
		menus := 0
		for _, path := range []string{"/", "/rule?domain=api&rule=client_id&limit=client_id", "/audit", "/rules", "/clients"} {
			join := "?"
			if strings.Contains(path, "?") {
				join = "&"
			}
			b.open(path + join + "live=0" + span)
			b.do(`for (const d of document.querySelectorAll("details")) d.open = true`)
			b.until(`!document.querySelector("details:not([open])")`)
			check(b, at(path+" with all that folds open"))
			// Every kind of menu of the page, one after the other.
			kinds := js[int](b, `window.kinds = [...new Map([...document.querySelectorAll("button.menu-button")].map((m) => [m.getAttribute("aria-label").split(":")[0], m])).values()], window.kinds.length`)
			menus += kinds
			for i := range kinds {
				b.do(fmt.Sprintf(`window.kinds[%d].click()`, i))
				b.until(`document.querySelector(".menu:popover-open [role^=menuitem]")`)
				check(b, at(fmt.Sprintf("%s with menu %d", path, i)))
				b.do(`document.querySelector(".menu:popover-open").hidePopover()`)
				b.until(`!document.querySelector(".menu:popover-open")`)
			}
		}
		if menus < 2 {
			t.Errorf("%s: %d menus", at("the pages"), menus)
		}
		for _, path := range []string{"/", "/rules", "/system"} {
			off.open(path)
			check(off, at(path+" without analytics"))
		}
	}
	// Logged out, at the width that was not seen.
	b.press(".side", "Log out")
	b.until(`location.pathname === "/ui/login" && document.querySelector("#token")`)
	for _, width := range []int64{wide, phone} {
		b.width(width)
		check(b, fmt.Sprintf("login at %d", width))
	}
}

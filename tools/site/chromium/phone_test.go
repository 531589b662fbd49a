package chromium

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// small returns the texts that are shown in letters of less than 16 px, with their size.
const small = `(() => {
	const found = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const e = n.parentElement;
		if (!n.data.trim() || !e.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
		if (e.closest("style, script, sup, .visually-hidden")) continue;
		const size = parseFloat(getComputedStyle(e).fontSize);
		if (size < 16) found.add(size + " px: " + n.data.trim().slice(0, 40));
	}
	return [...found].slice(0, 10);
})()`

// contrasts returns the texts of a page whose contrast to what is behind them is less than
// 4.5 to 1, as WCAG 2.2 AA wants it.
const contrasts = `(() => {
	const rgb = (c) => (c.match(/[\d.]+/g) ?? []).map(Number);
	const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
	const found = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const e = n.parentElement;
		if (!n.data.trim() || !e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || e.closest("style, script, .visually-hidden")) continue;
		const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) found.add(ratio.toFixed(2) + ": " + n.data.trim().slice(0, 40));
	}
	return [...found].slice(0, 10);
})()`

// cut returns the elements that reach beyond the right edge and are in no box that scrolls.
const cut = `(() => {
	const boxed = (e) => { for (; e && e !== document.body; e = e.parentElement) if (getComputedStyle(e).overflowX !== "visible") return true; return false; };
	return [...document.querySelectorAll(":is(main, .VPHome) *")].filter((e) => e.getBoundingClientRect().right > 360.5 && !boxed(e)).map((e) => e.outerHTML.slice(0, 80)).slice(0, 5);
})()`

// TestPhone reads every page at the width of a phone, in both colour schemes.
func TestPhone(t *testing.T) {
	b := browse(t)
	for page := range readSite(t) {
		page = strings.TrimPrefix(page, base)
		if page == "404.html" {
			continue
		}
		b.prefer("light")
		b.open(page)
		if got, inner := js[int](b, "document.documentElement.scrollWidth"), js[int](b, "innerWidth"); got > inner || inner != 360 {
			t.Errorf("%s: %d px wide on a screen of %d: the page scrolls sideways", page, got, inner)
		}
		if got := js[[]string](b, cut); len(got) > 0 {
			t.Errorf("%s: cut off at the right: %q", page, got)
		}
		if got := js[[]string](b, small); len(got) > 0 {
			t.Errorf("%s: letters below 16 px: %q", page, got)
		}
		for _, scheme := range []string{"light", "dark"} {
			b.prefer(scheme)
			b.until(fmt.Sprintf(`document.documentElement.classList.contains("dark") === %v`, scheme == "dark"))
			// Colours that fade are read at the end of their way.
			b.until(`document.getAnimations().every((a) => a.playState === "finished")`)
			if got := js[[]string](b, contrasts); len(got) > 0 {
				t.Errorf("%s, %s: contrast below 4.5: %q", page, scheme, got)
			}
			switch page {
			case "index.html", "tutorials/gateway.html", "reference/rules.html", "reference/http-api.html", "reference/dashboard.html":
				b.shot("phone-" + scheme + "-" + page)
			}
		}
	}
}

// TestMenu opens the menu of a page, and goes from there to another.
func TestMenu(t *testing.T) {
	b := browse(t)
	b.open("how-to/install.html")
	const link = `document.querySelector('.VPSidebar a[href="/weir/reference/rules.html"]')`
	if js[bool](b, link+".checkVisibility({ visibilityProperty: true, opacityProperty: true })") {
		t.Error("the menu is open before it is asked for")
	}
	b.click(".VPLocalNav .menu")
	b.until(`document.querySelector(".VPSidebar").getBoundingClientRect().left === 0 && getComputedStyle(document.querySelector(".VPSidebar")).opacity === "1"`)
	if got := js[[]string](b, `[...document.querySelectorAll(".VPSidebar .level-0 > .item h2")].map((e) => e.textContent)`); strings.Join(got, ", ") != "Tutorials, How-to, Reference, Explanation" {
		t.Errorf("the menu has the groups %q", got)
	}
	if got := js[[]string](b, small); len(got) > 0 {
		t.Errorf("letters below 16 px in the menu: %q", got)
	}
	b.shot("menu")
	js[bool](b, "("+link+".click(), true)")
	b.until(`location.pathname === "/weir/reference/rules.html" && document.querySelector("main h1")?.textContent.startsWith("Rules files")`)
}

// TestSearch finds a word of the reference, and goes there.
func TestSearch(t *testing.T) {
	b := browse(t)
	b.open("index.html")
	b.click("#local-search button")
	b.until(`document.activeElement.matches("input.search-input")`)
	b.run(chromedp.KeyEvent("token_bucket"))
	b.until(`document.querySelectorAll(".VPLocalSearchBox .result").length > 0`)
	found := js[[]string](b, `[...document.querySelectorAll(".VPLocalSearchBox a.result")].map((e) => new URL(e.href).pathname)`)
	if !strings.Contains(strings.Join(found, " "), "/weir/reference/rules.html") {
		t.Errorf("token_bucket is found at %q, and not in the reference of rules", found)
	}
	if got, inner := js[int](b, "document.documentElement.scrollWidth"), js[int](b, "innerWidth"); got > inner {
		t.Errorf("the results are %d px wide on a screen of %d", got, inner)
	}
	if got := js[[]string](b, small); len(got) > 0 {
		t.Errorf("letters below 16 px in the search: %q", got)
	}
	b.shot("search")
	b.click(".VPLocalSearchBox a.result")
	b.until(`!document.querySelector(".VPLocalSearchBox") && location.pathname !== "/weir/index.html" && document.querySelector("main h1")`)
}

// TestDesk reads a page at the width of a desk.
func TestDesk(t *testing.T) {
	b := browse(t)
	b.run(chromedp.EmulateViewport(1360, 850))
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		b.open("reference/rules.html")
		if !js[bool](b, `document.querySelector(".VPSidebar").getBoundingClientRect().width > 200 && document.querySelector(".VPDocOutlineItem a").checkVisibility()`) {
			t.Error("a wide page shows no menu or no outline")
		}
		b.shot("desk-" + scheme)
	}
}

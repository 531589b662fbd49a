package chromium

import (
	"strings"
	"testing"
)

// views are the pages of the dashboard, and one of each kind.
var views = []string{
	"/", "/rules", "/rule?domain=api&rule=client_id&limit=client_id", "/clients", "/client?key=none", "/accuracy", "/upstream", "/system",
	"/explain?domain=api&ask=client_id%3Done", "/audit", "/nowhere",
}

// examine reports what is wrong with the page that is shown, by rules that hold for
// all of them.
const examine = `(() => {
  const out = [];
  const say = (what, e) => out.push(what + ": " + (e.outerHTML ?? "").slice(0, 160));
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".visually-hidden, .skip, [aria-hidden=true], dialog:not([open])");
  if (document.documentElement.scrollWidth > innerWidth) {
    out.push("the page is wider than the window: " + document.documentElement.scrollWidth + " > " + innerWidth);
  }
  if (document.querySelectorAll("main").length !== 1 || document.querySelectorAll("h1").length !== 1) out.push("not one main and one h1");
  for (const landmark of ["nav[aria-label]", "header", "main#main", "a.skip[href='#main']"]) if (!document.querySelector(landmark)) out.push("no " + landmark);
  const name = (e) => (e.ariaLabel ?? "") || [...(e.labels ?? [])].map((l) => l.textContent).join("") || (e.getAttribute("aria-labelledby") ?? "").split(" ").map((i) => document.getElementById(i)?.textContent ?? "").join("") || (e.matches("input, select, textarea") ? "" : e.textContent) || [...e.querySelectorAll("img")].map((i) => i.alt).join("");
  for (const e of document.querySelectorAll("button, a[href], input:not([type=hidden]), select, textarea, [role=slider], [role=img]")) if (!name(e).trim()) say("has no name", e);
  for (const e of document.querySelectorAll("img")) if (e.getAttribute("alt") === null) say("has no alt", e);
  for (const e of document.querySelectorAll("th")) if (!["col", "row"].includes(e.scope)) say("has no scope", e);
  for (const e of document.querySelectorAll("table")) if (!e.querySelector("thead th")) say("has no heads", e);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((i) => i === id).length > 1) out.push("two elements are called " + id);
  let level = 1;
  for (const e of document.querySelectorAll("h1, h2, h3")) { const n = Number(e.tagName[1]); if (n > level + 1) say("skips a level", e); level = n; }
  for (const e of document.querySelectorAll("[style]")) if (!e.closest(".uplot, .plot, .tip") && e.getAttribute("style")) say("has a style of its own", e);

  // Contrast by WCAG 2.2, 1.4.3: 4.5 to 1, 3 to 1 for large text.
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const parse = (text) => {
    let m = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(text);
    if (m) return [Number(m[1]), Number(m[2]), Number(m[3]), m[4] === undefined ? 1 : Number(m[4])];
    m = /^color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)(?: \/ ([\d.]+))?\)$/.exec(text);
    if (m) return [m[1] * 255, m[2] * 255, m[3] * 255, m[4] === undefined ? 1 : Number(m[4])];
    return undefined;
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const ground = (e) => {
    const stack = [];
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c && c[3] > 0) { stack.push(c); if (c[3] === 1) break; }
    }
    let out = [255, 255, 255, 1];
    for (const c of stack.reverse()) out = over(c, out);
    return out;
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !shown(e) || e.closest("svg, option, :disabled, noscript, script, .uplot")) continue;
    const style = getComputedStyle(e);
    const back = ground(e);
    const ink = parse(style.color);
    if (!ink) { out.push("cannot read the colour " + style.color); continue; }
    const [a, b] = [light(over(ink, back)), light(back)].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5)) say("contrast " + ratio.toFixed(2), e);
  }
  return out;
})()`

// TestPages looks at every page, at both widths and in both colours.
func TestPages(t *testing.T) {
	t.Parallel()
	n := serve(t)
	n.spend("one", 105)
	n.spend("two", 3)
	n.visit("192.0.2.1", "/login", "curl/8", 25)
	b := browse(t, n.admin)
	for _, colours := range []string{"light", "dark"} {
		b.media(map[string]string{"prefers-color-scheme": colours, "prefers-reduced-motion": "reduce"})
		for _, width := range []int64{wide, narrow} {
			b.width(width)
			for _, path := range views {
				b.open(path)
				for _, fault := range js[[]string](b, examine) {
					t.Errorf("%s at %d, %s: %s", path, width, colours, fault)
				}
				if got := js[string](b, "document.documentElement.dataset.theme"); got != colours {
					t.Errorf("%s: the page is %s while the system is %s", path, got, colours)
				}
				if moving := js[int](b, "document.getAnimations().length"); moving > 0 {
					t.Errorf("%s: %d animations, though the system asks for less motion", path, moving)
				}
			}
		}
	}
}

// TestFrame tries what is the same on all pages: the address as the state, the
// way by links and back, colours, the keyboard.
func TestFrame(t *testing.T) {
	t.Parallel()
	n := serve(t)
	n.spend("one", 2)
	b := browse(t, n.admin)
	b.width(wide)
	b.open("/?live=0")

	b.press(".bar", "6h")
	b.until(`location.search.includes("from=-6h")`)
	b.press(".bar", "UTC")
	b.until(`location.search.includes("utc=1")`)
	b.press(".bar", "Filter")
	b.choose("#filter-field", "Rule")
	b.fill("#filter-value", "client_id")
	b.press(".popover", "Add")
	b.until(`location.search.includes("rule=client_id") && document.querySelector(".chip")?.textContent.includes("rule: client_id")`)
	state := js[string](b, "location.search")
	for _, part := range []string{"from=-6h", "utc=1", "live=0", "rule=client_id"} {
		if !strings.Contains(state, part) {
			t.Errorf("the address %s has no %s", state, part)
		}
	}
	// A page of the same address is the same page.
	b.open("/" + state)
	b.until(`document.querySelector(".presets [aria-pressed=true]")?.textContent === "6h" && document.querySelector(".chip")`)
	b.press(".chip", "Remove the filter rule")
	b.until(`!location.search.includes("rule=") && !document.querySelector(".chip")`)
	b.press(".nav", "Clients")
	b.until(`location.pathname === "/ui/clients" && document.querySelector("h1").textContent === "Throttled clients" && location.search.includes("from=-6h")`)
	if at := js[string](b, "document.activeElement.id"); at != "main" {
		t.Errorf("after a link the focus is at %q", at)
	}
	b.do("history.back()")
	b.until(`location.pathname === "/ui/" && document.querySelector("h1").textContent === "Overview"`)

	// A range of one's own.
	b.press(".bar", "Custom")
	b.fill("#range-from", "2026-01-01T10:00")
	b.fill("#range-to", "2026-01-01T12:30")
	b.press(".popover", "Apply")
	b.until(`location.search.includes("from=2026-01-01T10%3A00%3A00Z") && location.search.includes("to=2026-01-01T12%3A30%3A00Z")`)
	b.press(".bar", "Zoom in")
	b.until(`location.search.includes("from=2026-01-01T10%3A37%3A30Z")`)

	// An address alone is explained, and a page has others beside it.
	b.do(`const q = document.querySelector("#explain-quick"); q.value = "203.0.113.7"; q.dispatchEvent(new Event("input")); q.form.requestSubmit()`)
	b.until(`location.pathname === "/ui/explain" && new URLSearchParams(location.search).get("ask") === "remote_address=203.0.113.7"`)
	b.open("/system")
	b.press(".pages", "Audit")
	b.until(`location.pathname === "/ui/audit" && document.querySelector(".nav [aria-current=page]").textContent === "System"`)

	// On a phone the controls are behind a button that says how they stand.
	b.width(phone)
	b.open("/?from=-6h&rule=client_id")
	const filter = `[...document.querySelectorAll(".bar button")].find((e) => e.textContent === "Filter")`
	if says := js[string](b, `document.querySelector(".unfold").textContent`); says != "6h, 1 filter, live" || js[bool](b, filter+".checkVisibility()") {
		t.Errorf("folded: %q", says)
	}
	b.press(".bar", "6h, 1 filter, live")
	b.until(filter + ".checkVisibility()")
	b.width(wide)

	// Where nothing was decided, the page says what to do.
	b.open("/?from=2026-01-01T10:00:00Z&to=2026-01-01T11:00:00Z")
	b.until(`document.querySelector("[data-test=first-steps] pre")`)

	// Colours: what was chosen is kept.
	b.choose("[data-test=colours]", "Dark")
	b.until(`document.documentElement.dataset.theme === "dark"`)
	b.open("/rules")
	b.until(`document.documentElement.dataset.theme === "dark" && document.querySelector("[data-test=colours]").value === "dark"`)

	// By keyboard: the first stop leads to the content, and every stop can be seen.
	b.open("/explain")
	b.key("Tab")
	if at := js[string](b, "document.activeElement.className + document.activeElement.getBoundingClientRect().left"); at != "skip6" {
		t.Errorf("the first stop is %q", at)
	}
	b.key("Enter")
	b.until(`document.activeElement.id === "main"`)
	for i := range 4 {
		b.key("Tab")
		if !js[bool](b, `(() => { const s = getComputedStyle(document.activeElement); return document.activeElement !== document.body && s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 })()`) {
			t.Errorf("stop %d does not show: %s", i+2, js[string](b, "document.activeElement.outerHTML.slice(0, 120)"))
		}
	}
}

// TestExplain asks why a request is refused, by the form and by the address.
func TestExplain(t *testing.T) {
	t.Parallel()
	n := serve(t)
	n.spend("one", 101)
	b := browse(t, n.admin)
	b.width(narrow)
	b.open("/explain")
	b.fill("#explain-domain", "api")
	b.fill("#explain-entries", "client_id=one")
	b.press(".ask", "Explain")
	b.until(`document.querySelector("[data-test=decision]")?.textContent.includes("Refused.")`)
	if row := js[string](b, `document.querySelector("[data-test=counters] tbody").innerText`); !strings.Contains(row, "client_id") || !strings.Contains(row, "0 of 100") || !strings.Contains(row, "100/day") {
		t.Errorf("the limit: %s", row)
	}
	if why := js[string](b, `document.querySelector("[data-test=why]").innerText`); !strings.Contains(why, "the rule for the key takes every value") || !strings.Contains(why, "rules.yaml:3") {
		t.Errorf("why: %s", why)
	}
	address := js[string](b, "location.pathname + location.search")
	b.open(strings.TrimPrefix(address, "/ui"))
	b.until(`document.querySelector("[data-test=decision]")?.textContent.includes("Refused.")`)

	// Two descriptors, of which one meets nothing.
	b.fill("#explain-entries", "auth=login\nremote_address=192.0.2.1\n\nnobody=asks")
	b.press(".ask", "Explain")
	b.until(`document.querySelector("[data-test=decision]")?.textContent.includes("Allowed.")`)
	b.until(`document.querySelectorAll("[data-test=why] ol > li").length === 2`)
	b.fill("#explain-entries", "nonsense")
	b.press(".ask", "Explain")
	b.until(`document.querySelector(".ask [role=alert]")`)
	if left := n.explain("one").Decision.Remaining; left != 0 {
		t.Errorf("explaining changed the count: %d are left", left)
	}
}

// TestLive watches what happens while it happens.
func TestLive(t *testing.T) {
	t.Parallel()
	n := serve(t)
	b := browse(t, n.admin)
	b.width(wide)
	b.open("/")
	b.until(`document.querySelector("[data-test=live] .live-dot.on") && document.querySelector("[data-figure=live-total]")`)
	b.until(`document.querySelector("[data-test=live] header").innerText.includes("node edge-1")`)
	n.spend("one", 130)
	b.until(`[...document.querySelectorAll("[data-test=live] tbody tr")].some((r) => r.innerText !== undefined && r.textContent.includes("Refused") && r.textContent.includes("client_id"))`)
	b.until(`document.querySelector("[data-test=live] [aria-live=polite]").textContent.includes("requests a second")`)
	b.press(".bar", "Live")
	b.until(`location.search.includes("live=0") && document.querySelector("[data-test=live] header").innerText.includes("Not live")`)
	b.press(".bar", "Live")
	b.until(`document.querySelector("[data-test=live] .live-dot.on")`)
	b.open("/system")
	b.until(`document.querySelector("[data-test=tiles]").innerText.includes("edge-1")`)
	if rules := js[string](b, `document.querySelector("[data-test=rules-status]").innerText`); !strings.Contains(rules, "rules.yaml") {
		t.Errorf("rules in use: %s", rules)
	}
	b.until(`document.querySelector("[data-test=reloads] tbody").innerText.includes("generation 1, 5 rules")`)
}

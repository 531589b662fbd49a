package chromium

import (
	"fmt"
	"testing"
	"time"
)

// TestFamilyArrowKeysDoNothing goes to every stop of every page by Tab and presses the arrow
// keys there: the address stays, nothing is asked, no dialog opens, no colour changes. Fields
// of numbers and the line of a rule, which are set by arrow keys, are left out.
func TestFamilyArrowKeysDoNothing(t *testing.T) {
	t.Parallel()
	events, span := throttled(time.Now().Truncate(time.Minute))
	n := serve(t, "--events-sample", "1", "--analytics", "sqlite:"+filled(t, events))
	g, base := before(t, n)
	b := browse(t, base)
	for _, width := range []int64{wide, phone} {
		b.width(width)
		for _, path := range []string{"/?", "/rules?", "/rule?domain=api&rule=client_id&limit=client_id&replay=1", "/clients?", "/client?key=client-a", "/accuracy?", "/upstream?", "/system?", "/explain?domain=api&ask=client_id%3Done", "/audit?"} {
			b.open(path + "&live=0" + span)
			type state struct{ Address, Colours, Open string }
			now := func() state {
				return js[state](b, `({ Address: location.href, Colours: document.documentElement.dataset.theme, Open: [...document.querySelectorAll("dialog[open], .menu:popover-open")].map((e) => e.className).join() })`)
			}
			asked := func() (sum int) {
				g.mu.Lock()
				defer g.mu.Unlock()
				for address, n := range g.asked {
					if address != "/v1/live" && address != "/ui/session" {
						sum += n
					}
				}
				return sum
			}
			was, before, stops := now(), asked(), 0
			b.do(`document.activeElement.blur()`)
			for stops < 200 {
				b.key("Tab")
				at := js[string](b, `document.activeElement === document.body ? "" : document.activeElement.outerHTML.slice(0, 150)`)
				if at == "" || js[bool](b, `document.activeElement.matches("[data-seen]")`) {
					break
				}
				stops++
				b.do(`document.activeElement.dataset.seen = ""`)
				if js[bool](b, `document.activeElement.matches("input, textarea, [role=slider]")`) {
					continue
				}
				for _, key := range []string{"ArrowDown", "ArrowDown", "ArrowUp", "End"} {
					b.key(key)
				}
				if got := now(); got != was {
					t.Fatalf("%s at %d: arrow keys on %s made %+v of %+v", path, width, at, got, was)
				}
			}
			if stops < 12 {
				t.Errorf("%s: %d stops by Tab", path, stops)
			}
			if got := asked(); got != before {
				t.Errorf("%s: arrow keys asked for something %d times", path, got-before)
			}
		}
	}
}

// TestFamilyMenus opens every menu by Enter and by Space, moves in it, leaves it by Escape and
// by Tab, and chooses by the keyboard alone: what was opened is said, and the focus comes back.
func TestFamilyMenus(t *testing.T) {
	t.Parallel()
	events, span := throttled(time.Now().Truncate(time.Minute))
	n := serve(t, "--events-sample", "1", "--events-unhashed", "--analytics", "sqlite:"+filled(t, events))
	b := browse(t, n.admin)
	const focused = `document.activeElement.textContent.trim()`
	for _, width := range []int64{wide, phone} {
		b.width(width)
		for _, m := range []struct {
			path, menu string
			steps      int
			item, then string
		}{
			{"/clients?", "client-actions", 1, "Another limit…", `document.querySelector("dialog[open] h2").textContent === "Give a client another limit"`},
			{"/clients?", "client-actions", -1, "Ban…", `document.querySelector("dialog[open] h2").textContent === "Ban a client"`},
			{"/clients?", "client-actions", 0, "Explain", `location.pathname === "/ui/explain"`},
			{"/client?key=client-a", "client-actions", 5, "Ban…", `document.querySelector("dialog[open] h2").textContent === "Ban a client"`},
			{"/explain?domain=api&ask=client_id%3Done", "explain-actions", 1, "Give units back…", `document.querySelector("dialog[open] h2").textContent === "Give units back to a client"`},
			{"/?", "lines-by", -1, "requests", `location.search.includes("by=request") && document.querySelector("#over-time").textContent === "Requests over time"`},
			{"/?", "colours", 2, "Dark", `document.documentElement.dataset.theme === "dark"`},
		} {
			b.open(m.path + "&live=0" + span)
			button := fmt.Sprintf("document.querySelector('[data-test=%s]')", m.menu)
			b.until(button)
			state := func(what, open string) {
				t.Helper()
				b.until(fmt.Sprintf(`%s.getAttribute("aria-expanded") === "%s" && [...document.querySelectorAll(".menu:popover-open")].length === %d`, button, open, map[string]int{"true": 1, "false": 0}[open]))
				if open == "false" && !js[bool](b, "document.activeElement === "+button) {
					t.Errorf("%s of %s, %s: the focus is at %q", m.menu, m.path, what, js[string](b, `document.activeElement.outerHTML.slice(0, 150)`))
				}
			}
			if role := js[string](b, button+`.tagName + " " + `+button+`.getAttribute("aria-haspopup")`); role != "BUTTON menu" {
				t.Errorf("%s is a %s", m.menu, role)
			}
			b.do(button + ".focus()")
			state("untouched", "false")
			for _, key := range []string{"Enter", "Space"} {
				b.key(key)
				state(key, "true")
				b.until(`document.activeElement.matches(".menu:popover-open [role^=menuitem]")`)
				b.key("ArrowDown")
				b.key("Escape")
				state("Escape", "false")
			}
			b.key("Enter")
			b.until(`document.activeElement.matches(".menu:popover-open [role^=menuitem]")`)
			b.key("Tab")
			b.until(`!document.querySelector(".menu:popover-open") && document.activeElement !== ` + button)

			b.do(button + ".focus()")
			b.key("Enter")
			b.until(`document.activeElement.matches(".menu:popover-open [role^=menuitem]")`)
			if js[string](b, "document.activeElement.role") == "menuitem" {
				b.key("Home")
			}
			for range max(m.steps, -m.steps) {
				b.key(map[bool]string{true: "ArrowDown", false: "ArrowUp"}[m.steps > 0])
			}
			if at := js[string](b, focused); at != m.item {
				t.Errorf("%s of %s: %d steps lead to %q, not to %q", m.menu, m.path, m.steps, at, m.item)
				continue
			}
			// The whole of it is in the window.
			type box struct{ L, T, R, B, W, H float64 }
			at := js[box](b, `(() => { const r = document.querySelector(".menu:popover-open").getBoundingClientRect(); return { L: r.left, T: r.top, R: r.right, B: r.bottom, W: innerWidth, H: innerHeight } })()`)
			if at.L < 0 || at.T < 0 || at.R > at.W || at.B > at.H {
				t.Errorf("%s of %s at %d lies at %+v", m.menu, m.path, width, at)
			}
			b.key("Enter")
			b.until(m.then)
			if js[bool](b, `!!document.querySelector("dialog[open]")`) {
				b.key("Escape")
				b.until(`!document.querySelector("dialog")`)
				state("after the dialog", "false")
			}
		}
		b.choose("[data-test=colours]", "System colours")
	}
}

// TestFamilyPhoneShowsWhereOneIs looks for the entry of the current page in the navigation,
// and for every other entry, at widths of phones.
func TestFamilyPhoneShowsWhereOneIs(t *testing.T) {
	t.Parallel()
	n := serve(t)
	b := browse(t, n.admin)
	for _, width := range []int64{320, narrow, phone, 430, 820, wide} {
		b.width(width)
		for _, path := range views {
			b.open(path)
			type entry struct {
				Name             string
				Shown, IsCurrent bool
			}
			entries := js[[]entry](b, `[...document.querySelectorAll(".nav a")].map((a) => { const r = a.getBoundingClientRect(); const top = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2); return { Name: a.textContent, IsCurrent: a.ariaCurrent === "page", Shown: r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight && (top === a || a.contains(top)) } })`)
			current := 0
			for _, e := range entries {
				if !e.Shown {
					t.Errorf("%s at %d: %s is not seen in the navigation", path, width, e.Name)
				}
				if e.IsCurrent {
					current++
				}
			}
			if want := map[bool]int{true: 0, false: 1}[path == "/nowhere"]; current != want || len(entries) != 5 {
				t.Errorf("%s at %d: %d of %d entries are the current page", path, width, current, len(entries))
			}
		}
	}
}

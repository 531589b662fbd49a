package chromium

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// modes is how limits stand: /v1/admin/modes.
type modes struct {
	Limits []struct {
		Rule, Mode string
		Percent    int64
	}
}

// act fills in the dialog's reason, presses its last button and waits for the
// answer, whose words it returns.
func (b *tab) act(button, reason string) (said, yaml string) {
	b.t.Helper()
	b.until(`document.querySelector("dialog[open]")`)
	b.fill("#action-reason", reason)
	b.press("dialog .actions", button)
	b.until(`document.querySelector("dialog [data-test=done], dialog [data-test=fault]")`)
	if fault := js[string](b, `document.querySelector("dialog [data-test=fault]")?.textContent ?? ""`); fault != "" {
		b.t.Fatalf("%s: %s", button, fault)
	}
	said = js[string](b, `document.querySelector("dialog [data-test=done]").textContent`)
	yaml = js[string](b, `document.querySelector("dialog [data-test=yaml]")?.textContent ?? ""`)
	b.press("dialog .actions", "Close")
	b.until(`!document.querySelector("dialog")`)
	return said, yaml
}

// TestModes leads a rule from a shadow to enforcement and back.
func TestModes(t *testing.T) {
	for _, width := range []int64{wide, narrow} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			n := serve(t)
			b := browse(t, n.admin)
			b.width(width)
			b.open("/rule?domain=api&rule=client_id")
			b.until(`document.querySelector("[data-test=mode]")?.textContent === "enforced"`)
			for _, step := range []struct {
				press, button, badge, yaml, mode string
				percent                          int64
			}{
				{"Shadow", "Make it a shadow", "shadow", "mode: shadow", "shadow", 0},
				{"1 %", "Enforce for 1 %", "enforced for 1 % of the keys", "rollout: 1%", "enforce", 1},
				{"10 %", "Enforce for 10 %", "enforced for 10 % of the keys", "rollout: 10%", "enforce", 10},
				{"100 %", "Enforce for all", "enforced", "", "enforce", 100},
				{"Off", "Switch it off", "off", "", "off", 0},
				{"As the file", "Take the mode back", "enforced", "", "enforce", 100},
			} {
				b.press("[aria-label='Change the mode']", step.press)
				_, yaml := b.act(step.button, "trying "+step.press)
				if !strings.Contains(yaml, step.yaml) {
					t.Errorf("%s: the rules file would say\n%s", step.press, yaml)
				}
				b.until(fmt.Sprintf(`document.querySelector("[data-test=mode]")?.textContent === %q`, step.badge))
				if got := admins[modes](n, "/v1/admin/modes", url.Values{"domain": {"api"}, "rule": {"client_id"}}).Limits[0]; got.Mode != step.mode || got.Percent != step.percent {
					t.Errorf("%s: the node has %+v", step.press, got)
				}
			}
			b.open("/audit")
			if rows := js[int](b, `document.querySelectorAll("[data-test=audit] tbody tr").length`); rows != 6 {
				t.Errorf("%d changes are listed", rows)
			}
			b.until(`document.querySelector("[data-test=audit]").textContent.includes("trying 10 %")`)
		})
	}
}

// TestKeyActions does everything that can be done to a client, from the page that
// explains how it stands.
func TestKeyActions(t *testing.T) {
	for _, width := range []int64{wide, narrow} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			n := serve(t)
			n.spend("acme", 101)
			b := browse(t, n.admin)
			b.width(width)
			b.open("/explain?domain=api&ask=client_id%3Dacme")
			b.until(`document.querySelector("[data-test=decision]")?.textContent.includes("Refused.")`)

			choose := func(action string) {
				t.Helper()
				b.choose("[data-test=explain-actions]", action)
				b.until(`document.querySelector("#action-entries")?.value === "client_id=acme"`)
			}
			allowed := func(after string, want bool) {
				t.Helper()
				if got := n.explain("acme"); got.Decision.Allowed != want {
					t.Errorf("after %s: %+v", after, got)
				}
				words := map[bool]string{true: "Allowed.", false: "Refused."}[want]
				b.until(fmt.Sprintf(`document.querySelector("[data-test=decision]")?.textContent.includes(%q)`, words))
			}

			choose("Give units back…")
			b.fill("#action-units", "7")
			if said, _ := b.act("Give units back to a client", "our fault"); !strings.Contains(said, "allowed, 7 units are left") {
				t.Errorf("grant: %s", said)
			}
			allowed("grant", true)

			choose("Ban…")
			_, yaml := b.act("Ban a client", "an attack")
			if !strings.Contains(yaml, "rule client_id") || !strings.Contains(yaml, `overrides: {"acme": {name: "client_id", limit: 0, mode: hard}}`) {
				t.Errorf("ban: %s", yaml)
			}
			allowed("ban", false)

			choose("Reset the count")
			b.act("Reset a client's count", "a mistake")
			allowed("reset", true)
			if left := n.explain("acme").Decision.Remaining; left != 100 {
				t.Errorf("after the reset %d are left", left)
			}

			choose("Another limit…")
			b.fill("#action-rate", "5000/day")
			if _, yaml := b.act("Give a client another limit", "they pay"); !strings.Contains(yaml, "limit: 5000/day") {
				t.Errorf("override: %s", yaml)
			}
			if got := n.explain("acme"); len(got.Overlay) != 1 || got.Overlay[0].Rate != "5000/day" || got.Decision.Remaining != 5000 {
				t.Errorf("override: %+v", got)
			}

			// What cannot be is said, and changes nothing.
			choose("Another limit…")
			b.expect("status of 400")
			b.fill("#action-rate", "much")
			b.fill("#action-reason", "no")
			b.press("dialog .actions", "Give a client another limit")
			b.until(`document.querySelector("dialog [data-test=fault]")?.textContent.length > 10`)
			b.key("Escape")
			b.until(`!document.querySelector("dialog") && document.activeElement.matches("[data-test=explain-actions]")`)

			choose("Let pass…")
			b.act("Always let a client pass", "our own probe")

			// All that is laid over the rules can be taken back where it is listed.
			b.open("/system")
			b.until(`document.querySelectorAll("[data-test=overlay] tbody tr").length === 2`)
			for left := 1; left >= 0; left-- {
				b.press("[data-test=overlay]", "Take back")
				button := js[string](b, `[...document.querySelectorAll("dialog .actions button")].at(-1).textContent.trim()`)
				b.act(button, "over")
				b.until(fmt.Sprintf(`document.querySelectorAll("[data-test=overlay] tbody tr").length === %d`, left))
			}
			if got := n.explain("acme"); len(got.Overlay) != 0 {
				t.Errorf("left over: %+v", got.Overlay)
			}

			choose2 := "/explain?domain=api&ask=client_id%3Dacme"
			b.open(choose2)
			choose("Ban…")
			b.act("Ban a client", "again")
			b.open("/system")
			b.press("[data-test=overlay]", "Take back")
			b.act("Lift a ban", "enough")
			if got := n.explain("acme"); !got.Decision.Allowed {
				t.Errorf("after lifting the ban: %+v", got)
			}

			b.open("/audit")
			log := js[string](b, `document.querySelector("[data-test=audit]").textContent`)
			for _, reason := range []string{"our fault", "an attack", "a mistake", "they pay", "our own probe", "over", "again", "enough"} {
				if !strings.Contains(log, reason) {
					t.Errorf("the audit does not give the reason %q", reason)
				}
			}
		})
	}
}

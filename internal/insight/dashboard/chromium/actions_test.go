package chromium

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// modes is how limits stand: /v1/admin/modes.
type modes struct {
	Limits []struct {
		Rule, Mode string
		Percent    int64
	}
}

// outcome is what the dialog shows after an action.
type outcome struct{ said, yaml, who, notCovered, warnings, fault string }

// try fills in the dialog's reason, where it asks for one, presses its last button and
// returns what is shown. It closes the dialog unless a fault is shown.
func (b *tab) try(button, reason string) (o outcome) {
	b.t.Helper()
	b.until(`document.querySelector("dialog[open] .actions")`)
	if js[bool](b, `!!document.querySelector("#action-reason")`) {
		b.fill("#action-reason", reason)
	}
	b.press("dialog .actions", button)
	b.until(`document.querySelector("dialog [data-test=done]") || document.querySelector("dialog [data-test=fault]") && !document.querySelector("dialog .actions button:disabled")`)
	text := func(name string) string {
		return js[string](b, `document.querySelector("dialog [data-test=`+name+`]")?.textContent ?? ""`)
	}
	o = outcome{text("done"), text("yaml"), text("who"), text("not-covered"), text("warnings"), text("fault")}
	if o.fault == "" {
		b.press("dialog .actions", "Close")
		b.until(`!document.querySelector("dialog")`)
	}
	return o
}

// act does what the dialog is open for and returns its words.
func (b *tab) act(button, reason string) (said, yaml string) {
	b.t.Helper()
	o := b.try(button, reason)
	if o.fault != "" {
		b.t.Fatalf("%s: %s", button, o.fault)
	}
	return o.said, o.yaml
}

// everywhere says whether a ban is to be over the whole domain.
func (b *tab) everywhere(want bool) {
	b.t.Helper()
	b.until(`document.querySelector("#action-whole")`)
	b.do(fmt.Sprintf(`const e = document.querySelector("#action-whole"); if (e.checked !== %t) e.click()`, want))
}

// offered returns what the menu of a button offers.
func (b *tab) offered(selector string) (text string) {
	b.t.Helper()
	b.do(fmt.Sprintf(`document.querySelector(%q).click()`, selector))
	b.until(`document.querySelector(".menu:popover-open [role=menuitem]")`)
	text = js[string](b, `[...document.querySelectorAll(".menu:popover-open [role=menuitem]")].map((i) => i.textContent).join()`)
	b.do(`document.querySelector(".menu:popover-open").hidePopover()`)
	b.until(`!document.querySelector(".menu:popover-open")`)
	return text
}

// TestModes leads a rule from a shadow to enforcement and back.
func TestModes(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

			// What was not done cannot be taken back.
			if offered := b.offered("[data-test=explain-actions]"); strings.Contains(offered, "Lift the ban") || strings.Contains(offered, "Limit again") || strings.Contains(offered, "override back") {
				t.Errorf("of an untouched client is offered: %s", offered)
			}
			choose("Ban…")
			b.everywhere(false)
			_, yaml := b.act("Ban a client", "an attack")
			if !strings.Contains(yaml, `the rule for "client_id"`) || !strings.Contains(yaml, `overrides: {"acme": {limit: 0, mode: hard}}`) {
				t.Errorf("ban: %s", yaml)
			}
			allowed("ban", false)
			b.until(`document.querySelector("[data-test=decision]")`)
			if offered := b.offered("[data-test=explain-actions]"); !strings.Contains(offered, "Lift the ban") {
				t.Errorf("of a banned client is offered: %s", offered)
			}

			choose("Reset the count")
			b.act("Reset a client's count", "a mistake")
			allowed("reset", true)
			if left := n.explain("acme").Decision.Remaining; left != 100 {
				t.Errorf("after the reset %d are left", left)
			}

			choose("Another limit…")
			b.fill("#action-rate", "5000/day")
			if _, yaml := b.act("Give a client another limit", "they pay"); !strings.Contains(yaml, `{"acme": 5000/day}`) {
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
				b.press("[data-test=overlay]", "Remove")
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
			b.press("[data-test=overlay]", "Remove")
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

// TestFamilyActionsByHash does everything that can be done to a client that is shown by
// its hash: nobody is asked for its entries, and the answer says who it is and what a ban
// does not refuse. A hash that the node does not know is said to be unknown.
func TestFamilyActionsByHash(t *testing.T) {
	t.Parallel()
	events, _ := throttled(time.Now().Truncate(time.Minute))
	for _, e := range events {
		if e.Record != nil {
			e.Record.Key, e.Record.Unhashed = unknownHash, false
		}
	}
	n := serve(t, "--events-sample", "1", "--analytics", "sqlite:"+filled(t, events))
	n.spend("acme", 101)
	var hash string
	n.awaitAnalytics("the client", func() bool {
		type clients struct {
			Clients []struct {
				Key      string
				Unhashed bool
			}
		}
		for _, c := range admins[clients](n, "/v1/analytics/clients", url.Values{"from": {"-2h"}, "rule": {"client_id"}}).Clients {
			if c.Key != unknownHash && !c.Unhashed {
				hash = c.Key
			}
		}
		return hash != ""
	})
	b := browse(t, n.admin)
	for _, width := range []int64{wide, narrow} {
		b.width(width)
		b.open("/client?live=0&key=" + hash)
		choose := func(action string) {
			t.Helper()
			b.choose("[data-test=client-actions]", action)
			b.until(`document.querySelector("dialog[open]")`)
			if js[bool](b, `!!document.querySelector("#action-entries")`) {
				t.Errorf("%s asks for the entries of a hash", action)
			}
		}
		for _, step := range []struct {
			item, button, yaml string
			whole              bool
			overlay            string
			allowed            bool
		}{
			{"Reset the count", "Reset a client's count", "", false, "", true},
			{"Who it is…", "Find out who a client is", "", false, "", true},
			{"Ban…", "Ban a client", `overrides: {"acme": {`, false, "ban", false},
			{"Lift the ban", "Lift a ban", "", false, "", true},
			{"Ban…", "Ban a client", `deny: {"client_id": ["acme"]}`, true, "ban_domain", false},
			{"Lift the ban", "Lift a ban", "", true, "", true},
			{"Another limit…", "Give a client another limit", `{"acme": 200/day}`, false, "override", true},
			{"Take the override back", "Take an override back", "", false, "", true},
			{"Let pass…", "Always let a client pass", "", false, "allow", true},
			{"Limit again", "Limit a client again", "", false, "", true},
			{"Give units back…", "Give units back to a client", "", false, "", true},
		} {
			choose(step.item)
			if strings.Contains(step.item, "ban") || strings.Contains(step.item, "Ban") {
				b.until(fmt.Sprintf(`document.querySelector("#action-whole").checked === %t`, step.whole || step.item == "Ban…"))
				b.everywhere(step.whole)
			}
			o := b.try(step.button, "by its hash")
			if o.fault != "" {
				t.Fatalf("%s: %s", step.item, o.fault)
			}
			if !strings.Contains(o.who, "client_id=acme") || !strings.Contains(o.yaml, step.yaml) {
				t.Errorf("%s: it is %q, and the rules file would say\n%s", step.item, o.who, o.yaml)
			}
			banned := step.button == "Ban a client"
			if got := strings.Contains(o.notCovered, "Not refused:") && strings.Contains(o.notCovered, "requests of other domains than api"); got != banned {
				t.Errorf("%s: not refused are %q", step.item, o.notCovered)
			}
			got := n.explain("acme")
			kind := ""
			for _, v := range got.Overlay {
				kind += v.Kind
			}
			if kind != step.overlay || got.Decision.Allowed != step.allowed {
				t.Errorf("%s (whole %t): %+v", step.item, step.whole, got)
			}
		}

		// A hash that this node has not told of is said to be unknown; then the client can
		// be named by its entries.
		b.open("/client?live=0&key=" + unknownHash)
		choose("Ban…")
		b.everywhere(true)
		b.expect("status of 400")
		if o := b.try("Ban a client", "unknown"); !strings.Contains(o.fault, "this node has told of no client of this name lately") {
			t.Errorf("an unknown hash: %+v", o)
		}
		b.fill("#action-entries", "client_id=another")
		if o := b.try("Ban a client", "by its entries"); o.fault != "" || !strings.Contains(o.yaml, `deny: {"client_id": ["another"]}`) {
			t.Errorf("by its entries: %+v", o)
		}

		// A second ban over the domain, of entries that are known.
		b.open("/explain?domain=api&ask=client_id%3Dthird")
		b.choose("[data-test=explain-actions]", "Ban…")
		b.everywhere(true)
		b.act("Ban a client", "the third")
		b.until(`document.querySelector("[data-test=decision]")?.textContent.includes("Refused.")`)
		for _, name := range []string{"another", "third"} {
			if n.explain(name).Decision.Allowed {
				t.Errorf("%s is not banned", name)
			}
		}
		b.open("/system")
		b.until(`document.querySelectorAll("[data-test=overlay] tbody tr").length === 2`)
		b.until(`document.querySelector("[data-test=overlay]").textContent.includes("every limit of the domain")`)
		for left := 1; left >= 0; left-- {
			b.press("[data-test=overlay]", "Remove")
			b.until(`document.querySelector("#action-whole")?.checked`)
			b.act("Lift a ban", "over")
			b.until(fmt.Sprintf(`document.querySelectorAll("[data-test=overlay] tbody tr").length === %d`, left))
		}
		for _, name := range []string{"another", "third"} {
			if !n.explain(name).Decision.Allowed {
				t.Errorf("%s is still banned", name)
			}
		}
	}
}

// unknownHash is a name in records that no key of the tests has.
const unknownHash = "00000000000000000000000000000001"

// TestFamilyUnreachedClientsAreShown changes what holds for a client under a name that no
// front end writes: the dialog says so. Of an address it does not, in whatever form: the
// change is of the form that front ends write.
func TestFamilyUnreachedClientsAreShown(t *testing.T) {
	t.Parallel()
	const unreached = "host.example"
	for _, width := range []int64{wide, phone} {
		n := serve(t)
		b := browse(t, n.admin)
		b.width(width)
		for _, client := range []string{unreached, "2001:db8::5", "2001:db8::/64"} {
			for _, step := range []struct{ item, button string }{
				{"Another limit…", "Give a client another limit"},
				{"Give units back…", "Give units back to a client"},
				{"Ban…", "Ban a client"},
				{"Reset the count", "Reset a client's count"},
				{"Let pass…", "Always let a client pass"},
			} {
				b.open("/explain?domain=api&ask=" + url.QueryEscape("remote_address="+client))
				b.choose("[data-test=explain-actions]", step.item)
				b.until(`document.querySelector("dialog[open]")`)
				if step.item == "Another limit…" {
					b.fill("#action-rate", "200/hour")
				}
				o := b.try(step.button, "under another name")
				if o.fault != "" {
					t.Fatalf("%s of %s: %s", step.item, client, o.fault)
				}
				got := strings.Contains(o.warnings+o.notCovered, "they write no remote_address")
				if want := client == unreached; got != want || !want && o.warnings != "" {
					t.Errorf("%s of %s: it says %q and %q", step.item, client, o.warnings, o.notCovered)
				}
			}
		}
	}
}

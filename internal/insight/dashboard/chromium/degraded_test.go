package chromium

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestDegraded takes the store away from a node: every page says so.
func TestDegraded(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	n := serve(t, "--store", "redis://"+redis.Addr)
	n.spend("one", 3)
	b := browse(t, n.admin)
	b.width(narrow)
	b.open("/system")
	b.until(`document.querySelector("[data-test=tiles]").innerText.includes("shared") && document.querySelector("[data-test=live], [data-test=tiles]")`)
	b.until(`document.querySelector("[data-test=tiles]").innerText.includes("edge-1") && !document.querySelector("[data-test=alarm]")`)
	redis.Kill(t)
	b.await(2*patience, `document.querySelector("[data-test=alarm]")?.textContent.includes("is down for node edge-1")`)
	b.await(2*patience, `document.querySelector("[data-test=tiles]").innerText.includes("down")`)
	for _, fault := range js[[]string](b, examine) {
		t.Errorf("with the banner: %s", fault)
	}
	b.press(".banner", "System")
	b.open("/rules")
	b.until(`document.querySelector("[data-test=alarm]")`)
	// What needs the store, as a client without a lease does, says that it cannot, and the
	// page goes on.
	b.expect("status of 503")
	b.open("/explain?domain=api&ask=client_id%3Dtwo")
	b.until(`document.querySelector("[data-test=decision], [role=alert]")`)
	if text := js[string](b, `document.querySelector("[data-test=decision], [role=alert]").textContent`); !strings.Contains(text, "Degraded") && !strings.Contains(text, "did not answer") {
		t.Errorf("explain without a store says %q", text)
	}
}

// TestRefusedRules breaks the rules file of a node: every page says that it was not taken,
// until it is.
func TestRefusedRules(t *testing.T) {
	t.Parallel()
	n := serve(t)
	b := browse(t, n.admin)
	b.width(narrow)
	b.open("/")
	b.until(`document.querySelector("[data-figure=live-total]") && !document.querySelector("[data-test=alarm]")`)
	file := filepath.Join(n.dir, "rules.yaml")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(strings.Replace(ruleFile, "/hour", "/huor", 1))
	for _, path := range []string{"/", "/rules", "/clients", "/accuracy", "/upstream", "/system", "/explain", "/audit"} {
		b.open(path)
		b.await(2*patience, `document.querySelector("[data-test=alarm]")?.textContent.includes("unknown unit")`)
		for _, fault := range js[[]string](b, examine) {
			t.Errorf("%s with the alarm: %s", path, fault)
		}
	}
	put(ruleFile)
	b.await(2*patience, `!document.querySelector("[data-test=alarm]")`)
}

// TestAnalyticsOff runs without what keeps figures.
func TestAnalyticsOff(t *testing.T) {
	t.Parallel()
	n := serve(t, "--analytics", "off")
	n.spend("one", 105)
	b := browse(t, n.admin)
	b.expect("/v1/analytics/")
	for _, width := range []int64{wide, narrow} {
		b.width(width)
		for _, path := range []string{"/", "/rules", "/rule?domain=api&rule=client_id", "/clients", "/client?key=x", "/accuracy", "/upstream", "/system"} {
			b.open(path)
			b.until(`document.querySelector("[data-test=unanswered]")?.textContent.includes("Analytics is off")`)
			for _, fault := range js[[]string](b, examine) {
				t.Errorf("%s without analytics: %s", path, fault)
			}
		}
		b.open("/rules")
		b.until(`document.querySelector("[data-test=rules-live]")?.textContent.includes("client_id")`)
		b.open("/")
		b.until(`document.querySelector("[data-figure=live-total]")`)
	}
}

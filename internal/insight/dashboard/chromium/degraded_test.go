package chromium

import (
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
	b.until(`document.querySelector("[data-test=tiles]").innerText.includes("edge-1") && !document.querySelector("[data-test=degraded]")`)
	redis.Kill(t)
	b.await(2*patience, `document.querySelector("[data-test=degraded]")?.textContent.includes("is down for node edge-1")`)
	b.await(2*patience, `document.querySelector("[data-test=tiles]").innerText.includes("down")`)
	for _, fault := range js[[]string](b, examine) {
		t.Errorf("with the banner: %s", fault)
	}
	b.press(".banner", "System")
	b.open("/rules")
	b.until(`document.querySelector("[data-test=degraded]")`)
	// What needs the store, as a client without a lease does, says that it cannot, and the
	// page goes on.
	b.expect("status of 503")
	b.open("/explain?domain=api&ask=client_id%3Dtwo")
	b.until(`document.querySelector("[data-test=decision], [role=alert]")`)
	if text := js[string](b, `document.querySelector("[data-test=decision], [role=alert]").textContent`); !strings.Contains(text, "Degraded") && !strings.Contains(text, "did not answer") {
		t.Errorf("explain without a store says %q", text)
	}
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
		for _, path := range []string{"/", "/rules", "/rule?domain=api&rule=client_id", "/clients", "/client?key=x", "/accuracy", "/upstream", "/system", "/audit"} {
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

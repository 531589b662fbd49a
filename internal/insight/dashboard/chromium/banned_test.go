package chromium

import (
	"strings"
	"testing"
)

// TestFamilyBannedIsExplained explains requests of clients that are banned, under one limit
// and over the domain: the page says so and for how long, and no number of a limit.
func TestFamilyBannedIsExplained(t *testing.T) {
	t.Parallel()
	n := serve(t)
	b := browse(t, n.admin)
	for client, more := range map[string]string{"under-a-limit": "", "over-the-domain": `,"whole_domain":true`} {
		answer := n.ask("POST", n.admin+"/v1/admin/ban", `{"domain":"api","descriptors":[{"entries":{"client_id":"`+client+`"}}],"seconds":3600`+more+`}`)
		if !strings.Contains(string(answer), `"not_covered"`) {
			t.Fatalf("%s", answer)
		}
		for _, width := range []int64{wide, phone} {
			b.width(width)
			b.open("/explain?domain=api&ask=client_id%3D" + client)
			b.until(`document.querySelector("[data-test=decision]")`)
			says := js[string](b, `document.querySelector("[data-test=decision]").textContent`)
			if !strings.Contains(says, "Refused.") || !strings.Contains(says, "banned by") || !strings.Contains(says, "for another") || strings.Contains(says, "units are left") || strings.Contains(says, "at most") {
				t.Errorf("%s: %s", client, says)
			}
			for _, row := range strings.Split(js[string](b, `[...document.querySelectorAll("[data-test=counters] tbody tr")].map((r) => r.textContent).join("\n")`), "\n") {
				if strings.Contains(row, "(banned)") && (strings.Contains(row, "/day") || strings.Contains(row, " of ") || !strings.Contains(row, "refuses everything")) {
					t.Errorf("%s: %s", client, row)
				}
			}
		}
	}
}

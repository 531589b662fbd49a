package chromium

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestScreenshots takes the screenshots of README.md and docs/reference/dashboard.md of
// what weir demo shows.
func TestScreenshots(t *testing.T) {
	if !*update {
		t.Skip("changes docs/images/: only with -update")
	}
	admin := servertest.FreePort(t)
	servertest.Start(t, servertest.Invoke(command, "demo", "--admin", fmt.Sprint(admin), "--port", fmt.Sprint(servertest.FreePort(t))))
	base := fmt.Sprintf("http://127.0.0.1:%d", admin)
	servertest.Await(t, "the dashboard of the demo", func() bool {
		res, err := http.Get(base + "/ui/")
		if err != nil {
			return false
		}
		return res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
	b := browse(t, base)
	const short = 560
	for _, s := range []struct {
		path, colours, name string
		width, height       int64 // a height of 0: the whole page
	}{
		{"/?", "light", "dashboard-overview.png", wide, 0},
		{"/rules?", "dark", "dashboard-rules.png", wide, 0},
		{"/rule?domain=api&rule=remote_address&limit=remote_address&line=140&replay=1&", "light", "dashboard-rule.png", wide, 0},
		{"/clients?", "light", "dashboard-clients.png", wide, short},
		{"/accuracy?", "dark", "dashboard-accuracy.png", wide, 900},
		{"/?", "dark", "dashboard-phone.png", narrow, 900},
	} {
		b.media(map[string]string{"prefers-color-scheme": s.colours})
		b.size(s.width, cmp.Or(s.height, 900))
		b.open(s.path + "utc=1&live=0")
		b.shot(s.name, s.height == 0)
	}
	b.media(map[string]string{"prefers-color-scheme": "light"})
	b.width(wide)
	b.open("/rule?utc=1&live=0&domain=api&rule=path%3D%22%2Fproducts%2F%2A%22%2Fremote_address")
	b.press("[aria-label='Change the mode']", "10 %")
	b.fill("#action-reason", "an hour as a shadow caught nobody but a scraper")
	b.press("dialog .actions", "Enforce for 10 %")
	b.until(`document.querySelector("dialog [data-test=done]")`)
	b.shot("dashboard-action.png", false)
}

package chromium

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogin logs in, changes something, and logs out.
func TestLogin(t *testing.T) {
	t.Parallel()
	const token = "a token of the tests, long enough"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	n := serve(t, "--admin-token-file", file)
	n.bearerToken = token
	b := browse(t, n.admin)
	b.expect("status of 401")
	for _, colours := range []string{"light", "dark"} {
		for _, width := range []int64{narrow, wide} {
			b.width(width)
			b.media(map[string]string{"prefers-color-scheme": colours})
			b.run(navigate(n.admin + "/"))
			b.until(`location.pathname === "/ui/login" && document.querySelector("#token")`)
			for _, fault := range js[[]string](b, examine) {
				if !strings.HasPrefix(fault, "no ") { // its one field is no place for landmarks
					t.Errorf("login at %d, %s: %s", width, colours, fault)
				}
			}
		}
	}
	submit := func(with string) {
		t.Helper()
		b.until(`document.querySelector("#token")`)
		b.do(`document.querySelector("#token").value = ` + quote(with) + `; document.querySelector("form button").click()`)
	}
	b.run(navigate(n.admin + "/ui/rule?domain=api&rule=client_id"))
	submit("wrong, but just as long as that")
	b.until(`document.querySelector("[role=alert]")?.textContent.includes("not the admin token")`)
	submit(token)
	b.until(`location.pathname === "/ui/rule" && ` + settled)
	if cookie := js[string](b, "document.cookie"); cookie != "" {
		t.Errorf("a script reads the cookie %q", cookie)
	}
	b.until(`document.querySelector("[data-test=mode]")?.textContent === "enforced"`)
	b.press("[aria-label='Change the mode']", "Shadow")
	b.act("Make it a shadow", "behind a login")
	b.until(`document.querySelector("[data-test=mode]")?.textContent === "shadow"`)
	b.open("/")
	b.until(`document.querySelector("[data-test=live] .live-dot.on")`)
	b.press(".side", "Log out")
	b.until(`location.pathname === "/ui/login"`)
	b.run(navigate(n.admin + "/ui/system"))
	b.until(`location.pathname === "/ui/login" && location.search.includes("next=")`)
}

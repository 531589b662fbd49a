package main_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestFamilyBanIsTold: after a ban over the domain ended with status 0 a request of whom it
// names is refused at the gateway, in whatever spelling, range or order it was named; one
// that no front end sends says so before all else, and ends with status 2; and what is taken
// back by the same name passes again.
func TestFamilyBanIsTold(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	n := serve(t, "--rules", servertest.File(t, "rules.yaml", `domain: api
descriptors:
  - {key: remote_address, limit: 1000/hour}
  - {key: "header:X-User", limit: 1000/hour}
  - {key: path, limit: 1000/hour}
`), "--upstream", upstream.URL, "--trusted-proxies", "127.0.0.1", "--trust", "127.0.0.1")
	passes := func(client string) bool {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, n.http+"/a%2db", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", client)
		req.Header.Set("X-User", "freddy")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	for _, c := range []struct {
		entries, client string
		status          int
		says            string
	}{
		{"remote_address=192.0.2.7", "192.0.2.7", 0, "remote_address=192.0.2.7 is banned\n"},
		{"remote_address=::ffff:192.0.2.7", "192.0.2.7", 0, "remote_address=192.0.2.7 is banned\nremote_address=::ffff:192.0.2.7 is counted as remote_address=192.0.2.7\n"},
		{"remote_address=2001:db8::1", "2001:db8::1", 0, "remote_address=2001:db8::/64 is banned\n"},
		{"remote_address=2001:DB8:0:0::/64", "2001:db8::77", 0, "remote_address=2001:db8::/64 is banned\n"},
		{"remote_address=2001:db8::/32", "2001:db8:1::1", 0, "remote_address=2001:db8::/32 is banned\n"},
		{"remote_address=203.0.113.0/24", "203.0.113.5", 0, "remote_address=203.0.113.0/24 is banned\n"},
		{"remote_address=203.0.113.9/24", "203.0.113.5", 0, "remote_address=203.0.113.0/24 is banned\n"},
		{"remote_address=0.0.0.0/0", "203.0.113.5", 0, "remote_address=0.0.0.0/0 is banned\n"},
		{"header:X-User= freddy", "192.0.2.7", 0, "header:X-User=freddy is banned\n"},
		{"path=/a-b", "192.0.2.7", 0, "path=/a-b is banned\n"},
		{"path=/%61-b/", "192.0.2.7", 0, "path=/a-b is banned\n"},
		{"remote_address=2001:db8::/80", "", 2, "REACHES NO FRONT END: "},
		{"remote_address=192.0.2.7:443", "", 2, "REACHES NO FRONT END: "},
		{"remote_address=192.0.2", "", 2, "REACHES NO FRONT END: "},
		{"ip=192.0.2.7", "", 2, "REACHES NO FRONT END: "},
		{"header:x-user=freddy", "", 2, "REACHES NO FRONT END: "},
		{"user=freddy", "", 2, "REACHES NO FRONT END: "},
	} {
		key := func(args ...string) (string, int) {
			return n.operate(t, append(append([]string{"key"}, args...), c.entries, "--whole-domain")...)
		}
		out, status := key("ban", "--for", "1h")
		if status != c.status || !strings.HasPrefix(out, c.says) || strings.Count(out, "\nnot refused: ") > 3 {
			t.Errorf("%s: status %d, want %d that begins %q:\n%s", c.entries, status, c.status, c.says, out)
		}
		if c.status == 0 && passes(c.client) {
			t.Errorf("%s is banned, and %s passes", c.entries, c.client)
		}
		if out, status := key("unban"); status != c.status {
			t.Errorf("unban of %s: status %d: %s", c.entries, status, out)
		}
		if c.client != "" && !passes(c.client) {
			t.Errorf("%s is not banned any more, and %s is refused", c.entries, c.client)
		}
	}
	for _, word := range []string{"inspect", "reset"} {
		if out, status := n.operate(t, "key", word, "remote_address=192.0.2.0/24"); status != 2 || !strings.HasPrefix(out, "REACHES NO FRONT END: ") {
			t.Errorf("%s: %d %s", word, status, out)
		}
	}
	if err := exec.Command(binary, "key", "ban", "remote_address=192.0.2.9", "1h", "--admin", n.admin, "--json").Run(); err != nil {
		t.Error(err)
	}
}

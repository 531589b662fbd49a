package main_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

const banRules = `domain: api
descriptors:
  - key: remote_address
    limit: 3/hour
  - key: header:X-User
    limit: 100/hour
    descriptors:
      - key: path
        limit: 50/hour
`

// A client that is shown by its hash is banned by it, over one limit or over the
// domain, and is told so at the gateway; what a ban does not refuse is said. A hash
// that the node does not know is an error.
func TestBanByHash(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	n := serve(t, "--rules", servertest.File(t, "rules.yaml", banRules), "--upstream", upstream.URL, "--events-sample", "1", "--trust", "127.0.0.1")
	ask := func(user string) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, n.http+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			req.Header.Set("X-User", user)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(body)
	}
	inspect := func(hash string) (out string, code int) { return n.operate(t, "key", "inspect", hash) }
	hash := hashOf(t, n, "remote_address", func() {
		for range 4 {
			ask("")
		}
	})
	out, code := inspect(hash)
	if code != 0 || !strings.Contains(out, "who it is: remote_address=127.0.0.1, domain api\n") {
		t.Fatalf("%d %s", code, out)
	}
	if out, code := n.operate(t, "key", "reset", hash); code != 0 {
		t.Fatal(out)
	}
	if code, _, text := ask(""); code != 200 {
		t.Fatalf("after a reset: %d %s", code, text)
	}
	out, code = n.operate(t, "key", "ban", "-v", hash, "--for", "2h")
	for _, want := range []string{"is banned\n", "not refused: requests of other domains than api", "not refused: requests without remote_address, such as", "overrides: {\"127.0.0.1\": {"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("no %q: %d %s", want, code, out)
		}
	}
	status, h, text := ask("")
	if status != 429 || !strings.Contains(text, `"detail":"banned until 20`) || strings.Contains(text, "exhausted") || h.Get("RateLimit-Policy") != "" || h.Get("Retry-After") == "" {
		t.Errorf("a banned client: %d %v %s", status, h, text)
	}
	if out, code := n.operate(t, "key", "unban", hash); code != 0 {
		t.Error(out)
	}
	if status, _, text := ask(""); status != 200 {
		t.Errorf("after unban: %d %s", status, text)
	}

	hash = hashOf(t, n, "header:X-User", func() { ask("freddy") })
	if out, code := n.operate(t, "key", "ban", hash, "2h", "--whole-domain"); code != 0 || !strings.Contains(out, `deny: {"header:X-User": ["freddy"]}`) ||
		!strings.Contains(out, "not refused: requests without header:X-User, such as those that are asked about only by remote_address\n") {
		t.Errorf("%d %s", code, out)
	}
	if status, _, text := ask("freddy"); status != 429 || !strings.Contains(text, `"title":"Banned"`) {
		t.Errorf("over the domain: %d %s", status, text)
	}
	body := `{"domain":"api","descriptors":[{"entries":[{"key":"other","value":"x"}]},{"entries":[{"key":"header:X-User","value":"freddy"},{"key":"none","value":""}]}]}`
	if _, text := post(t, n.http+"/v1/check", body); !strings.HasPrefix(text, `{"allowed":false,`) || !strings.Contains(text, `"banned":true`) {
		t.Errorf("the API: %s", text)
	}
	if out, _ := exec.Command(binary, "take", "--http", n.http, "header:X-User=freddy").CombinedOutput(); !strings.Contains(string(out), "refused: banned for another ") {
		t.Errorf("take: %s", out)
	}
	if status, _, text := ask("jane"); status == 429 && strings.Contains(text, "Banned") {
		t.Errorf("another client: %d %s", status, text)
	}
	if out, code := n.operate(t, "key", "unban", "header:X-User=freddy", "--whole-domain"); code != 0 || strings.Contains(out, "banned  ") {
		t.Errorf("%d %s", code, out)
	}
	if _, text := post(t, n.http+"/v1/check", body); !strings.HasPrefix(text, `{"allowed":true,`) {
		t.Errorf("after unban: %s", text)
	}

	for _, args := range [][]string{
		{"ban", "00000000000000000000000000000000", "2h"},
		{"inspect", "00000000000000000000000000000000"},
		{"ban", "00000000000000000000000000000000", "2h", "--whole-domain"},
	} {
		if out, code := n.operate(t, append([]string{"key"}, args...)...); code != 2 || !strings.Contains(out, "this node has told of no client of this name lately") {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
	if out, code := n.operate(t, "key", "ban", "header:X-User=freddy", "path=/a", "2h", "--whole-domain"); code != 2 || !strings.Contains(out, "by one entry") {
		t.Errorf("%d %s", code, out)
	}
}

// hashOf returns the hash by which the live stream shows who asks under a rule.
func hashOf(t *testing.T, n *testNode, rule string, ask func()) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.admin+"/v1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	ask()
	of := regexp.MustCompile(`"rule":"` + regexp.QuoteMeta(rule) + `"[^{}]*?"key":"([0-9a-f]{32})"`)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := of.FindStringSubmatch(lines.Text()); m != nil {
			return m[1]
		}
	}
	t.Fatalf("no client of %s: %v", rule, lines.Err())
	return ""
}

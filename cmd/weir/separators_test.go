package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// noNumber is a count of 0 of something, as "0/hour".
var noNumber = regexp.MustCompile(`(^|[^0-9])0/`)

// TestBanShowsNoSeparators: after bans of a key of one entry, of one of two, and of a client
// over the domain, nothing that a person or a program reads has a control byte of the names
// of counters in it.
func TestBanShowsNoSeparators(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	n := serve(t, "--rules", servertest.File(t, "rules.yaml", `domain: api
descriptors:
  - {key: remote_address, limit: 1000/hour}
  - {key: method, descriptors: [{key: path, limit: 1000/hour}]}
`), "--limit", "1000/hour by header:X-User", "--upstream", upstream.URL, "--trust", "127.0.0.1", "--analytics", "memory:")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, n.admin+"/v1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	events, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	for _, words := range [][]string{
		{"remote_address=127.0.0.1", "--whole-domain"}, {"remote_address=127.0.0.1"}, {"method=GET", "path=/a"}, {"header:X-User=ann", "--whole-domain"},
	} {
		if out, code := n.operate(t, append([]string{"key", "ban", "--for", "1h"}, words...)...); code != 0 {
			t.Fatalf("%v: %d %s", words, code, out)
		}
	}
	separator := regexp.MustCompile(`\x1f|(?i)\\u001f|\\x1f`)
	look := func(what, text string) {
		t.Helper()
		if at := separator.FindStringIndex(text); at != nil {
			t.Errorf("%s: %.300s", what, text[max(0, at[0]-100):])
		}
	}
	req, err := http.NewRequest(http.MethodGet, n.http+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-User", "ann")
	for range 3 {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		look("header", fmt.Sprint(resp.Header))
	}
	for _, command := range [][]string{
		{"key", "inspect", "remote_address=127.0.0.1"}, {"key", "inspect", "method=GET", "path=/a"}, {"key", "inspect", "--json", "method=GET", "path=/a"},
		{"key", "inspect", "--json", "header:X-User=ann"}, {"audit"}, {"audit", "--json"},
	} {
		out, _ := n.operate(t, command...)
		look(strings.Join(command, " "), out)
	}
	for _, words := range [][]string{{"remote_address=127.0.0.1"}, {"method=GET", "path=/a"}, {"header:X-User=ann"}, {"--json", "method=GET", "path=/a", "+", "header:X-User=ann"}} {
		out, err := exec.Command(binary, append([]string{"explain", "--admin", n.admin}, words...)...).CombinedOutput()
		if err != nil && len(out) == 0 {
			t.Fatal(err)
		}
		look("explain "+strings.Join(words, " "), string(out))
	}
	for _, path := range []string{"/metrics", "/rules", "/v1/rules", "/v1/admin/audit", "/v1/admin/modes"} {
		_, text := get(t, n.admin+path)
		look(path, text)
	}
	for _, command := range [][]string{{"top", "--once"}, {"top", "--json"}, {"key", "inspect", "--json", "remote_address=127.0.0.1"}, {"explain", "remote_address=127.0.0.1"}, {"explain", "--json", "method=GET", "path=/a"}} {
		out, _ := n.operate(t, command...)
		look(strings.Join(command, " "), out)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "banned, over") && (noNumber.MatchString(line) || strings.Contains(line, "fixed_window\",\"allowance\":0")) {
				t.Errorf("%v: a ban has no numbers: %s", command, line)
			}
		}
	}
	for lines, found := bufio.NewScanner(events.Body), false; !found; {
		if !lines.Scan() {
			t.Fatal("no record of a ban: ", lines.Err())
		}
		look("events", lines.Text())
		found = strings.Contains(lines.Text(), `"key":`) && strings.Contains(lines.Text(), "banned, over the whole domain")
		if found && (strings.Contains(lines.Text(), `"limit":"banned, over the whole domain","algorithm":"fixed_window"`) || !strings.Contains(lines.Text(), `"domain":"api","rule":"remote_address","limit":"banned, over the whole domain"`)) {
			t.Errorf("a record of a ban: %s", lines.Text())
		}
	}
	for _, kind := range []string{"overview", "rules", "clients", "top", "filters", "system"} {
		status, text := get(t, n.admin+"/v1/analytics/"+kind)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", kind, status, text)
		}
		look(kind, text)
	}
	// It is judged already.
	type banned struct {
		Limit   string
		Counts  map[string]int64
		Verdict any
	}
	var found []banned
	servertest.Await(t, "the ban among the clients", func() bool {
		var all struct{ Clients []banned }
		_, text := get(t, n.admin+"/v1/analytics/clients")
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err, text)
		}
		found = slices.DeleteFunc(all.Clients, func(c banned) bool { return c.Limit != "banned, over the whole domain" })
		return len(found) > 0
	})
	for _, c := range found {
		if c.Verdict != nil || c.Counts["refused"] == 0 {
			t.Errorf("a client under its ban: %+v", c)
		}
	}
	look("log", n.Output())
}

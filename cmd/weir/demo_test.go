package main_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// demo starts `weir demo` with further arguments, and waits until it says how to end it.
// files is the folder that its files are in.
func demo(t *testing.T, args ...string) (n *testNode, files string) {
	t.Helper()
	files = t.TempDir()
	cmd := exec.Command(binary, append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+files)
	n = &testNode{Process: servertest.Start(t, cmd)}
	servertest.Await(t, "the demo to be there", func() bool { return strings.Contains(n.Output(), "Ctrl-C") })
	printed := regexp.MustCompile(`(?m)^  (dashboard|gateway) +(http://[0-9.:]+)`).FindAllStringSubmatch(n.Output(), -1)
	if len(printed) != 2 {
		t.Fatalf("no addresses in\n%s", n.Output())
	}
	n.admin, n.http = printed[0][2], printed[1][2]
	return n, files
}

// endsCleanly fails unless the demo ends with 0, says nothing of a fault, and leaves no file.
func endsCleanly(t *testing.T, n *testNode, files string) {
	t.Helper()
	if code := ended(t, n); code != 0 || strings.Contains(n.Output(), "level=") {
		t.Errorf("exit status %d\n%s", code, n.Output())
	}
	if left, err := os.ReadDir(files); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// A stranger who starts the demo finds decisions of each kind, and every kind of client
// under the verdict that the demo says; Ctrl-C ends it.
func TestDemo(t *testing.T) {
	n, files := demo(t)
	servertest.Await(t, "decisions over the network", func() bool {
		_, text := get(t, n.admin+"/metrics")
		for _, decision := range []string{"allowed", "refused"} {
			if !regexp.MustCompile(`(?m)^weir_decisions_total\{decision="` + decision + `",domain="api",.*rule="remote_address"\} [1-9]`).MatchString(text) {
				return false
			}
		}
		// Two of each of the six who guess passwords.
		return regexp.MustCompile(`(?m)^weir_decisions_total\{decision="allowed",.*login.*\} (1[2-9]|[2-9]\d)`).MatchString(text)
	})
	want := verdictsOf(t, n.Output())
	var list struct {
		Clients []struct {
			Key, Rule string
			Verdict   struct{ Class string }
		}
	}
	missing := ""
	servertest.Await(t, "the verdicts", func() bool {
		_, text := get(t, n.admin+"/v1/analytics/clients?from=-1h&top=100")
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got := map[string]string{}
		for _, c := range list.Clients {
			got[c.Key] = c.Verdict.Class
		}
		missing = ""
		for key, class := range want {
			if got[key] != class {
				missing += fmt.Sprintf("%s is %q, not %q\n", key, got[key], class)
			}
		}
		return missing == ""
	})
	// Whoever is there from the past on is one client.
	seen := map[string]bool{}
	for _, c := range list.Clients {
		if row := c.Rule + " " + c.Key; seen[row] {
			t.Errorf("%s is there twice", row)
		} else {
			seen[row] = true
		}
	}
	keepsItsPromise(t, n)
	if err := n.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	endsCleanly(t, n, files)
}

// keepsItsPromise fails unless the dashboard says that the sliding window of /login never
// let more pass than it promises, from the past into the present too.
func keepsItsPromise(t *testing.T, n *testNode) {
	t.Helper()
	_, text := get(t, n.admin+"/v1/analytics/accuracy?from=-1h")
	var accuracy struct {
		Rules []struct {
			Algorithm        string
			Allowance, Worst int64
			Keys             int
		}
	}
	if err := json.Unmarshal([]byte(text), &accuracy); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, r := range accuracy.Rules {
		if r.Algorithm == "sliding_window" && r.Keys == 6 {
			if r.Worst > r.Allowance {
				t.Errorf("%d of %d passed in a minute", r.Worst, r.Allowance)
			}
			return
		}
	}
	t.Errorf("no sliding window in %s", text)
}

// verdictsOf reads from the table of the demo what each address is taken for, by key.
func verdictsOf(t *testing.T, output string) map[string]string {
	t.Helper()
	out, classes := map[string]string{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  ([0-9a-f.:/-]+)  +.*  ([a-z ]+)$`).FindAllStringSubmatch(output, -1) {
		class := strings.ReplaceAll(m[2], " ", "_")
		classes[class] = true
		if class == "never_refused" {
			class = "" // it is in no list
		}
		first, last, many := strings.Cut(m[1], "-")
		out[first] = class
		for many && !strings.HasSuffix(first, "."+last) {
			first = netip.MustParseAddr(first).Next().String()
			out[first] = class
		}
	}
	if len(classes) != 5 || len(out) != 30 {
		t.Fatalf("read %v of\n%s", out, output)
	}
	return out
}

// The line to try by hand does what the demo says of it, and a limit that is changed in
// the printed file changes what it does.
func TestDemoByHand(t *testing.T) {
	servertest.Binary(t, "curl")
	n, _ := demo(t)
	line := regexp.MustCompile(`(?m)^  (curl .*)$`).FindStringSubmatch(n.Output())
	path := regexp.MustCompile(`(?m)^  limits +(\S+)`).FindStringSubmatch(n.Output())
	if line == nil || path == nil {
		t.Fatalf("no command or no file in\n%s", n.Output())
	}
	try := func(command string) string {
		out, err := exec.Command("sh", "-c", command).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return string(out)
	}
	if got, want := try(line[1]), strings.Repeat("200\n", 10)+strings.Repeat("429\n", 5); got != want {
		t.Errorf("%s: %q", line[1], got)
	}
	rules, err := os.ReadFile(path[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path[1], []byte(strings.Replace(string(rules), "10/minute", "3/minute", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the changed limit", func() bool {
		status, text := get(t, n.admin+"/rules")
		return status == 200 && strings.Contains(text, `"generation": 2`)
	})
	other := strings.Replace(line[1], "192.0.2.99", "192.0.2.98", 1)
	if got, want := try(other), strings.Repeat("200\n", 3)+strings.Repeat("429\n", 12); got != want {
		t.Errorf("%s after a change: %q", other, got)
	}
}

// It ends by itself after the time that it is given.
func TestDemoFor(t *testing.T) {
	n, files := demo(t, "--for", "1s", "--seed", "7", "--admin", fmt.Sprint(servertest.FreePort(t)))
	endsCleanly(t, n, files)
}

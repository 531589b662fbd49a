package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// readers waits until so many watch the live stream of n.
func (n *testNode) readers(t *testing.T, token string, want int) {
	t.Helper()
	servertest.Await(t, fmt.Sprintf("%d readers", want), func() bool {
		req, err := http.NewRequest(http.MethodGet, n.admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, body := read(t, res)
		return strings.Contains(body, fmt.Sprintf("weir_live_readers %d\n", want))
	})
}

// spend asks for n decisions of one client.
func (n *testNode) spend(t *testing.T, client string, times int) {
	t.Helper()
	for range times {
		post(t, n.http+"/shouldAllowRequest", fmt.Sprintf(`{"clientId":%q}`, client))
	}
}

// started is a subcommand that runs while the test goes on.
type started struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func start(t *testing.T, args ...string) *started {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &started{Cmd: exec.CommandContext(ctx, binary, args...)}
	s.Stdout, s.Stderr = &s.out, &s.err
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() }) // it may have ended
	return s
}

// weir tail prints one record a line, those that are asked for, and ends after as many
// as it was told; with the token where there is one.
func TestTail(t *testing.T) {
	const token = "0123456789abcdef"
	n := serve(t, "--limit", "3/hour by client_id", "--events-unhashed", "--events-sample", "1", "WEIR_ADMIN_TOKEN="+token)
	asJSON := start(t, "tail", "--admin", n.admin, "--token", token, "--json", "-n", "2", "--outcome", "refused", "--key", "a", "--key", "b")
	asText := start(t, "tail", "--admin", n.admin, "--token", token)
	n.readers(t, token, 2)
	n.spend(t, "c", 5)
	n.spend(t, "a", 5)
	n.spend(t, "b", 5)
	if err := asJSON.Wait(); err != nil {
		t.Fatalf("%v: %s", err, asJSON.err.String())
	}
	dec := json.NewDecoder(&asJSON.out)
	for range 2 {
		var r event.Record
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if r.Outcome != "refused" || r.Key != "a" && r.Key != "b" || r.Count < 1 || !r.Unhashed {
			t.Errorf("%+v", r)
		}
	}
	if rest, err := io.ReadAll(io.MultiReader(dec.Buffered(), &asJSON.out)); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("more: %s, %v", rest, err)
	}
	// The server ends the stream when it drains, after the last record.
	if err := n.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := asText.Wait()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(asText.err.String(), "the server has ended the stream") {
		t.Errorf("at the end: %v, %s", err, asText.err.String())
	}
	line := regexp.MustCompile(`^\d\d:\d\d:\d\d  (refused|allowed) +(\d+)  ([abc]) {15}  api/client_id  3/hour by client_id  (left|wait) `)
	counts := map[string]int{}
	head, lines, _ := strings.Cut(asText.out.String(), "\n")
	zone, _ := time.Now().Zone()
	if want := "time      outcome         count  key               rule  limit  (times in " + zone + ")"; head != want {
		t.Errorf("the head is %q, want %q", head, want)
	}
	for l := range strings.Lines(lines) {
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("not a line: %q", l)
		}
		var c int
		fmt.Sscan(m[2], &c)
		counts[m[1]+" "+m[3]] += c
	}
	for _, key := range []string{"a", "b", "c"} {
		if counts["allowed "+key] != 3 || counts["refused "+key] != 2 {
			t.Errorf("counts %v in\n%s", counts, asText.out.String())
		}
	}
}

// What keeps weir tail and weir top from watching is said, with its cure.
func TestWatchingFails(t *testing.T) {
	n := serve(t, "--limit", "3/hour", "--events", "off")
	for _, tt := range []struct{ want, args string }{
		{"--events off", "top --once --admin " + n.admin},
		{"--events off", "tail --admin " + n.admin},
		{"admin address", "tail --admin " + n.http},
		{`did you mean "refused"?`, "tail --outcome refusd --admin " + n.admin},
		{"is `weir serve` running", fmt.Sprintf("top --admin http://127.0.0.1:%d", servertest.FreePort(t))},
		{"keep one", "tail --token a --token-file b --admin " + n.admin},
		{"gone", "tail --token-file gone --admin " + n.admin},
		{"negative", "tail --count=-1 --admin " + n.admin},
	} {
		out, err := exec.Command(binary, strings.Fields(tt.args)...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), tt.want) {
			t.Errorf("weir %s: %v, %s, want %q", tt.args, err, out, tt.want)
		}
	}
}

// Without a terminal weir top prints one frame.
func TestTopOnce(t *testing.T) {
	n := serve(t, "--limit", "3/hour by client_id", "--events-unhashed", "WEIR_EVENTS_NODE=here")
	n.spend(t, "acme", 8)
	out, err := exec.Command(binary, "top", "--admin", n.admin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"node here", "since the start 8, 5 refused", "5  api/client_id  3/hour by client_id\n", "acme  api/client_id"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if bytes.ContainsRune(out, '\x1b') {
		t.Errorf("colours in %q", out)
	}
	var state struct {
		Node   string `json:"node"`
		SpanMS int64  `json:"span_ms"`
		Limits []struct {
			Name string `json:"limit"`
		} `json:"limits"`
	}
	out, err = exec.Command(binary, "top", "--json", "--admin", n.admin).Output()
	if err == nil {
		err = json.Unmarshal(out, &state)
	}
	if err != nil || state.Node != "here" || state.SpanMS == 0 || len(state.Limits) != 1 {
		t.Errorf("%v, %+v of %s", err, state, out)
	}
}

// screen keeps what a program writes to a terminal. Safe for concurrent use.
type screen struct{ servertest.Log }

// says reports whether a text was written, however the terminal was commanded
// meanwhile.
func (s *screen) says(text string) bool {
	return strings.Contains(commands.ReplaceAllString(s.String(), ""), text)
}

var commands = regexp.MustCompile("\x1b(?:\\[[0-9;?>=$ ]*[A-Za-z@]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|P[^\x1b]*\x1b\\\\|[=>])")

// On a terminal weir top shows the server until q is pressed, survives the server's
// restart and says so meanwhile, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	admin := fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
	args := []string{"--limit", "3/hour by client_id", "--events-unhashed", "--admin", admin}
	n := serve(t, args...)
	cmd := exec.Command(binary, "top", "--admin", n.admin)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	defer tty.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	var shown screen
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(&shown, tty) // a terminal whose program has ended cannot be read
	}()
	await := func(text string) {
		t.Helper()
		servertest.Await(t, fmt.Sprintf("%q on the screen", text), func() bool { return shown.says(text) })
	}
	key := func(s string) {
		t.Helper()
		if _, err := io.WriteString(tty, s); err != nil {
			t.Fatal(err)
		}
	}
	await("q quit")
	n.spend(t, "acme", 8)
	await("acme")
	key("?")
	await("sort limits by")
	key("?")
	if err := n.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await("no connection since")
	again := serve(t, args...)
	again.spend(t, "globex", 8)
	await("globex")
	key("q")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("q does not quit")
	}
	tty.Close()
	<-over
	if all := shown.String(); !strings.Contains(all, "\x1b[?1049h") || !strings.Contains(all, "\x1b[?1049l") {
		t.Error("the terminal is not given back")
	}
}

package main_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// onTerminal runs the command on a terminal and returns what it writes there.
func onTerminal(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), env...)
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var out bytes.Buffer
	if _, err := io.Copy(&out, tty); err != nil && !errors.Is(err, syscall.EIO) { // EIO: the command has ended
		t.Fatal(err)
	}
	if exit := (*exec.ExitError)(nil); !errors.As(cmd.Wait(), &exit) && cmd.ProcessState == nil {
		t.Fatal("it did not end")
	}
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// On a terminal commands write in colour, but for that the same bytes as elsewhere; elsewhere
// and where nobody wants colour they write none.
func TestColour(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good.yaml", "domain: api\ndescriptors:\n  - {key: path, value: \"/a*\", limit: 2/minute, algorithm: fixed_window}\n")
	bad := write("bad.yaml", "domain: api\ndescriptors:\n  - {key: k, limit: 5/minut}\n")
	cases := write("cases.yaml", "rules: [good.yaml]\ncases:\n  - {name: a, steps: [{request: {path: /ab}, times: 3, expect: allowed}]}\n  - {name: b, steps: [{request: {path: /ab}, expect: allowed}]}\n")
	log := write("access.log", strings.Repeat("192.0.2.1 - - [10/Oct/2024:13:55:11 +0000] \"GET /ab HTTP/1.1\" 200 12\n", 5))
	n := serve(t, "--rules", good)
	const red, green, yellow, bold = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m"
	for _, f := range []struct {
		args []string
		want []string
	}{
		{[]string{"check", good}, []string{yellow + "warning\x1b[m: api/path", green + "1 rule in 1 file: good\x1b[m, 1 warning"}},
		{[]string{"check", bad}, []string{red + bad + ":3:", red + "1 fault, 0 warnings\x1b[m"}},
		{[]string{"test", cases}, []string{red + "FAIL\x1b[m  a", green + "ok\x1b[m    b", red + "2 cases, 1 failed\x1b[m"}},
		{[]string{"explain", good, "path=/ab"}, []string{bold + "domain api\x1b[m\n", bold + "descriptor 1: limited\x1b[m\n"}},
		{[]string{"explain"}, []string{red + "weir:\x1b[m "}},
		{[]string{"replay", good, log}, []string{bold + "5 requests of 1 client"}},
		{[]string{"take", "--http", n.http, "--cost", "9", "path=/ab"}, []string{red + "refused\x1b[m by "}},
		{[]string{"check", "--json", bad}, nil},
		{[]string{"explain", "--json", good, "path=/ab"}, nil},
		{[]string{"version"}, nil},
	} {
		name := strings.Join(f.args, " ")
		plain, err := exec.Command(binary, f.args...).CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if bytes.ContainsRune(plain, 0x1b) {
			t.Errorf("%s: colour without a terminal: %q", name, plain)
		}
		for _, env := range [][]string{{"TERM=xterm", "NO_COLOR=1", "CLICOLOR_FORCE=1"}, {"TERM=dumb"}, {"TERM="}} {
			if got := onTerminal(t, env, f.args...); stripTimes(got) != stripTimes(string(plain)) {
				t.Errorf("%s with %v: %q, want %q", name, env, got, plain)
			}
		}
		got := onTerminal(t, []string{"TERM=xterm", "NO_COLOR="}, f.args...)
		for _, want := range f.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q has no %q", name, got, want)
			}
		}
		if len(f.want) == 0 && strings.ContainsRune(got, 0x1b) {
			t.Errorf("%s: colour: %q", name, got)
		}
		if got = sgr.ReplaceAllString(got, ""); stripTimes(got) != stripTimes(string(plain)) {
			t.Errorf("%s without colours: %q, want %q", name, got, plain)
		}
	}
}

// CLICOLOR_FORCE=1 has colour in pipes too, for pagers and logs of builds.
func TestForcedColour(t *testing.T) {
	for _, c := range []struct {
		env    []string
		colour bool
	}{
		{nil, false},
		{[]string{"CLICOLOR_FORCE=1", "TERM="}, true},
		{[]string{"CLICOLOR_FORCE=0"}, false},
		{[]string{"CLICOLOR_FORCE="}, false},
		{[]string{"CLICOLOR_FORCE=1", "NO_COLOR=1"}, false},
	} {
		cmd := exec.Command(binary, "explain")
		cmd.Env = append(append(os.Environ(), "NO_COLOR=", "TERM=xterm"), c.env...)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := bytes.HasPrefix(out, []byte("\x1b[31mweir:\x1b[m ")); got != c.colour || !bytes.Contains(out, []byte("weir:")) {
			t.Errorf("%q: %q", c.env, out)
		}
	}
}

// stripTimes leaves out how long a client has to wait, which differs from run to run.
func stripTimes(s string) string { return regexp.MustCompile(`[0-9.]+s\b`).ReplaceAllString(s, "") }

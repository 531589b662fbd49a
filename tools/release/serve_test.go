package release

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is a user who owns nothing.
const nobody = 65534

// readyLine finds the address of the HTTP API in what `weir serve` prints.
var readyLine = regexp.MustCompile(`(?m)^API\s+(http://127\.0\.0\.1:[0-9]+)`)

// serve starts a command of `weir serve` on ports of its own, as a user who owns nothing,
// asks it for one decision, has it reload, and ends it.
func serve(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.SysProcAttr == nil || cmd.SysProcAttr.Credential == nil {
		asUser(cmd, nobody)
	}
	base, stop := start(t, cmd)
	ask(t, base)
	check(t, cmd.Process.Signal(syscall.SIGHUP))
	ask(t, base)
	if log := stop(); !strings.Contains(log, "reload") {
		t.Errorf("no reload:\n%s", log)
	}
}

// start starts a command of `weir serve` on ports of its own. It returns the address of its
// HTTP API, and what ends it by SIGTERM and returns its log.
func start(t *testing.T, cmd *exec.Cmd) (base string, stop func() (log string)) {
	t.Helper()
	cmd.Args = append(cmd.Args, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	ended := make(chan error, 1)
	stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	var printed strings.Builder
	lines := bufio.NewScanner(out)
	for base == "" && lines.Scan() {
		printed.WriteString(lines.Text() + "\n")
		if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
			base = m[1]
		}
	}
	go func() {
		io.Copy(io.Discard, out)
		ended <- cmd.Wait()
	}()
	if base == "" {
		cmd.Process.Kill()
		t.Fatalf("no address: %v\n%s\n%s", <-ended, printed.String(), log.String())
	}
	return base, func() string {
		t.Helper()
		defer stuck.Stop()
		check(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := <-ended; err != nil {
			t.Errorf("%v\n%s", err, log.String())
		}
		return log.String()
	}
}

// ask asks for one decision, which is yes.
func ask(t *testing.T, base string) {
	t.Helper()
	r, err := http.Post(base+"/shouldAllowRequest", "application/json", strings.NewReader(`{"clientId":"123"}`))
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusOK || !strings.Contains(string(body), `"allowed":true`) {
		t.Errorf("%s: %s", r.Status, body)
	}
}

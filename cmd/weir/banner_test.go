package main_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestBannerIsTyped: what a node prints when it starts names its limits, and the command
// in it, pasted into a shell, is decided by the first.
func TestBannerIsTyped(t *testing.T) {
	servertest.Binary(t, "curl")
	n := servertest.Serve(t, exec.Command(binary, "serve", "--http", "127.0.0.1:0", "--grpc", "", "--admin", "", "--limit", "1/year using fixed_window"), "http")
	servertest.Await(t, "the banner", func() bool { return strings.Contains(n.Output(), "\nAPI ") })
	if !strings.Contains(n.Output(), "\nlimits   1/year using fixed_window\n") {
		t.Errorf("the limit is not in\n%s", n.Output())
	}
	_, rest, _ := strings.Cut(n.Output(), "\n         curl ")
	command, _, _ := strings.Cut(rest, "\n")
	for _, want := range []string{`"allowed":true`, `"allowed":false`} {
		out, err := exec.Command("sh", "-c", "curl -s "+command).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("curl %s: %s %v, want %s", command, out, err, want)
		}
	}
}

// TestLogStaysJSON: where the log is JSON, all that is written is, the limits too.
func TestLogStaysJSON(t *testing.T) {
	n := serve(t, "--limit", "1/year")
	servertest.Await(t, "the limits", func() bool { return strings.Contains(n.Output(), `"first":["1/year"]`) })
	if err := n.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if code, err := n.Wait(ctx); code != 0 || err != nil {
		t.Errorf("ended with %d, %v", code, err)
	}
	for line := range strings.Lines(n.Output()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

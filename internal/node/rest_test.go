package node

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestRefusedUploadsAreAnswered: curl reads the whole answer to an upload over HTTP/2
// that nobody reads.
func TestRefusedUploadsAreAnswered(t *testing.T) {
	curl, err := exec.LookPath("curl")
	switch {
	case err == nil:
	case os.Getenv("WEIR_REQUIRE_SERVERS") != "":
		t.Fatal("curl is not installed: scripts/servers.sh curl:curl")
	default:
		t.Skip("curl is not installed: scripts/servers.sh curl:curl")
	}
	s := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer.Problem{Status: 429, Detail: "too many"}.Write(w)
	}), config.HTTP{StallTimeout: 30 * time.Second, MaxStreams: 100, MaxHeaderBytes: 1 << 16}, nil, config.Drain{Timeout: time.Second}, slog.New(slog.DiscardHandler))
	ln := servertest.Listen(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for _, n := range []int{300_000, 200_000, 70_000} {
		body := filepath.Join(t.TempDir(), strconv.Itoa(n))
		if err := os.WriteFile(body, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			out, err := exec.Command(curl, "-s", "-o", os.DevNull, "--max-time", "20", "--http2-prior-knowledge", "-w", "%{http_code} %{errormsg}", "--data-binary", "@"+body, "http://"+ln.Addr().String()+"/").CombinedOutput()
			if string(out) != "429 " || err != nil {
				t.Errorf("%d bytes: %q %v", n, out, err)
			}
		}
	}
}

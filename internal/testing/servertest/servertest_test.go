package servertest_test

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestNginx(t *testing.T) {
	addr := ""
	t.Run("serves", func(t *testing.T) {
		addr, _ = servertest.Nginx(t, `location / { return 200 "up\n"; }`)
		res, err := http.Get("http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := bufio.NewReader(res.Body).ReadString('\n')
		if err != nil || body != "up\n" {
			t.Fatalf("got %q, %v", body, err)
		}
	})
	http.DefaultClient.CloseIdleConnections()
	if addr == "" {
		t.SkipNow() // The subtest said why.
	}
	if res, err := http.Get("http://" + addr); err == nil {
		res.Body.Close()
		t.Error("nginx still answers after its test ended")
	}
}

func TestProcessReportsExitAndOutput(t *testing.T) {
	p := servertest.Start(t, exec.Command(servertest.Binary(t, "sh"), "-c", "echo spoke; exit 3"))
	code, err := p.Wait(t.Context())
	if code != 3 || err != nil {
		t.Errorf("status %d, %v; want 3", code, err)
	}
	if got := p.Output(); got != "spoke\n" {
		t.Errorf("output %q", got)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	p := servertest.Start(t, exec.Command(servertest.Binary(t, "cat"), "/dev/zero"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("got %v", err)
	}
}

// A missing server is a skip that says how to get it, or a failure where
// servers are required.
func TestMissingBinary(t *testing.T) {
	for require, want := range map[string]string{"": "skip", "1": "fatal"} {
		t.Setenv("WEIR_REQUIRE_SERVERS", require)
		f := &fakeTB{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			servertest.Binary(f, "no-such-server")
		}()
		<-done
		if f.how != want || !strings.Contains(f.said, "make test") {
			t.Errorf("require=%q: %s %q, want %s", require, f.how, f.said, want)
		}
	}
}

// fakeTB records how a test was ended.
type fakeTB struct {
	testing.TB
	how, said string
}

func (f *fakeTB) Skipf(format string, _ ...any)  { f.end("skip", format) }
func (f *fakeTB) Fatalf(format string, _ ...any) { f.end("fatal", format) }
func (f *fakeTB) end(how, said string) {
	if f.how == "" {
		f.how, f.said = how, said
	}
}

// Tests that run side by side must not be given one port twice.
func TestFreePortIsGivenOnce(t *testing.T) {
	const each = 100
	ports := make(chan int, 8*each)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range each {
				ports <- servertest.FreePort(t)
			}
		})
	}
	wg.Wait()
	close(ports)
	seen := map[int]bool{}
	for p := range ports {
		if seen[p] {
			t.Errorf("port %d twice", p)
		}
		seen[p] = true
	}
}

func TestSample(t *testing.T) {
	const text = "# HELP a_total of b\n# TYPE a_total counter\na_total{x=\"1\"} 3\na_total{x=\"10\"} 4.5\na 1e+06\n"
	for series, want := range map[string]float64{`a_total{x="1"}`: 3, `a_total{x="10"}`: 4.5, "a": 1e6} {
		if v, ok := servertest.Sample(t, text, series); !ok || v != want {
			t.Errorf("%s: %v, %v, want %v", series, v, ok, want)
		}
	}
	for _, series := range []string{"a_total", "b", ""} {
		if v, ok := servertest.Sample(t, text, series); ok {
			t.Errorf("%q: %v", series, v)
		}
	}
}

func TestListening(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(`weir 1.0
{"level":"INFO","msg":"listening","section":"http","addr":"127.0.0.1:1","tls":false}
{"level":"INFO","msg":"listening","section":"admin","addr":"127.0.0.1:2","tls":true}
time=2026-01-01 level=INFO msg=listening section=grpc addr=127.0.0.1:3 tls=false
`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := servertest.Serve(t, exec.Command("cat", log), "http", "admin", "grpc")
	for section, want := range map[string]string{"http": "http://127.0.0.1:1", "admin": "https://127.0.0.1:2", "resp": ""} {
		if got := p.URL(section); got != want {
			t.Errorf("%s: %q, want %q", section, got, want)
		}
	}
	if got := p.Listening("grpc"); got != "127.0.0.1:3" {
		t.Errorf("grpc: %q", got)
	}
}

package servertest_test

import (
	"bufio"
	"context"
	"net/http"
	"os/exec"
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

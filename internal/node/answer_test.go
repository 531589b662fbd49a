package node_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/node"
)

// Every setting of the section answer reaches the clients of the gateway.
func TestAnswerSettings(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	c := local("1/hour by ip")
	file := write(t, "weir.yaml", `
response:
  headers: [ietf-08, x-ratelimit-reset]
  names: ["X-RateLimit-Remaining=X-Rate-Limit-Left"]
  reset: epoch
  jitter: 100
  expose: true
  status: 403
  partition_key_file: `+write(t, "key", "0123456789abcdef")+"\n")
	if err := c.LoadFile(file); err != nil {
		t.Fatal(err)
	}
	c.Upstream = upstream.URL
	s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan node.Ready, 1), make(chan error)
	go func() { ended <- s.Run(ctx, func(r node.Ready) { ready <- r }) }()
	url := (<-ready).URLs["http"] + "/"
	ask := func() (int, http.Header, string) {
		res, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header, string(body)
	}
	number := func(h http.Header, name string) int64 {
		n, err := strconv.ParseInt(h.Get(name), 10, 64)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return n
	}
	const names = "Ratelimit-Policy, Ratelimit, X-Ratelimit-Limit, X-Rate-Limit-Left, X-Ratelimit-Reset, X-Ratelimit-Retry-After, Retry-After"
	if code, h, _ := ask(); code != 200 || number(h, "X-Rate-Limit-Left") != 0 || h.Get("X-RateLimit-Remaining") != "" ||
		h.Get("Access-Control-Expose-Headers") != names || h.Get("Retry-After") != "" {
		t.Errorf("allowed: %d %v", code, h)
	}
	code, h, body := ask()
	if code != 403 || !strings.Contains(body, `"status":403`) || h.Get("Cache-Control") != "no-store" {
		t.Errorf("refused: %d %s %v", code, body, h)
	}
	if !regexp.MustCompile(`^"1/hour by ip";r=0;t=\d+;pk=:[A-Za-z0-9+/]{16}:$`).MatchString(h.Get("RateLimit")) {
		t.Errorf("RateLimit: %s", h.Get("RateLimit"))
	}
	if at := number(h, "X-RateLimit-Reset") - time.Now().Unix(); at < 1 || at > 4*3600+2 {
		t.Errorf("the reset is %d seconds away", at)
	}
	// That a wait is jittered is told by asking again: it is drawn anew.
	waits := make(map[int64]bool)
	for range 20 {
		_, h, _ := ask()
		wait := number(h, "Retry-After")
		if wait < 1 || wait > 4*3600 {
			t.Errorf("Retry-After: %d", wait)
		}
		waits[wait] = true
	}
	if len(waits) < 5 {
		t.Errorf("20 refusals told %d waits", len(waits))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A setting that is wrong stops the node, and the error names it.
func TestAnswerSettingsAreChecked(t *testing.T) {
	f := func(change func(*config.Answer), want ...string) {
		t.Helper()
		c := local("1/hour by ip")
		change(&c.Answer)
		s, err := node.New(c, node.Build{}, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
			t.Errorf("accepted: %+v", c.Answer)
			return
		}
		for _, part := range append(want, "response") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("no %q in: %v", part, err)
			}
		}
	}
	f(func(a *config.Answer) { a.Headers = []string{"ietf-09"} }, `"ietf-09"`, "ietf-08")
	f(func(a *config.Answer) { a.Headers = []string{"ietf-08", "ietf-07"} }, "two fields are named")
	f(func(a *config.Answer) { a.Names = []string{"X-RateLimit-Limit"} }, "FIELD=NAME")
	f(func(a *config.Answer) { a.Names = []string{"X-RateLimit-Limit=a", "X-RateLimit-Limit=b"} }, "each field once")
	f(func(a *config.Answer) { a.Names = []string{"X-RateLimit-Limit=Set-Cookie"} }, "another meaning")
	f(func(a *config.Answer) { a.Reset = "tomorrow" }, `"tomorrow"`, "http_date")
	f(func(a *config.Answer) { a.Jitter = 101 }, "0 to 100")
	f(func(a *config.Answer) { a.Jitter = -1 << 62 }, "0 to 100")
	f(func(a *config.Answer) { a.Status = 200 }, "400 to 599")
	f(func(a *config.Answer) { a.Status = 0 }, "400 to 599")
	f(func(a *config.Answer) { a.Status = 1<<32 + 429 }, "400 to 599")
	f(func(a *config.Answer) { a.PartitionKeyFile = write(t, "key", "short") }, "at least 16")
	f(func(a *config.Answer) { a.PartitionKeyFile = write(t, "key", "") }, "response.partition_key_file", "empty")
	f(func(a *config.Answer) { a.PartitionKeyFile = "gone" }, "response.partition_key_file", "gone")
}

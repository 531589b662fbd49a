package xds_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/weirlimit/weir/internal/compat/envoy/xds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestRulesArriveAndChange(t *testing.T) {
	m := startManagement(t, "", nil)
	n := startNode(t, xds.Options{
		Server: m.Addr, NodeMetadata: xds.ParseNodeMetadata("a=1,nothing,b=x=y,a=2"),
		Headers: map[string]string{"X-Tenant": "blue", "authorization": "Bearer abc"},
	})
	m.Set("1", "shop", "blog")
	n.AwaitDomains("blog shop")
	m.AwaitAck("1")
	m.Set("2", "shop")
	n.AwaitDomains("shop")
	m.AwaitAck("2")
	m.Set("3")
	n.AwaitDomains("")
	m.AwaitAck("3")

	for i, r := range m.Requests() {
		if r.GetTypeUrl() != xds.TypeURL || len(r.GetResourceNames()) != 0 {
			t.Errorf("request %d asks for %s %v, want all of %s", i, r.GetTypeUrl(), r.GetResourceNames(), xds.TypeURL)
		}
		md := r.GetNode().GetMetadata().GetFields()
		if r.GetNode().GetId() != "default" || len(md) != 2 || md["a"].GetStringValue() != "2" || md["b"].GetStringValue() != "x=y" {
			t.Errorf("request %d is of node %v", i, r.GetNode())
		}
	}
	if got := m.headers; got.Get("x-tenant")[0] != "blue" || got.Get("authorization")[0] != "Bearer abc" {
		t.Errorf("headers %v", got)
	}
	if got := n.Applied(); got != 3 || n.Streams() != 1 {
		t.Errorf("%d sets were applied of %d streams", got, n.Streams())
	}
}

func TestBadSetLeavesTheRules(t *testing.T) {
	m := startManagement(t, "", nil)
	m.Set("1", "shop")
	n := startNode(t, xds.Options{Server: m.Addr})
	m.AwaitAck("1")
	m.Set("2", "blog", "blog")
	nack := m.AwaitNack()
	if nack.GetVersionInfo() != "1" || !strings.Contains(nack.GetErrorDetail().GetMessage(), "duplicate domain 'blog' in config file") {
		t.Errorf("the refusal says version %q, %v", nack.GetVersionInfo(), nack.GetErrorDetail())
	}
	if n.Domains() != "shop" {
		t.Errorf("domains %q after a bad set", n.Domains())
	}
	m.Set("3", "blog")
	m.AwaitAck("3")
	n.AwaitDomains("blog")
}

// TestRefusalsArePaced: go-control-plane sends a set that was refused again as
// soon as it hears so.
func TestRefusalsArePaced(t *testing.T) {
	m := startManagement(t, "", nil)
	start := time.Now()
	m.Set("1", "bad")
	n := startNode(t, xds.Options{Server: m.Addr})
	servertest.Await(t, "seven refusals", func() bool { return n.Applied() >= 7 })
	if took, want := time.Since(start), 310*time.Millisecond; took < want {
		t.Errorf("seven refusals took %v, want %v at least", took, want)
	}
	if got := strings.Count(n.Log(), "rules of xDS management server rejected"); got != 1 {
		t.Errorf("one bad set is logged %d times", got)
	}
	m.Set("2", "shop")
	n.AwaitDomains("shop")
	m.AwaitAck("2")
	m.Set("3", "bad")
	servertest.Await(t, "the next refusal to be logged", func() bool { return strings.Count(n.Log(), "rules of xDS management server rejected") == 2 })
}

func TestFirstSetThatIsBadIsRefused(t *testing.T) {
	m := startManagement(t, "", nil)
	m.Set("1", "bad")
	startNode(t, xds.Options{Server: m.Addr})
	if nack := m.AwaitNack(); nack.GetVersionInfo() != "" {
		t.Errorf("a client without rules says it has version %q", nack.GetVersionInfo())
	}
}

func TestServerStartsLateAndAgain(t *testing.T) {
	m := startManagement(t, "", nil)
	m.Stop()
	n := startNode(t, xds.Options{Server: m.Addr})
	n.AwaitLog("connection refused")
	if n.Streams() != 0 {
		t.Error("there is a stream without a server")
	}
	m.Set("1", "shop")
	m.Start(nil)
	n.AwaitDomains("shop")
	m.AwaitAck("1")

	// This server sends what it has to every new stream, whatever that says.
	m.Stop()
	n.AwaitLog("lost xDS management server")
	if n.Domains() != "shop" {
		t.Errorf("domains %q while the server is away", n.Domains())
	}
	before := len(m.Requests())
	m.Start(nil)
	servertest.Await(t, "a request of a new stream", func() bool { return len(m.Requests()) > before })
	if r := m.Requests()[before]; r.GetVersionInfo() != "1" || r.GetErrorDetail() != nil {
		t.Errorf("a new stream starts with %v", r)
	}
	servertest.Await(t, "1 again", func() bool { return n.Applied() == 2 })
	m.Set("2", "blog")
	n.AwaitDomains("blog")
	if got := n.Applied(); got != 3 {
		t.Errorf("%d sets were applied, want 1, 1 again and 2", got)
	}
}

func TestRefusedSetIsNotStatedAsAcceptedLater(t *testing.T) {
	m := startManagement(t, "", nil)
	m.Set("1", "shop")
	startNode(t, xds.Options{Server: m.Addr})
	m.AwaitAck("1")
	m.Set("2", "bad")
	m.AwaitNack()
	m.Stop()
	before := len(m.Requests())
	m.Start(nil)
	servertest.Await(t, "a request of a new stream", func() bool { return len(m.Requests()) > before })
	if r := m.Requests()[before]; r.GetVersionInfo() != "1" {
		t.Errorf("a new stream states version %q, which was refused", r.GetVersionInfo())
	}
}

func TestStreamIsCut(t *testing.T) {
	m := startManagement(t, "", nil)
	proxy := servertest.NewProxy(t, m.Addr)
	m.Set("1", "shop")
	n := startNode(t, xds.Options{Server: proxy.Addr})
	m.AwaitAck("1")
	proxy.Reset()
	servertest.Await(t, "1 again on a second stream", func() bool { return n.Applied() == 2 })
	m.Set("2", "blog")
	n.AwaitDomains("blog")
	// A set that is cut in the middle is none.
	proxy.CutAfter(40)
	m.Set("3", strings.Repeat("x", 1000), "y")
	servertest.Await(t, "a third stream", func() bool { return n.Streams() >= 3 })
	proxy.CutAfter(-1)
	m.AwaitAck("3")
	if got := n.Applied(); got != 4 {
		t.Errorf("%d sets were applied, want 1, 1 again, 2 and the whole of 3", got)
	}
}

func TestSlowServer(t *testing.T) {
	m := startManagement(t, "", nil)
	proxy := servertest.NewProxy(t, m.Addr)
	proxy.Delay(servertest.Replies, 150*time.Millisecond)
	m.Set("1", "shop")
	n := startNode(t, xds.Options{Server: proxy.Addr})
	n.AwaitDomains("shop")
	m.AwaitAck("1")
	if got := n.Streams(); got != 1 {
		t.Errorf("a slow server cost %d streams", got)
	}
	proxy.Stall(servertest.Replies, true)
	m.Set("2", "blog")
	n.stop() // does not hang on a stalled server
	if n.Domains() != "shop" {
		t.Errorf("domains %q from a server that says nothing", n.Domains())
	}
}

func TestMessageTooLong(t *testing.T) {
	m := startManagement(t, "", nil)
	m.Set("1", "shop")
	n := startNode(t, xds.Options{Server: m.Addr, MaxMessage: 2000})
	m.AwaitAck("1")
	m.Set("2", strings.Repeat("x", 3000))
	n.AwaitLog("larger than max (")
	if n.Domains() != "shop" {
		t.Errorf("domains %q after a set that is too long", n.Domains())
	}
	m.Set("3", "blog")
	n.AwaitDomains("blog")
}

// TestNobodyAnswersKeepAlive waits for the kernel or gRPC to notice; gRPC asks
// every ten seconds at most.
func TestNobodyAnswersKeepAliveSoak(t *testing.T) {
	if os.Getenv("WEIR_SOAK") != "1" {
		t.Skip("takes 30 s: set WEIR_SOAK=1")
	}
	m := startManagement(t, "", nil)
	proxy := servertest.NewProxy(t, m.Addr)
	m.Set("1", "shop")
	n := startNode(t, xds.Options{Server: proxy.Addr, KeepAlive: 10 * time.Second})
	m.AwaitAck("1")
	proxy.Stall(servertest.Replies, true)
	proxy.Stall(servertest.Requests, true)
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	for !strings.Contains(n.Log(), "lost xDS management server") {
		select {
		case <-ctx.Done():
			t.Fatal("a connection that is half open was not noticed in 45 s")
		case <-time.After(100 * time.Millisecond):
		}
	}
	m.Set("2", "blog")
	proxy.Stall(servertest.Replies, false)
	proxy.Stall(servertest.Requests, false)
	n.AwaitDomains("blog")
}

func TestContextThatHasEnded(t *testing.T) {
	c, err := xds.New(xds.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.Run(ctx, func([]*rlsconfv3.RateLimitConfig) error { return nil })
}

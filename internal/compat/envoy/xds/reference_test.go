package xds_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weirlimit/weir/internal/compat/envoy/xds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// script is a management server that says the same to every client: it answers
// each request with the next response of a stream, ends the stream when there
// is none left, and goes on with the next stream.
type script struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams  [][]*discoveryv3.DiscoveryResponse
	at       chan int // the stream that comes next
	requests chan *discoveryv3.DiscoveryRequest
}

func (s *script) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	n := <-s.at
	s.at <- n + 1
	if n >= len(s.streams) {
		<-stream.Context().Done()
		return nil
	}
	for i := 0; ; i++ {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		s.requests <- req
		if i == len(s.streams[n]) {
			return nil
		}
		if err := stream.Send(s.streams[n][i]); err != nil {
			return err
		}
	}
}

// startScript starts the server and returns its address.
func startScript(t *testing.T, streams [][]*discoveryv3.DiscoveryResponse) (*script, string) {
	t.Helper()
	ln := servertest.Listen(t)
	s := &script{streams: streams, at: make(chan int, 1), requests: make(chan *discoveryv3.DiscoveryRequest, 100)}
	s.at <- 0
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	done := make(chan error, 1)
	go func() { done <- g.Serve(ln) }()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return s, ln.Addr().String()
}

// say returns a response of the given resources.
func say(version, nonce string, resources ...*anypb.Any) *discoveryv3.DiscoveryResponse {
	return &discoveryv3.DiscoveryResponse{TypeUrl: xds.TypeURL, VersionInfo: version, Nonce: nonce, Resources: resources}
}

func packed(m proto.Message) *anypb.Any {
	any, err := anypb.New(m)
	if err != nil {
		panic(err) // of messages made here
	}
	return any
}

// history is what the tests below say to a client.
func history() [][]*discoveryv3.DiscoveryResponse {
	shop, again := packed(config("one", "shop")), packed(config("two", "shop"))
	return [][]*discoveryv3.DiscoveryResponse{{
		say("1", "a", shop),
		say("2", "b", shop, again),
		say("3", "c", packed(&discoveryv3.Resource{Name: "x"})),
		say("4", "d", &anypb.Any{TypeUrl: xds.TypeURL, Value: []byte{0xff, 0xff}}),
		say("5", "e"),
		say("", "", shop),
		say("6", "f", packed(config("one", "blog"))),
	}, {
		say("7", "g", shop),
		say("8", "h", shop, again),
		say("9", "i", shop),
	}, {
		say("10", "j", shop, again),
	}, {
		say("11", "k", shop),
	}}
}

// said returns how many requests history gets, and each as text.
func (s *script) said(t *testing.T) (lines []string) {
	t.Helper()
	n := 0
	for _, stream := range s.streams {
		n += len(stream) + 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(lines) < n {
		select {
		case r := <-s.requests:
			// protobuf puts one of two spaces into the texts of its errors.
			reason := strings.ReplaceAll(r.GetErrorDetail().GetMessage(), "\u00a0", " ")
			lines = append(lines, fmt.Sprintf("version %q nonce %q type %q names %q node %q metadata %q delta %v code %d error %q", r.GetVersionInfo(), r.GetResponseNonce(),
				r.GetTypeUrl(), r.GetResourceNames(), r.GetNode().GetId(), r.GetNode().GetMetadata().GetFields(), r.GetResourceLocators(), r.GetErrorDetail().GetCode(), reason))
		case <-ctx.Done():
			t.Fatalf("%d requests of %d:\n%s", len(lines), n, strings.Join(lines, "\n"))
		}
	}
	return lines
}

// refused is how the reference and the node of these tests refuse the set.
const refused = "two: duplicate domain 'shop' in config file"

func TestRequests(t *testing.T) {
	s, addr := startScript(t, history())
	n := startNode(t, xds.Options{Server: addr, NodeID: "n1"})
	lines := s.said(t)
	want := []string{ // version nonce refusal
		` `, `1 a`, `1 b ` + refused, `1 c proto: mismatched message type: got `,
		`1 d proto: cannot parse invalid wire-format data`, `5 e`, ` `, `6 f`,
		`6 f`, `7 g`, `7 h ` + refused, `9 i`,
		`9 i`, `9 j ` + refused,
		`9 j`, `11 k`,
	}
	for i, line := range lines {
		version, rest, _ := strings.Cut(want[i], " ")
		nonce, reason, _ := strings.Cut(rest, " ")
		head := fmt.Sprintf("version %q nonce %q type %q names [] node \"n1\" metadata map[]", version, nonce, xds.TypeURL)
		tail := strings.Trim(fmt.Sprintf("error %q", strings.ReplaceAll(reason, "\u00a0", " ")), `"`)
		if !strings.HasPrefix(line, head) || !strings.Contains(line, tail) || (reason == "") != strings.HasSuffix(line, `error ""`) {
			t.Errorf("request %d: %s\nwant: %s … %s", i, line, head, tail)
		}
	}
	if n.Domains() != "shop" {
		t.Errorf("domains %q at the end", n.Domains())
	}
}

// TestRequestsLikeTheReference compares with the service that the protocol is
// copied from: WEIR_REFERENCE is its binary.
func TestRequestsLikeTheReference(t *testing.T) {
	path := os.Getenv("WEIR_REFERENCE")
	if path == "" {
		t.Skip("compares with envoyproxy/ratelimit: set WEIR_REFERENCE to its binary")
	}
	theirs, addr := startScript(t, history())
	cmd := exec.Command(path)
	port := func() string { return fmt.Sprint(servertest.FreePort(t)) }
	cmd.Env = []string{
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + addr, "CONFIG_GRPC_XDS_NODE_ID=n1",
		"CONFIG_GRPC_XDS_NODE_METADATA=a=1,b=x=y", "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=20ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=40ms",
		"USE_STATSD=false", "BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=127.0.0.1:" + port(),
		"HOST=127.0.0.1", "PORT=" + port(), "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port(),
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + port(), "LOG_LEVEL=debug",
	}
	servertest.Start(t, cmd)
	want := theirs.said(t)

	ours, addr := startScript(t, history())
	startNode(t, xds.Options{Server: addr, NodeID: "n1", NodeMetadata: xds.ParseNodeMetadata("a=1,b=x=y")})
	got := ours.said(t)
	for i := range want {
		expect := want[i]
		if i == 14 {
			// The stream after a refusal: there the refused version is stated as
			// accepted.
			expect = strings.Replace(expect, `version "10"`, `version "9"`, 1)
			if expect == want[i] {
				t.Errorf("the reference no longer states a refused version: %s", want[i])
			}
		}
		if got[i] != expect {
			t.Errorf("request %d:\nreference %s\nweir      %s", i, expect, got[i])
		}
	}
}

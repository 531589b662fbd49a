package hostile

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

const shouldRateLimit = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// serveGRPC starts a node for gRPC clients, who have a second or two for whatever
// they begin. The address is that of gRPC.
func serveGRPC(t *testing.T, args ...string) *node {
	t.Helper()
	s := serve(t, append([]string{
		"--limit", "1000000000/hour by ip", "--grpc", "127.0.0.1:0",
		"--config", servertest.Config(t, "grpc: {handshake_timeout: 1s, call_timeout: 2s, stall_timeout: 1s}"),
	}, args...)...)
	s.addr = s.Listening("grpc")
	if s.addr == "" {
		t.Fatal("no address of gRPC")
	}
	return s
}

// grpcClient returns a client of one connection.
func (s *node) grpcClient(t *testing.T) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// askOn returns what asks once on a connection.
func askOn(c *grpc.ClientConn) func() error {
	q := &rls.RateLimitRequest{Domain: "api", Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}},
	}}}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		res, err := rls.NewRateLimitServiceClient(c).ShouldRateLimit(ctx, q, grpc.WaitForReady(true))
		if err == nil && res.OverallCode != rls.RateLimitResponse_OK {
			err = fmt.Errorf("answered %s", res.OverallCode)
		}
		return err
	}
}

// attackGRPC runs f for eight strangers.
func (s *node) attackGRPC(t *testing.T, most int64, f func()) {
	t.Helper()
	s.attackBeside(t, most, askOn(s.grpcClient(t)), func() { each(8, func(int) { f() }) })
}

// callFields are those of a call of Envoy's service, and more.
func callFields(more ...string) string {
	return request("POST", "h", shouldRateLimit) + field("content-type", "application/grpc") + field("te", "trailers") + strings.Join(more, "")
}

// grpcMessage is a message as a call carries it.
func grpcMessage(b string) string {
	return "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) + b
}

// TestGRPCFloods: frames without end, on a connection each. What they cost the
// node is time in proportion to what is sent, and no memory; where a flood would
// have to be kept, it ends the connection.
func TestGRPCFloods(t *testing.T) {
	t.Parallel()
	s := serveGRPC(t)
	limit := n(256, 32<<10) << 10
	for name, f := range map[string]struct {
		ends bool // the node ends the connection before all is sent
		next func(i int) string
	}{
		"reset": {false, func(i int) string {
			var b strings.Builder
			for k := range 50 {
				stream := uint32(2*(50*i+k) + 1)
				b.WriteString(frame(frameHeaders, endHeaders, stream, callFields()))
				b.WriteString(frame(frameReset, 0, stream, "\x00\x00\x00\x08"))
			}
			return b.String()
		}},
		"calls that are not waited for": {false, func(i int) string {
			var b strings.Builder
			for k := range 50 {
				stream := uint32(2*(50*i+k) + 1)
				b.WriteString(frame(frameHeaders, endHeaders, stream, callFields()) + frame(frameData, endStream, stream, grpcMessage("\x0a\x03api")))
			}
			return b.String()
		}},
		"calls without messages": {false, func(i int) string {
			return frame(frameHeaders, endHeaders, uint32(2*i+1), callFields(field("grpc-timeout", "9999H")))
		}},
		"unknown methods": {false, func(i int) string {
			return frame(frameHeaders, endStream|endHeaders, uint32(2*i+1), request("POST", "h", fmt.Sprintf("/no.such/Method%d", i))+field("content-type", "application/grpc"))
		}},
		"continuation": {false, func(i int) string {
			if i == 0 {
				return frame(frameHeaders, endStream, 1, callFields())
			}
			return frame(frameContinuation, 0, 1, strings.Repeat(field("a", "b"), 2000))
		}},
		"ping":     {true, func(int) string { return strings.Repeat(frame(framePing, 0, 0, "12345678"), 1000) }},
		"settings": {false, func(int) string { return strings.Repeat(frame(frameSettings, 0, 0, ""), 1000) }},
		"window":   {false, func(int) string { return strings.Repeat(frame(frameWindowUpdate, 0, 0, "\x00\x00\x00\x01"), 1000) }},
		"empty data": {false, func(i int) string {
			if i == 0 {
				return frame(frameHeaders, endHeaders, 1, callFields())
			}
			return strings.Repeat(frame(frameData, 0, 1, ""), 1000)
		}},
		"a message without end": {false, func(i int) string {
			if i == 0 {
				return frame(frameHeaders, endHeaders, 1, callFields()) + frame(frameData, 0, 1, "\x00\x7f\xff\xff\xff")
			}
			return frame(frameData, 0, 1, strings.Repeat("x", 16<<10))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s.attackGRPC(t, 96*mib, func() {
				sent, code, err := s.flood(limit, f.next)
				if err != nil {
					t.Error(err)
				}
				if f.ends && sent >= limit && code < 0 {
					t.Errorf("%d bytes were read", sent)
				}
			})
		})
	}
}

// TestGRPCSlowClients: who says nothing, or stops within a handshake, is sent away
// in time.
func TestGRPCSlowClients(t *testing.T) {
	t.Parallel()
	s := serveGRPC(t)
	many := n(16, 500)
	s.attackGRPC(t, 96*mib, func() {
		var open []net.Conn
		for i := range many {
			c, err := s.try()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := io.WriteString(c, []string{"", preface[:9], preface, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"}[i%4]); err != nil {
				t.Error(err)
			}
			open = append(open, c)
		}
		for _, c := range open {
			if _, err := closed(c); err != nil {
				t.Errorf("a connection was kept: %v", err)
			}
		}
	})
}

// TestGRPCUnreadAnswers: whoever asks and takes none of the answers makes the node
// keep no more than a connection may, also where the windows leave room for a
// gigabyte: it takes no more calls.
func TestGRPCUnreadAnswers(t *testing.T) {
	t.Parallel()
	s := serveGRPC(t, "--config", servertest.Config(t, "grpc: {max_unsent: 32MiB, handshake_timeout: 1s, call_timeout: 2s, stall_timeout: 1s}"))
	s.attackBeside(t, 160*mib, askOn(s.grpcClient(t)), func() { each(4, func(int) { s.callUnread(t) }) })
}

// callUnread asks the reflection service for a description of some kilobytes, again
// and again, and reads none, until the node ends the connection or nothing moves any
// more; see pingUnread.
func (s *node) callUnread(t *testing.T) {
	c, err := s.try()
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	head := request("POST", "h", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo") + field("content-type", "application/grpc")
	const symbol = "envoy.service.ratelimit.v3.RateLimitService"
	ask := grpcMessage("\x22" + string(rune(len(symbol))) + symbol) // file_containing_symbol
	calls := preface + frame(frameSettings, 0, 0, "\x00\x04\x3f\xff\xff\xff") + frame(frameWindowUpdate, 0, 0, "\x3f\xff\x00\x00")
	for stream := uint32(1); stream < 20_000; stream += 2 {
		if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		calls += frame(frameHeaders, endHeaders, stream, head) + frame(frameData, endStream, stream, strings.Repeat(ask, 20))
		if _, err := io.WriteString(c, calls); err != nil {
			return
		}
		calls = ""
	}
}

// TestGRPCConnections: more connections than there may be hold up nobody who has a
// call under way: only connections without one are closed for them. The strangers
// come from loopback, which many may share, so they may take all places.
func TestGRPCConnections(t *testing.T) {
	t.Parallel()
	s := serveGRPC(t, "--config", servertest.Config(t, "grpc: {max_connections: 40, handshake_timeout: 30s, call_timeout: 2s, stall_timeout: 1s}"))
	client := s.grpcClient(t)
	watch, err := healthpb.NewHealthClient(client).Watch(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := watch.Recv(); err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health: %v, %v", res, err)
	}
	var open atomic.Int64
	s.attackBeside(t, 64*mib, askOn(client), func() {
		each(8, func(int) {
			for range n(50, 200) {
				c, err := s.h2()
				if err != nil {
					continue // the queue is full
				}
				defer c.Close()
				open.Add(1)
			}
		})
	})
	if open.Load() < 40 {
		t.Errorf("%d connections were opened", open.Load())
	}
}

package xds

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

const keepAliveTimeout = 20 * time.Second

type stream = discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// connect opens one stream on a connection of its own. It returns when the
// connection stands or cannot be made. close ends both.
func (c *Client) connect(ctx context.Context) (s stream, close func(), err error) {
	creds, err := c.credentials()
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient(dialTarget(c.opt.Server),
		grpc.WithTransportCredentials(watched{creds}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: c.opt.KeepAlive, Timeout: keepAliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.opt.MaxMessage)),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(c.opt.Headers)))
	// A stream that does not wait for a connection fails with the reason why
	// there is none.
	s, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	close = func() {
		cancel()
		_ = conn.Close() // its error says that it is closed
	}
	if err != nil {
		close()
		return nil, nil, err
	}
	return s, close, nil
}

// dialTarget names the server to gRPC. A host and port are resolved anew for each
// attempt; the resolver of gRPC's default scheme would do so twice a minute at
// most.
func dialTarget(server string) string {
	if strings.Contains(server, "://") || strings.HasPrefix(server, "unix:") {
		return server
	}
	return "passthrough:///" + server
}

// credentials reads the files of TLS.
func (c *Client) credentials() (credentials.TransportCredentials, error) {
	if c.opt.TLS == nil {
		return insecure.NewCredentials(), nil
	}
	conf, err := c.opt.TLS.Config(nil)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(conf), nil
}

// watched has the kernel ask a silent peer whether it is there: a stream of
// rules can be silent for days, and a peer that is gone says nothing.
type watched struct {
	credentials.TransportCredentials
}

func (w watched) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("tcp keep-alive: %w", err)
		}
	}
	return w.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

func (w watched) Clone() credentials.TransportCredentials {
	return watched{w.TransportCredentials.Clone()}
}

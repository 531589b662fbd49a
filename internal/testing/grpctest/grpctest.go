// Package grpctest serves gRPC services to tests as the program does.
package grpctest

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Serve serves on loopback what register registers, until the test ends, and
// returns the address. The test fails if the server does not end in peace.
func Serve(t testing.TB, opt grpcserver.Options, register func(grpc.ServiceRegistrar)) string {
	t.Helper()
	server, err := grpcserver.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	register(server)
	ln := servertest.Listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// Connect serves as Serve does, and returns a connection that ends before the
// server.
func Connect(t testing.TB, opt grpcserver.Options, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(Serve(t, opt, register), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Invoke calls a method with a message of bytes as they are, also such as generated code
// would not write.
func Invoke(ctx context.Context, conn *grpc.ClientConn, method string, message []byte, res any) error {
	return conn.Invoke(ctx, method, message, res, grpc.ForceCodecV2(asIs{encoding.GetCodecV2("proto")}))
}

type asIs struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c asIs) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

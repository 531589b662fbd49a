package main

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// What is compared does the same: every server allows two descriptors, and every
// batch is answered in full.
func TestRPCServersAnswer(t *testing.T) {
	for i, s := range rpcServers {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.serve(ctx, ln) }()
		conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		l := &rpcLoad{conns: []*grpc.ClientConn{conn}, url: "http://" + ln.Addr().String() + "/v1/check"}
		decide, want := l.shouldRateLimit(0), 1
		switch i {
		case rpcs:
			decide, want = l.checkBatch(0), batchSize
		case rpcs + 1:
			decide, want = l.checkJSON(0), batchSize
		}
		call, stop := context.WithTimeout(t.Context(), time.Minute)
		for range 3 {
			if n, err := decide(call); err != nil || n != want {
				t.Errorf("%s: %d decisions, %v", s.name, n, err)
			}
		}
		stop()
		conn.Close()
		cancel()
		<-served
	}
}

package xds

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
	"google.golang.org/grpc/credentials/insecure"
)

func TestKernelWatchesTheConnection(t *testing.T) {
	ln := servertest.Listen(t)
	defer ln.Close()
	conn, err := (&net.Dialer{KeepAlive: -1}).Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// gRPC works with clones.
	if _, _, err := (watched{insecure.NewCredentials()}).Clone().ClientHandshake(context.Background(), "x", conn); err != nil {
		t.Fatal(err)
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	f := func(level, option, want int) {
		t.Helper()
		got := 0
		if cerr := raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), level, option) }); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
		if got != want {
			t.Errorf("option %d is %d, want %d", option, got, want)
		}
	}
	f(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
	f(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 30)
	f(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 10)
	f(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3)
}

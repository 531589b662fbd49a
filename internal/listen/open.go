package listen

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// Open listens at an address of network, tcp or unix. The path of a socket that
// nobody listens on any more is used again. control is called before the socket
// is bound, as net.ListenConfig's is; it may be nil.
//
// Whoever is connected when the listener closes is let in, if somebody accepts.
// On Linux, those who come over TCP while it closes get no answer, and none but a
// refusal when they try again a second later: no connection that was opened is
// cut off. Elsewhere, and on Unix sockets, who connects in the last instant is.
func Open(network, addr string, control func(network, addr string, c syscall.RawConn) error) (net.Listener, error) {
	if network == "unix" {
		if err := removeDead(addr); err != nil {
			return nil, err
		}
	}
	conf := net.ListenConfig{Control: control}
	conf.SetMultipathTCP(false) // Linux attaches no filter to such a socket
	ln, err := conf.Listen(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	socket, err := ln.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &queueListener{Listener: ln, socket: socket}, nil
}

// removeDead removes a socket that nobody listens on, such as a process leaves
// that was killed. About everything else that is in the way net.Listen complains.
func removeDead(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return nil
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		return c.Close()
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return os.Remove(path)
	}
	return nil
}

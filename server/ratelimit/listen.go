package ratelimit

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
)

// listenTCP listens on host and port, which other processes may do too: a new
// process can start before the old one has ended.
func listenTCP(host string, port int) (net.Listener, error) {
	conf := net.ListenConfig{Control: shared}
	return conf.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// listenUnix listens on a Unix socket. One that a dead process has left behind
// is removed.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		conn, err := net.Dial("unix", path)
		switch {
		case err == nil:
			conn.Close() // somebody listens: net.Listen says so
		case errors.Is(err, syscall.ECONNREFUSED):
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		}
	}
	return net.Listen("unix", path)
}

package server

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// unixPrefix begins the address of a Unix socket, unix:/run/weir.sock.
const unixPrefix = "unix:"

// listenOn listens on HOST:PORT or on a Unix socket.
func listenOn(addr string) (net.Listener, error) {
	network := "tcp"
	if path, unix := strings.CutPrefix(addr, unixPrefix); unix {
		if err := removeDead(path); err != nil {
			return nil, err
		}
		network, addr = "unix", path
	}
	ln, err := net.Listen(network, addr)
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

// urlOf returns where to reach what listens on addr: a URL of the scheme, empty
// for http, with an s for TLS; or unix: and a path.
func urlOf(addr net.Addr, scheme string, tls bool) string {
	if addr.Network() == "unix" {
		return unixPrefix + addr.String()
	}
	if scheme == "" {
		scheme = "http"
	}
	if tls {
		scheme += "s"
	}
	return scheme + "://" + reachable(addr.String())
}

// curlTo returns the words of a curl command that ask for a path at a URL of
// urlOf.
func curlTo(url, path string) string {
	if socket, unix := strings.CutPrefix(url, unixPrefix); unix {
		return "--unix-socket " + socket + " http://localhost" + path
	}
	return url + path
}

// redisTo returns the arguments by which redis-cli goes to a URL of urlOf.
func redisTo(url string) string {
	if socket, unix := strings.CutPrefix(url, unixPrefix); unix {
		return "-s " + socket
	}
	return "-u " + url
}

package server

import (
	"net"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/listen"
)

// unixPrefix begins the address of a Unix socket, unix:/run/weir.sock.
const unixPrefix = "unix:"

// listenOn listens on HOST:PORT or on a Unix socket.
func listenOn(addr string) (net.Listener, error) {
	if path, unix := strings.CutPrefix(addr, unixPrefix); unix {
		return listen.Open("unix", path, nil)
	}
	return listen.Open("tcp", addr, nil)
}

// Hosts of an address that is a port alone: those of the addresses that are listened on
// where none is given.
const (
	onAllHosts = ""
	onLoopback = "127.0.0.1"
)

// withHost returns the address to listen on that was given as text: a port alone is on
// host.
func withHost(text, host string) string {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return net.JoinHostPort(host, text)
	}
	return text
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

// loopbackListen reports whether a HOST:PORT to listen on is loopback. A name
// other than localhost is not: what it resolves to can change.
func loopbackListen(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && host != "" && httpapi.LoopbackHost(host)
}

// reachable returns an address to connect to for one that is listened on.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

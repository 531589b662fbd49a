package node

import (
	"net"
	"strings"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/listen"
)

// listenOn listens on HOST:PORT or on a Unix socket.
func listenOn(addr string) (net.Listener, error) {
	if path, unix := strings.CutPrefix(addr, config.UnixPrefix); unix {
		return listen.Open("unix", path, nil)
	}
	return listen.Open("tcp", addr, nil)
}

// urlOf returns where to reach what listens on addr: a URL of the scheme, empty
// for http, with an s for TLS; or unix: and a path.
func urlOf(addr net.Addr, scheme string, tls bool) string {
	if addr.Network() == "unix" {
		return config.UnixPrefix + addr.String()
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
	if socket, unix := strings.CutPrefix(url, config.UnixPrefix); unix {
		return "--unix-socket " + socket + " http://localhost" + path
	}
	return url + path
}

// redisTo returns the arguments by which redis-cli goes to a URL of urlOf.
func redisTo(url string) string {
	if socket, unix := strings.CutPrefix(url, config.UnixPrefix); unix {
		return "-s " + socket
	}
	return "-u " + url
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

package config

import (
	"net"
	"strconv"

	"github.com/weirlimit/weir/internal/frontend/httpapi"
)

// UnixPrefix begins the address of a Unix socket, unix:/run/weir.sock.
const UnixPrefix = "unix:"

// Hosts of an address that is a port alone: those of the addresses that are listened on
// where none is given.
const (
	AllHosts = ""
	Loopback = "127.0.0.1"
)

// WithHost returns the address to listen on that was given as text: a port alone is on
// host.
func WithHost(text, host string) string {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return net.JoinHostPort(host, text)
	}
	return text
}

// IsLoopback reports whether a HOST:PORT to listen on is loopback. A name
// other than localhost is not: what it resolves to can change.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && host != "" && httpapi.LoopbackHost(host)
}

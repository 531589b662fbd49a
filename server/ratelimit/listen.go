package ratelimit

import (
	"net"
	"strconv"

	"github.com/weirlimit/weir/internal/listen"
)

// listenTCP listens on host and port, which other processes may do too: a new
// process can start before the old one has ended.
func listenTCP(host string, port int) (net.Listener, error) {
	return listen.Open("tcp", net.JoinHostPort(host, strconv.Itoa(port)), shared)
}

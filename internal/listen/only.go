package listen

import (
	"net"
	"net/netip"
)

// onlyListener accepts connections of some peers.
type onlyListener struct {
	net.Listener
	may func(netip.Addr) bool
}

// AcceptOnly returns a listener that closes the connections of peers whom may does not
// let in. Addresses are not mapped and have no zone; peers without one, as on a
// Unix socket, are let in.
func AcceptOnly(ln net.Listener, may func(netip.Addr) bool) net.Listener {
	return onlyListener{ln, may}
}

// Accept implements net.Listener.
func (l onlyListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err != nil && c.RemoteAddr().Network() == "unix" || err == nil && l.may(ap.Addr().Unmap().WithZone("")) {
			return c, nil
		}
		_ = c.Close() // nothing was said on it
	}
}

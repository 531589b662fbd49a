package broker

import (
	"context"
	"crypto/tls"
	"net"
)

// Dial connects to a server, with TLS unless conf is nil.
func Dial(ctx context.Context, conf *tls.Config, network, addr string) (net.Conn, error) {
	if conf == nil {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return (&tls.Dialer{Config: conf}).DialContext(ctx, network, addr)
}

package listen

import "net"

// Wrap returns ln with wrap called for each connection, whose result is accepted in its
// place.
func Wrap(ln net.Listener, wrap func(net.Conn) net.Conn) net.Listener { return wrapListener{ln, wrap} }

// closeWrite ends what is written on c, which is closed where the connection below cannot.
func closeWrite(c, below net.Conn) error {
	if w, ok := below.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Close()
}

type wrapListener struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

// Accept implements net.Listener.
func (l wrapListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(c), nil
}

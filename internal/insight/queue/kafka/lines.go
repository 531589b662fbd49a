package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxDial bounds one attempt to connect.
const maxDial = 10 * time.Second

// lines are a client's connections, so that they can be cut: the client itself
// waits for answers that are under way, however long a broker stands still. Safe
// for concurrent use.
type lines struct {
	tls *tls.Config // nil: none

	mu   sync.Mutex
	cut  bool
	open map[*line]bool
}

// line is a connection.
type line struct {
	net.Conn
	lines *lines
}

// newClient returns a client, and its connections.
func newClient(p *endpoint) (*kgo.Client, *lines, error) {
	l := &lines{tls: p.tls, open: make(map[*line]bool)}
	client, err := kgo.NewClient(append(p.options[:len(p.options):len(p.options)], kgo.Dialer(l.dial))...)
	return client, l, err
}

func (l *lines) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: maxDial}
	dial := dialer.DialContext
	if l.tls != nil {
		dial = (&tls.Dialer{NetDialer: dialer, Config: l.tls}).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		_ = conn.Close() // nothing was written
		return nil, net.ErrClosed
	}
	c := &line{conn, l}
	l.open[c] = true
	return c, nil
}

// cutAll closes all connections, and refuses others.
func (l *lines) cutAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.open {
		_ = c.Conn.Close() // whoever uses it hears of it
	}
}

func (c *line) Close() error {
	c.lines.mu.Lock()
	delete(c.lines.open, c)
	c.lines.mu.Unlock()
	return c.Conn.Close()
}

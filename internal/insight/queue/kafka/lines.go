package kafka

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxDial bounds one attempt to connect.
const maxDial = 10 * time.Second

// line is a connection of a client.
type line struct {
	net.Conn
	forget func() bool
}

// Close implements net.Conn.
func (l *line) Close() error {
	l.forget()
	return l.Conn.Close()
}

// newClient returns a client. The function cuts its connections, and refuses others: the
// client itself waits for answers that are under way, however long a broker stands still.
func newClient(p *endpoint) (*kgo.Client, context.CancelFunc, error) {
	open, cut := context.WithCancel(context.Background())
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, maxDial)
		defer cancel()
		conn, err := p.files.Dial(ctx, &net.Dialer{}, p.tls, network, addr)
		if err != nil {
			return nil, err
		}
		if open.Err() != nil {
			_ = conn.Close() // nothing was written
			return nil, net.ErrClosed
		}
		return &line{conn, context.AfterFunc(open, func() { _ = conn.Close() })}, nil // whoever uses it hears of it
	}
	client, err := kgo.NewClient(append(p.options[:len(p.options):len(p.options)], kgo.Dialer(dial))...)
	return client, cut, err
}

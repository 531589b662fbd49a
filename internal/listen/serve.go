package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Serve calls serve with ln until ctx ends. Then it calls drain, while clients are still
// let in, closes ln, which ends serve, and returns the error of closing. ended reports
// that serve ended before, and err is then why.
func Serve(ctx context.Context, ln net.Listener, serve func(net.Listener) error, drain func()) (ended bool, err error) {
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	select {
	case err := <-served:
		return true, fmt.Errorf("listener %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	drain()
	// The listener alone, before connections are ended: servers cut off those that are
	// accepted at the last moment, and http.Server those that are idle, and with them
	// requests that have just been sent.
	err = ln.Close()
	<-served
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return false, err
}

package memcached

import (
	"errors"
	"io"
	"net"
	"os"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Unreachable reports whether an error of Probe says that servers do not answer, and
// not that one that does cannot be used.
func Unreachable(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if !Unreachable(err) {
				return false
			}
		}
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, io.EOF)
}

// explain returns an error of the queue as callers get it.
func (s *Store) explain(err error) error {
	r, ok := errors.AsType[*transport.Result](err)
	if !ok {
		return err
	}
	switch err = r.Err; {
	case s.closed.Load(), errors.Is(err, weir.ErrClosed):
		return weir.ErrClosed
	case r.Outcome == transport.Rejected, r.Outcome == transport.CallerGone:
		return err
	case r.Outcome == transport.Unsent, r.Excused && errors.Is(err, transport.ErrLate):
		return s.servers[r.Shard].errorf("all connections are in use: raise conns, or add servers: %w", os.ErrDeadlineExceeded)
	case r.Outcome == transport.Open:
		err = s.servers[r.Shard].errorf("it has not answered lately")
	case errors.Is(err, transport.ErrLate):
		err = s.servers[r.Shard].errorf("no answer in time: %w", os.ErrDeadlineExceeded)
	}
	return err
}

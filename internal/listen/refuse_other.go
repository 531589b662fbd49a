//go:build !linux

package listen

import (
	"errors"
	"syscall"
)

// refuseConnects would make a TCP socket that listens deaf to those who begin to connect,
// which this system has no means for.
func refuseConnects(syscall.RawConn) error { return errors.ErrUnsupported }

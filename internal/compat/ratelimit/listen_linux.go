package ratelimit

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// shareAddress lets several processes listen on one address.
func shareAddress(_, _ string, c syscall.RawConn) error {
	var err error
	if ctl := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); ctl != nil {
		return ctl
	}
	return err
}

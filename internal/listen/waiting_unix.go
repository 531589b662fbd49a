//go:build unix

package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// waiting tells whether a connection waits to be accepted, or a byte to be read. A
// socket that is closed has none.
func waiting(socket syscall.RawConn) bool {
	var n int
	err := socket.Control(func(fd uintptr) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // n is -1 then
	})
	return err == nil && n > 0
}

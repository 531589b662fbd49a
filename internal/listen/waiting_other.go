//go:build !unix

package listen

import "syscall"

// waiting tells whether a connection waits to be accepted, or a byte to be read, which this system
// does not say.
func waiting(syscall.RawConn) bool { return false }

//go:build !unix

package listen

import "syscall"

// waiting tells whether a connection waits to be accepted, which this system
// does not say.
func waiting(syscall.RawConn) bool { return false }

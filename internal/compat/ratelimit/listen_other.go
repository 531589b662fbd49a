//go:build !linux

package ratelimit

import "syscall"

// shareAddress does nothing: only Linux shares connections fairly among those who
// listen on one address.
func shareAddress(_, _ string, _ syscall.RawConn) error { return nil }
